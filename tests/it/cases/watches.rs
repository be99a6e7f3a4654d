//! Watching waits: all that match, a mark, then what changes; and a watcher that cannot keep up begins again.

use std::{collections::BTreeMap, time::Duration};

use abeyance::{
    domain::Command,
    proto::v1::{
        self, WaitFilter, WaitSpec, WatchWaitsResponse, detached::Reason, wait::State,
        watch_waits_response::Event,
    },
};
use tokio::time::{sleep, timeout as within};
use tonic::{Code, Streaming};

use super::{
    say::*,
    stage::{Setup, Stage, TestClock},
};

struct Watching(Streaming<WatchWaitsResponse>);

async fn watch(stage: &Stage, filter: WaitFilter) -> Watching {
    let request = v1::WatchWaitsRequest {
        filter: Some(filter),
    };
    Watching(
        stage
            .inbox()
            .watch_waits(request)
            .await
            .expect("watches")
            .into_inner(),
    )
}

fn pending() -> WaitFilter {
    WaitFilter {
        states: vec![State::Pending.into()],
        ..Default::default()
    }
}

impl Watching {
    /// The next event that is no sign of life.
    async fn next(&mut self) -> Option<Event> {
        loop {
            match self
                .0
                .message()
                .await
                .expect("no fault")?
                .event
                .expect("an event")
            {
                Event::Alive(_) => {}
                event => return Some(event),
            }
        }
    }

    async fn wait(&mut self) -> v1::Wait {
        match self.next().await {
            Some(Event::Wait(wait)) => wait,
            other => panic!("not a wait: {other:?}"),
        }
    }

    /// What is told before the mark, by id.
    async fn first_pass(&mut self) -> BTreeMap<String, State> {
        let mut told = BTreeMap::new();
        loop {
            match self.next().await {
                Some(Event::Wait(wait)) => {
                    assert!(
                        told.insert(wait.wait_id.clone(), wait.state()).is_none(),
                        "twice"
                    );
                }
                Some(Event::Synced(_)) => return told,
                other => panic!("neither wait nor mark: {other:?}"),
            }
        }
    }

    /// Asserts that nothing but signs of life comes for a minute of the runtime's time.
    async fn assert_silent(&mut self) {
        let event = within(60 * SECOND, self.next()).await;
        assert!(event.is_err(), "told: {event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_is_then_a_mark_then_what_changes() {
    let stage = Stage::flowing().await;
    let (one, two) = (
        stage.open(spec("approve")).await,
        stage.open(spec("approve")).await,
    );
    stage.resolve(&two.token, "1").await.expect("resolves");
    let mut watching = watch(&stage, WaitFilter::default()).await;
    let told = watching.first_pass().await;
    let expected = [
        (one.wait_id.clone(), State::Pending),
        (two.wait_id, State::Resolved),
    ];
    assert_eq!(told, BTreeMap::from(expected));
    watching.assert_silent().await;

    let three = stage.open(spec("approve")).await;
    let told = watching.wait().await;
    assert_eq!(
        (told.wait_id, told.state),
        (three.wait_id.clone(), State::Pending.into())
    );
    stage.mark_asked(&one.token).await.expect("marks");
    let told = watching.wait().await;
    assert_eq!(told.wait_id, one.wait_id);
    assert!(told.ask_time.is_some());
    stage.fail(&three.token, "no").await.expect("fails");
    let told = watching.wait().await;
    assert_eq!(
        (told.wait_id, told.state),
        (three.wait_id, State::Failed.into())
    );
    // A repeat changes nothing, and nothing is told.
    stage.fail(&three.token, "no").await.expect("fails");
    stage.mark_asked(&one.token).await.expect("marks");
    watching.assert_silent().await;
    // The last one ends by itself.
    let told = within(2 * HOUR, watching.next()).await;
    assert!(told.is_ok(), "an expiry is not told");
}

#[tokio::test(start_paused = true)]
async fn changes_that_come_together_are_told_as_one() {
    let stage = Stage::flowing().await;
    let mut watching = watch(&stage, WaitFilter::default()).await;
    watching.first_pass().await;
    let opened = stage.open(spec("approve")).await;
    stage.mark_asked(&opened.token).await.expect("marks");
    stage
        .resolve(&opened.token, "\"ANSWER-MARK\"")
        .await
        .expect("resolves");
    let told = watching.wait().await;
    assert_eq!(told.state(), State::Resolved);
    // As in lists, there is no payload.
    assert_eq!((told.question, told.outcome), (None, None));
    watching.assert_silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_pending_waits_sees_each_of_them_end() {
    let stage = Stage::flowing().await;
    let settled = stage.open(spec("approve")).await;
    stage.resolve(&settled.token, "1").await.expect("resolves");
    let old = stage.open(spec("approve")).await;
    let short = stage.open(WaitSpec {
        expiry: timeout(10 * SECOND),
        ..spec("approve")
    });
    let short = short.await;
    let mut watching = watch(&stage, pending()).await;
    let told = watching.first_pass().await;
    assert_eq!(told.len(), 2);
    assert!(!told.contains_key(&settled.wait_id));
    let told = watching.wait().await;
    assert_eq!(
        (told.wait_id, told.state),
        (short.wait_id, State::Expired.into())
    );
    stage.cancel(&old.token, "").await.expect("cancels");
    let told = watching.wait().await;
    assert_eq!(
        (told.wait_id, told.state),
        (old.wait_id, State::Cancelled.into())
    );
    watching.assert_silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_young_pending_waits_sees_them_end_when_they_are_old() {
    let stage = Stage::flowing().await;
    let opened = stage.open(spec("approve")).await;
    let young = WaitFilter {
        max_age: Some(duration(60 * SECOND)),
        ..pending()
    };
    let mut watching = watch(&stage, young).await;
    assert_eq!(watching.first_pass().await.len(), 1);
    sleep(120 * SECOND).await;
    stage.resolve(&opened.token, "1").await.expect("resolves");
    let told = within(60 * SECOND, watching.wait())
        .await
        .expect("its end is told");
    assert_eq!(told.state(), State::Resolved);
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_only_what_its_filter_asks_for() {
    let stage = Stage::flowing().await;
    let filter = WaitFilter {
        states: vec![State::Failed.into()],
        labels: labels([("team", "a")]),
        name: "approve".to_owned(),
        ..Default::default()
    };
    let mut watching = watch(&stage, filter).await;
    assert!(watching.first_pass().await.is_empty());
    let of_team = |name: &str, team: &str, namespace: &str| WaitSpec {
        labels: labels([("team", team)]),
        namespace: namespace.to_owned(),
        ..spec(name)
    };
    for other in [
        of_team("approve", "b", ""),
        of_team("deny", "a", ""),
        of_team("approve", "a", "x"),
    ] {
        let token = stage.open(other).await.token;
        stage.fail(&token, "no").await.expect("fails");
    }
    let resolved = stage.open(of_team("approve", "a", "")).await;
    stage.resolve(&resolved.token, "1").await.expect("resolves");
    watching.assert_silent().await;
    let failed = stage.open(of_team("approve", "a", "")).await;
    stage.fail(&failed.token, "no").await.expect("fails");
    assert_eq!(watching.wait().await.wait_id, failed.wait_id);
}

#[tokio::test(start_paused = true)]
async fn no_change_is_told_of_an_overdue_wait_as_pending() {
    let stage = Stage::standing().await;
    let mut watching = watch(&stage, WaitFilter::default()).await;
    watching.first_pass().await;
    // The change is still being gathered when the clock jumps past the wait's end.
    let opened = stage.open(spec("approve")).await;
    stage.clock.advance(2 * HOUR);
    let told = watching.wait().await;
    assert_eq!(
        (told.wait_id, told.state),
        (opened.wait_id, State::Expired.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_gives_signs_of_life_until_its_lifetime_is_over() {
    let mut setup = Setup::memory(TestClock::flowing());
    setup.grpc.alive_interval = Duration::from_secs(5);
    setup.grpc.stream_lifetime = Duration::from_secs(60);
    let stage = setup.start().await;
    let mut watching = watch(&stage, WaitFilter::default()).await;
    let mut alive = 0;
    let detached = loop {
        let message = watching.0.message().await.expect("no fault");
        match message.expect("more").event {
            Some(Event::Alive(_)) => alive += 1,
            Some(Event::Synced(_)) => {}
            Some(Event::Detached(detached)) => break detached,
            other => panic!("unexpected: {other:?}"),
        }
    };
    assert_eq!(detached.reason(), Reason::Lifetime);
    assert!((10..=14).contains(&alive), "{alive} in about a minute");
    assert!(watching.next().await.is_none(), "ends with OK");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_deadline_and_with_a_drain() {
    let stage = Stage::flowing().await;
    let mut request = tonic::Request::new(v1::WatchWaitsRequest::default());
    request.set_timeout(3 * SECOND);
    let bounded = stage.inbox().watch_waits(request).await.expect("watches");
    let mut bounded = bounded.into_inner();
    assert!(bounded.message().await.is_ok(), "the mark");
    refused(bounded.message().await).assert(Code::DeadlineExceeded, "DEADLINE_EXCEEDED");

    let mut watching = watch(&stage, WaitFilter::default()).await;
    watching.first_pass().await;
    stage.broker.begin_drain();
    match watching.next().await {
        Some(Event::Detached(detached)) => assert_eq!(detached.reason(), Reason::Drain),
        other => panic!("not detached: {other:?}"),
    }
    refused(watching.0.message().await).assert(Code::Unavailable, "SHUTTING_DOWN");
    let another = v1::WatchWaitsRequest::default();
    let another = stage.inbox().watch_waits(another).await;
    refused(another).assert(Code::Unavailable, "SHUTTING_DOWN");
}

/// A wait whose summary is about 16 KiB, and that changes with each heartbeat.
fn fat() -> WaitSpec {
    WaitSpec {
        labels: (0..64).map(|n| (n.to_string(), "x".repeat(250))).collect(),
        heartbeat_timeout: Some(duration(HOUR)),
        ..spec("approve")
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_falls_behind_is_let_go_and_begins_again() {
    let mut setup = Setup::memory(TestClock::flowing());
    setup.window = 64 << 10;
    let stage = setup.start().await;
    let mut tokens = Vec::new();
    for _ in 0..100 {
        let token = stage.open(fat()).await.token;
        stage.mark_asked(&token).await.expect("marks");
        tokens.push(token);
    }
    let mut watching = watch(&stage, WaitFilter::default()).await;
    assert_eq!(watching.first_pass().await.len(), 100);

    // 20,000 changes of which nothing is read.
    for _ in 0..200 {
        for token in &tokens {
            stage
                .broker
                .apply(token, Command::Heartbeat)
                .await
                .expect("beats");
        }
        sleep(Duration::from_millis(30)).await;
    }
    // What was on its way still comes: windows and buffers, not a queue of all that happened. Then the broker lets go.
    let mut told = 0;
    let detached = loop {
        match watching.next().await {
            Some(Event::Wait(_)) => told += 1,
            Some(Event::Detached(detached)) => break detached,
            other => panic!("unexpected: {other:?}"),
        }
    };
    assert_eq!(detached.reason(), Reason::Lagged);
    assert!(told < 400, "{told} of 20,000 changes were held for it");
    assert!(watching.next().await.is_none(), "ends with OK");

    stage.resolve(&tokens[0], "1").await.expect("resolves");
    let told = watch(&stage, WaitFilter::default())
        .await
        .first_pass()
        .await;
    assert_eq!(told.len(), 100);
    let resolved = told.values().filter(|state| **state == State::Resolved);
    assert_eq!(resolved.count(), 1);
}
