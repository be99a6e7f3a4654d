//! Reads: they see every commit, and lists are bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use abeyance::{
    domain::{
        Command, State, Summary,
        limits::{Labels, Name},
    },
    store::{Found, LIST_BYTES, LIST_SCAN_ROWS, Query},
};
use tokio::task::JoinSet;

use super::every;
use crate::store_fixture::{
    Env, SECOND, START, cancel, fail, key, labels, namespace, question, resolve,
};

pub async fn what_was_committed_is_read_at_once(env: Env) {
    let mut tasks = JoinSet::new();
    for n in 0..50 {
        let mut new = env.new_wait();
        new.spec.key = Some(key(&n.to_string()));
        let store = Arc::clone(&env.store);
        tasks.spawn(async move {
            let (id, name) = (new.id, new.spec.key.clone().expect("keyed"));
            store.open(new).await.expect("open");
            let found = store.find(namespace(""), name).await.expect("find");
            assert!(matches!(found, Found::Wait(wait) if wait.record.id == id));
            let applied = store.apply(id, resolve("1")).await.expect("apply");
            let loaded = store.load(id).await.expect("load").expect("there");
            assert_eq!(Some(loaded.record), applied.map(|a| a.record));
            let listed = store.list(every(100)).await.expect("list").waits;
            let mine = listed.iter().find(|s| s.record.id == id);
            assert_eq!(mine.map(Summary::state), Some(State::Resolved));
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("passes");
    }
}

pub async fn a_list_goes_from_new_to_old_page_by_page(env: Env) {
    let mut made = Vec::new();
    for n in 0..7 {
        env.clock.advance(SECOND);
        let mut new = env.new_wait();
        new.question = Some(question("\"what?\""));
        let id = env.create(new).await.record.id;
        if n % 2 == 0 {
            env.apply(id, resolve("\"that\"")).await;
        }
        made.push(id);
    }
    made.reverse();

    let mut query = every(3);
    let mut seen = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let page = env.store.list(query.clone()).await.expect("list");
        sizes.push(page.waits.len());
        for summary in page.waits {
            // Neither question nor answer is in a list; the rest is as it stands.
            assert_eq!(summary, Summary::from(env.load(summary.record.id).await));
            assert_eq!(
                (&summary.record.question, &summary.record.outcome),
                (&None, &None)
            );
            seen.push(summary.record.id);
        }
        match page.next {
            Some(next) => query.before = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, made);
    assert_eq!(sizes, [3, 3, 1]);

    let whole = env.store.list(every(7)).await.expect("list");
    assert_eq!((whole.waits.len(), whole.next), (7, None));
}

pub async fn a_list_shows_what_is_asked_for(env: Env) {
    let mut ids = Vec::new();
    for (n, command) in [
        None,
        Some(resolve("1")),
        Some(fail("")),
        Some(cancel("")),
        Some(Command::Expire),
        None,
    ]
    .into_iter()
    .enumerate()
    {
        env.clock.set(START.after(SECOND * n as u32));
        let mut new = env.new_wait();
        new.spec.labels = labels([("n", &n.to_string()), ("team", "a")]);
        if n == 0 {
            new.spec.name = Name::new("other").expect("a name");
        }
        if matches!(command, Some(Command::Expire)) {
            new.lifetime = Duration::ZERO;
        }
        ids.push(env.create(new).await.record.id);
        if let Some(command) = command {
            env.apply(ids[n], command).await;
        }
    }
    let mut elsewhere = env.new_wait();
    elsewhere.spec.namespace = namespace("elsewhere");
    env.create(elsewhere).await;
    // An overdue wait that nobody met is pending here.
    env.clock.advance(Duration::from_secs(86_400));

    let label = |k: &str, v: &str| BTreeMap::from([(k.to_owned(), v.to_owned())]);
    let base = every(100);
    let queries = [
        (base.clone(), vec![5, 4, 3, 2, 1, 0]),
        (
            Query {
                states: vec![State::Pending],
                ..base.clone()
            },
            vec![5, 0],
        ),
        (
            Query {
                states: vec![State::Resolved],
                ..base.clone()
            },
            vec![1],
        ),
        (
            Query {
                states: vec![State::Failed, State::Cancelled],
                ..base.clone()
            },
            vec![3, 2],
        ),
        (
            Query {
                states: vec![State::Expired, State::Pending],
                ..base.clone()
            },
            vec![5, 4, 0],
        ),
        (
            Query {
                name: Some(Name::new("other").expect("a name")),
                ..base.clone()
            },
            vec![0],
        ),
        (
            Query {
                labels: label("team", "a"),
                ..base.clone()
            },
            vec![5, 4, 3, 2, 1, 0],
        ),
        (
            Query {
                labels: label("n", "3"),
                ..base.clone()
            },
            vec![3],
        ),
        (
            Query {
                labels: label("n", ""),
                ..base.clone()
            },
            vec![],
        ),
        (
            Query {
                created_until: Some(START.after(SECOND * 2)),
                ..base.clone()
            },
            vec![2, 1, 0],
        ),
        (
            Query {
                created_from: Some(START.after(SECOND * 4)),
                ..base.clone()
            },
            vec![5, 4],
        ),
        (
            Query {
                before: Some(ids[2]),
                ..base.clone()
            },
            vec![1, 0],
        ),
        (
            Query {
                before: Some(ids[5]),
                states: vec![State::Pending],
                ..base.clone()
            },
            vec![0],
        ),
        (
            Query {
                namespace: namespace("nobody"),
                ..base
            },
            vec![],
        ),
    ];
    for (query, expected) in queries {
        let page = env.store.list(query.clone()).await.expect("list");
        let expected: Vec<_> = expected.into_iter().map(|n: usize| ids[n]).collect();
        let listed: Vec<_> = page.waits.iter().map(|s| s.record.id).collect();
        assert_eq!(listed, expected, "{query:?}");
    }
}

pub async fn a_list_looks_at_a_bounded_number_of_rows(env: Env) {
    let oldest = env.create(env.new_wait()).await.record.id;
    let mut opens = JoinSet::new();
    for _ in 0..LIST_SCAN_ROWS {
        env.clock.advance(Duration::from_millis(1));
        let mut new = env.new_wait();
        new.spec.name = Name::new("crowd").expect("a name");
        let store = Arc::clone(&env.store);
        opens.spawn(async move { store.open(new).await });
    }
    while let Some(opened) = opens.join_next().await {
        opened.expect("not cancelled").expect("open");
    }
    for states in [vec![], vec![State::Pending]] {
        let query = Query {
            states,
            name: Some(Name::new("approve").expect("a name")),
            ..every(10)
        };
        let first = env.store.list(query.clone()).await.expect("list");
        assert_eq!(first.waits.len(), 0);
        let before = first.next;
        assert!(before.is_some(), "there is more behind");
        let second = env
            .store
            .list(Query { before, ..query })
            .await
            .expect("list");
        assert_eq!(second.waits[0].record.id, oldest);
        assert_eq!(second.next, None);
    }
}

/// gRPC clients refuse what is larger than 4 MiB, so no number of long labels may make a page that large.
pub async fn a_page_is_bounded_in_bytes(env: Env) {
    let long: BTreeMap<_, _> = (0..Labels::MAX)
        .map(|n| (format!("{n:063}"), "\u{1f600}".repeat(256)))
        .collect();
    let mut made = BTreeSet::new();
    for _ in 0..40 {
        let mut new = env.new_wait();
        new.spec.labels = Labels::new("labels", long.clone()).expect("within the limits");
        made.insert(env.create(new).await.record.id);
    }
    let mut query = every(1000);
    let mut seen = BTreeSet::new();
    let mut pages = 0;
    loop {
        let page = env.store.list(query.clone()).await.expect("list");
        let sizes: Vec<_> = page.waits.iter().map(Summary::size).collect();
        // The one that reaches the bound is on the page.
        let largest = sizes.iter().max().expect("no page is empty");
        assert!(sizes.iter().sum::<usize>() < LIST_BYTES + largest);
        seen.extend(page.waits.iter().map(|wait| wait.record.id));
        pages += 1;
        match page.next {
            Some(before) => query.before = Some(before),
            None => break,
        }
    }
    assert_eq!(seen, made);
    assert!(pages > 1, "all on one page");
}
