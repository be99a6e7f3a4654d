//! Lists of waits: each matching one exactly once, none overdue shown as pending, nothing secret in any.

use super::{
    say::*,
    stage::{Setup, Stage, TestClock},
};
use abeyance::{
    broker::Open,
    domain::{
        Spec,
        deadline::Wish,
        limits::{Labels, Name, Namespace},
    },
    proto::v1::{self, ListWaitsRequest, WaitFilter, WaitSpec, wait::State},
    store::LIST_SCAN_ROWS,
};

fn named(name: &str) -> WaitFilter {
    WaitFilter {
        name: name.to_owned(),
        ..Default::default()
    }
}

fn in_state(state: State) -> WaitFilter {
    WaitFilter {
        states: vec![state.into()],
        ..Default::default()
    }
}

async fn page(stage: &Stage, filter: &WaitFilter, size: i32, token: &str) -> v1::ListWaitsResponse {
    let request = ListWaitsRequest {
        filter: Some(filter.clone()),
        page_size: size,
        page_token: token.to_owned(),
    };
    stage
        .inbox()
        .list_waits(request)
        .await
        .expect("lists")
        .into_inner()
}

/// All that a filter gives, page by page to the end, and how many pages that took.
async fn all(stage: &Stage, filter: &WaitFilter, size: i32) -> (Vec<v1::Wait>, usize) {
    let (mut waits, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = page(stage, filter, size, &token).await;
        assert!(size <= 0 || page.waits.len() <= usize::try_from(size).expect("positive"));
        waits.extend(page.waits);
        pages += 1;
        if page.next_page_token.is_empty() {
            return (waits, pages);
        }
        token = page.next_page_token;
    }
}

fn ids(waits: &[v1::Wait]) -> Vec<&str> {
    waits.iter().map(|w| &*w.wait_id).collect()
}

/// 120 waits of three names, four teams and five states, a second between each two.
async fn many(stage: &Stage) -> Vec<v1::Wait> {
    let mut waits = Vec::new();
    for number in 0..120 {
        let expiry = if number % 5 == 3 {
            timeout(SECOND / 2)
        } else {
            timeout(DAY)
        };
        let opened = stage.open(WaitSpec {
            expiry,
            labels: labels([("team", ["a", "b", "c", "d"][number % 4]), ("all", "")]),
            namespace: if number % 6 == 0 { "other" } else { "" }.to_owned(),
            ..spec(["one", "two", "three"][number % 3])
        });
        let token = opened.await.token;
        stage.clock.advance(SECOND);
        match number % 5 {
            0 => drop(stage.resolve(&token, "1").await.expect("resolves")),
            1 => drop(stage.fail(&token, "no").await.expect("fails")),
            2 => drop(stage.cancel(&token, "").await.expect("cancels")),
            _ => {}
        }
        waits.push(stage.describe(&token).await);
    }
    waits
}

fn filters() -> Vec<WaitFilter> {
    vec![
        WaitFilter::default(),
        named("two"),
        in_state(State::Pending),
        in_state(State::Expired),
        WaitFilter {
            states: vec![State::Failed.into(), State::Cancelled.into()],
            ..named("one")
        },
        WaitFilter {
            labels: labels([("team", "c"), ("all", "")]),
            ..Default::default()
        },
        WaitFilter {
            namespace: "other".to_owned(),
            ..in_state(State::Resolved)
        },
        WaitFilter {
            labels: labels([("team", "")]),
            ..Default::default()
        },
    ]
}

/// Whether a wait is among those asked for, as the contract says it.
fn is_asked_for(filter: &WaitFilter, wait: &v1::Wait) -> bool {
    let namespace = match &*filter.namespace {
        "" => "default",
        given => given,
    };
    let mut labels = filter.labels.iter();
    wait.namespace == namespace
        && (filter.states.is_empty() || filter.states.contains(&wait.state))
        && (filter.name.is_empty() || filter.name == wait.name)
        && labels.all(|(k, v)| wait.labels.get(k) == Some(v))
}

async fn each_exactly_once(stage: Stage) {
    let waits = many(&stage).await;
    for filter in filters() {
        // Newest first, without payloads.
        let asked_for = waits.iter().rev().filter(|w| is_asked_for(&filter, w));
        let expected: Vec<_> = asked_for
            .map(|w| v1::Wait {
                question: None,
                outcome: None,
                ..w.clone()
            })
            .collect();
        for size in [1, 7, 0, 5000] {
            let (listed, _) = all(&stage, &filter, size).await;
            assert_eq!(ids(&listed), ids(&expected), "{filter:?} by {size}");
            assert_eq!(listed, expected);
        }
    }
}

#[tokio::test]
async fn a_list_gives_each_wait_exactly_once_in_memory() {
    each_exactly_once(Stage::standing().await).await;
}

#[tokio::test]
async fn a_list_gives_each_wait_exactly_once_in_sqlite() {
    each_exactly_once(Setup::sqlite(TestClock::standing()).start().await).await;
}

#[tokio::test]
async fn waits_that_come_and_end_between_pages_disturb_no_list() {
    let stage = Stage::standing().await;
    let mut tokens = Vec::new();
    for _ in 0..20 {
        tokens.push(stage.open(spec("approve")).await);
        stage.clock.advance(SECOND);
    }
    let filter = WaitFilter::default();
    let (mut listed, mut next) = (Vec::new(), String::new());
    for step in 0.. {
        let page = page(&stage, &filter, 3, &next).await;
        listed.extend(page.waits);
        next = page.next_page_token;
        if next.is_empty() {
            break;
        }
        stage.open(spec("newer")).await;
        stage
            .resolve(&tokens[step].token, "1")
            .await
            .expect("resolves");
    }
    let mut expected: Vec<_> = tokens.iter().map(|t| &*t.wait_id).collect();
    expected.reverse();
    assert_eq!(ids(&listed), expected);
}

#[tokio::test]
async fn an_overdue_wait_is_never_shown_as_pending() {
    let stage = Stage::standing().await;
    let short = WaitSpec {
        expiry: timeout(SECOND),
        ..spec("approve")
    };
    let short = stage.open(short).await;
    let long = stage.open(spec("approve")).await;
    let wait_id = || short.wait_id.clone();
    stage.clock.advance(2 * SECOND);
    // No sweep has come by: the lists themselves meet it.
    let (listed, _) = all(&stage, &in_state(State::Pending), 0).await;
    assert_eq!(ids(&listed), [&*long.wait_id]);
    let (listed, _) = all(&stage, &WaitFilter::default(), 0).await;
    let overdue = listed
        .iter()
        .find(|w| w.wait_id == wait_id())
        .expect("listed");
    assert_eq!(overdue.state(), State::Expired);
    assert!(overdue.settle_time.is_some());
    let request = v1::GetWaitRequest { wait_id: wait_id() };
    let wait = stage
        .inbox()
        .get_wait(request)
        .await
        .expect("gets")
        .into_inner()
        .wait;
    assert_eq!(wait.expect("a wait").state(), State::Expired);
}

#[tokio::test]
async fn a_list_of_expired_waits_holds_those_that_nobody_met_yet() {
    let stage = Stage::standing().await;
    let short = stage.open(WaitSpec {
        expiry: timeout(SECOND),
        ..spec("approve")
    });
    let short = short.await;
    stage.clock.advance(2 * SECOND);
    let (listed, _) = all(&stage, &in_state(State::Expired), 0).await;
    assert_eq!(ids(&listed), [&*short.wait_id]);
}

#[tokio::test]
async fn page_sizes_are_cut_and_what_is_none_is_refused() {
    let stage = Stage::standing().await;
    for _ in 0..1010 {
        stage.broker.open(common()).await.expect("opens");
    }
    for (asked, given) in [
        (0, 50),
        (1, 1),
        (1000, 1000),
        (1001, 1000),
        (i32::MAX, 1000),
    ] {
        let page = page(&stage, &WaitFilter::default(), asked, "").await;
        assert_eq!(page.waits.len(), given, "{asked}");
        assert!(!page.next_page_token.is_empty());
    }
    let bad = |request: ListWaitsRequest| {
        let mut inbox = stage.inbox();
        async move { refused(inbox.list_waits(request).await) }
    };
    let negative = ListWaitsRequest {
        page_size: -1,
        ..Default::default()
    };
    assert_eq!(bad(negative).await.names(), ["page_size"]);
    let token = ListWaitsRequest {
        page_token: "2".to_owned(),
        ..Default::default()
    };
    assert_eq!(bad(token).await.names(), ["page_token"]);
    let filter = WaitFilter {
        namespace: "A".to_owned(),
        states: vec![1, 0, 99],
        labels: labels([("", "")]),
        ..named("a\n")
    };
    let filter = ListWaitsRequest {
        filter: Some(filter),
        ..Default::default()
    };
    let expected = [
        "filter.namespace",
        "filter.name",
        "filter.labels[\"\"]",
        "filter.states[1]",
        "filter.states[2]",
    ];
    assert_eq!(bad(filter).await.names(), expected);
}

/// A wait that nothing is remarkable of.
fn common() -> Open {
    Open {
        spec: Spec {
            namespace: Namespace::new("").expect("a namespace"),
            name: Name::new("common").expect("a name"),
            key: None,
            labels: Labels::default(),
        },
        wish: Wish::NoTimeout,
        heartbeat_timeout: None,
        question: None,
        question_later: false,
        request_id: None,
    }
}

#[tokio::test]
async fn a_page_may_be_empty_and_have_more_behind_it() {
    let stage = Stage::standing().await;
    let oldest = stage.open(spec("rare")).await;
    stage.clock.advance(SECOND);
    // Not over the wire, for speed.
    for _ in 0..LIST_SCAN_ROWS + 10 {
        stage.broker.open(common()).await.expect("opens");
    }
    let first = page(&stage, &named("rare"), 0, "").await;
    assert!(first.waits.is_empty() && !first.next_page_token.is_empty());
    let (listed, pages) = all(&stage, &named("rare"), 0).await;
    assert_eq!((ids(&listed), pages), (vec![&*oldest.wait_id], 2));
}

#[tokio::test]
async fn ages_are_counted_from_the_open() {
    let stage = Stage::standing().await;
    let mut opened = Vec::new();
    for _ in 0..5 {
        opened.push(stage.open(spec("approve")).await.wait_id);
        stage.clock.advance(60 * SECOND);
    }
    // Their ages are five, four, three, two and one minute.
    let aged = |min: Option<u32>, max: Option<u32>| WaitFilter {
        min_age: min.map(|m| duration(m * 60 * SECOND)),
        max_age: max.map(|m| duration(m * 60 * SECOND)),
        ..Default::default()
    };
    for (filter, expected) in [
        (aged(Some(4), None), vec![1, 0]),
        (aged(None, Some(2)), vec![4, 3]),
        (aged(Some(2), Some(4)), vec![3, 2, 1]),
        (aged(Some(6), None), vec![]),
    ] {
        let (listed, _) = all(&stage, &filter, 2).await;
        let expected: Vec<_> = expected.iter().map(|n| &*opened[*n]).collect();
        assert_eq!(ids(&listed), expected, "{filter:?}");
    }
}
