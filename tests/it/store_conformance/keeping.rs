//! How long waits are kept: over restarts, until a purge.

use std::{sync::Arc, time::Duration};

use abeyance::{
    domain::{Command, Refusal, State},
    store::{Error, Found, Opened, Purged},
};
use tokio::task::JoinSet;

use super::every;
use crate::store_fixture::{
    Env, SECOND, START, cancel, fail, key, namespace, question, request_id, resolve,
};

pub async fn a_purge_takes_what_was_settled_long_enough_ago(env: Env) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        let id = env.create(env.new_wait()).await.record.id;
        env.apply(id, resolve("1")).await;
        ids.push(id);
        env.clock.advance(SECOND);
    }
    let pending = env.create(env.new_wait()).await.record.id;
    env.clock.set(START.after(SECOND * 13));
    let purge = |limit| env.store.purge(SECOND * 10, SECOND * 100, limit);
    // Settled 13, 12, 11, 10 and 9 seconds ago; longer than 10 are three.
    let counts = |waits| Purged {
        waits,
        tombstones: 0,
    };
    assert_eq!(purge(2).await.expect("purge"), counts(2));
    assert_eq!(env.store.load(ids[1]).await.expect("load"), None);
    assert!(env.store.load(ids[2]).await.expect("load").is_some());
    assert_eq!(purge(9).await.expect("purge"), counts(1));
    assert_eq!(purge(9).await.expect("purge"), counts(0));
    assert!(env.store.load(ids[3]).await.expect("load").is_some());
    assert!(env.store.load(pending).await.expect("load").is_some());
    let gone = env.store.apply(ids[0], resolve("1")).await.expect("apply");
    assert!(gone.is_none());
    assert_eq!(env.store.list(every(9)).await.expect("list").waits.len(), 3);

    // Many, in one call.
    let mut opens = JoinSet::new();
    for _ in 0..600 {
        let (store, new) = (Arc::clone(&env.store), env.new_wait());
        opens.spawn(async move {
            let id = new.id;
            store.open(new).await.expect("open");
            store.apply(id, cancel("")).await.expect("apply");
        });
    }
    while let Some(done) = opens.join_next().await {
        done.expect("passes");
    }
    env.clock.advance(SECOND * 11);
    assert_eq!(purge(550).await.expect("purge"), counts(550));
    assert_eq!(purge(550).await.expect("purge"), counts(52));
}

pub async fn a_purged_key_leaves_a_tombstone_and_a_request_id_none(env: Env) {
    let mut keyed = env.new_wait();
    keyed.spec.key = Some(key("k"));
    let mut unkeyed = env.new_wait();
    unkeyed.request_id = Some(request_id("r"));
    for new in [&keyed, &unkeyed] {
        let id = env.create(new.clone()).await.record.id;
        env.apply(id, resolve("1")).await;
    }
    env.clock.advance(SECOND * 11);
    let purge = || env.store.purge(SECOND * 10, SECOND * 100, 9);
    let counts = |waits, tombstones| Purged { waits, tombstones };
    assert_eq!(purge().await.expect("purge"), counts(2, 0));

    let opened = env.store.open(keyed.clone()).await.expect("open");
    assert!(matches!(opened, Opened::Refused(Refusal::KeyPurged)));
    let find = |text| env.store.find(namespace(text), key("k"));
    assert!(matches!(find("").await, Ok(Found::Tombstone)));
    assert!(matches!(find("elsewhere").await, Ok(Found::Nothing)));
    env.create(unkeyed).await;

    env.clock.advance(SECOND * 100);
    assert_eq!(
        purge().await.expect("purge"),
        counts(0, 0),
        "not longer than"
    );
    env.clock.advance(SECOND);
    assert_eq!(purge().await.expect("purge"), counts(0, 1));
    assert!(matches!(find("").await, Ok(Found::Nothing)));
    env.create(keyed).await;
}

pub async fn everything_is_there_after_a_restart(env: Env) {
    let mut waits = Vec::new();
    for (n, command) in [
        Command::MarkAsked,
        Command::SetQuestion(question("1")),
        resolve("[]"),
        fail("no"),
        cancel("no"),
        Command::Expire,
    ]
    .into_iter()
    .enumerate()
    {
        let mut new = env.new_wait();
        new.spec.key = Some(key(&n.to_string()));
        new.question_later = matches!(command, Command::SetQuestion(_));
        new.heartbeat_timeout = Some(Duration::from_secs(60));
        if matches!(command, Command::Expire) {
            new.lifetime = Duration::ZERO;
        }
        let mut wait = env.create(new).await;
        wait.record = env.apply(wait.record.id, command).await.record;
        waits.push(wait);
    }
    let purged = {
        let mut new = env.new_wait();
        new.spec.key = Some(key("purged"));
        new
    };
    let listed = env.store.list(every(99)).await.expect("list").waits;
    let id = env.create(purged.clone()).await.record.id;
    env.apply(id, resolve("1")).await;
    env.clock.advance(Duration::from_secs(1));
    // Only that one is taken.
    let taken = env.store.purge(Duration::ZERO, SECOND * 100, 9).await;
    assert_eq!(taken.expect("purge").waits, 5);
    waits.retain(|w| w.record.state() == State::Pending);

    let env = env.restart().await;

    for wait in &waits {
        assert_eq!(env.load(wait.record.id).await, *wait);
    }
    let now_listed = env.store.list(every(99)).await.expect("list").waits;
    assert_eq!(now_listed.len(), 2);
    assert!(now_listed.iter().all(|s| listed.contains(s)));
    let opened = env.store.open(purged).await.expect("open");
    assert!(matches!(opened, Opened::Refused(Refusal::KeyPurged)));
    assert_eq!(env.heard.count(), 0, "a start commits nothing");
}

pub async fn a_closed_store_says_so(env: Env) {
    let new = env.new_wait();
    let id = env.create(new.clone()).await.record.id;
    env.store.close().await;
    env.store.close().await;
    let unavailable = |e: &Error| matches!(e, Error::Unavailable(_));
    assert!(unavailable(&env.store.open(new).await.expect_err("closed")));
    let applied = env.store.apply(id, resolve("1")).await;
    assert!(unavailable(&applied.expect_err("closed")));
    assert!(unavailable(&env.store.load(id).await.expect_err("closed")));
    let found = env.store.find(namespace(""), key("k")).await;
    assert!(unavailable(&found.expect_err("closed")));
    assert!(unavailable(
        &env.store.list(every(1)).await.expect_err("closed")
    ));
    assert!(unavailable(&env.store.due(1).await.expect_err("closed")));
    let purged = env.store.purge(SECOND, SECOND, 1).await;
    assert!(unavailable(&purged.expect_err("closed")));
}
