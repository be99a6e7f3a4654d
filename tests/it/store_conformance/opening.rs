//! What an open gives: a new wait, or the one that is there.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use abeyance::{
    domain::{Refusal, State, TimeoutSource, limits::Name},
    store::{Found, Opened},
};
use tokio::task::JoinSet;

use crate::store_fixture::{
    Env, SECOND, START, key, labels, namespace, question, request_id, resolve,
};

pub async fn a_new_wait_is_kept_as_it_was_given(env: Env) {
    let mut new = env.new_wait();
    new.token_key = 200;
    new.spec.namespace = namespace("team-a");
    new.spec.name = Name::new("pay \u{1f4b8} 'quoted\"").expect("a name");
    new.spec.key = Some(key("run 7/step 3"));
    new.spec.labels = labels([("team", "a"), ("empty", ""), ("sign", "%_'\"\\")]);
    new.timeout = Duration::from_micros(1_500_001);
    new.lifetime = Duration::from_micros(1_400_001);
    new.timeout_source = TimeoutSource::Deadline;
    new.heartbeat_timeout = Some(Duration::from_micros(7));
    new.question = Some(question(" {\"n\": 9007199254740993, \"x\": 1.0} "));
    let given = new.clone();

    let wait = env.create(new).await;

    let record = &wait.record;
    assert_eq!(wait.spec, given.spec);
    assert_eq!(wait.token_key, 200);
    assert_eq!((record.id, record.state()), (given.id, State::Pending));
    assert_eq!((record.create_time, record.last_time), (START, START));
    assert_eq!(record.expire_time, START.after(given.lifetime));
    assert_eq!(record.timeout, given.timeout);
    assert_eq!(record.timeout_source, TimeoutSource::Deadline);
    assert_eq!(record.heartbeat_timeout, given.heartbeat_timeout);
    assert_eq!(record.question, given.question);
    assert_eq!((record.ask_time, record.heartbeat_time), (None, None));
    assert_eq!(env.load(given.id).await, wait);
    let found = env.store.find(namespace("team-a"), key("run 7/step 3"));
    assert!(matches!(found.await, Ok(Found::Wait(found)) if *found == wait));
    let elsewhere = env.store.find(namespace(""), key("run 7/step 3"));
    assert!(matches!(elsewhere.await, Ok(Found::Nothing)));
}

pub async fn lengths_are_cut_to_microseconds(env: Env) {
    let mut new = env.new_wait();
    new.timeout = Duration::from_nanos(5_000_999);
    new.heartbeat_timeout = Some(Duration::from_nanos(1_999));
    let wait = env.create(new).await;
    assert_eq!(wait.record.timeout, Duration::from_micros(5_000));
    assert_eq!(env.load(wait.record.id).await, wait);
}

pub async fn a_key_gives_the_wait_that_has_it(env: Env) {
    let mut new = env.new_wait();
    new.spec.key = Some(key("k"));
    new.question = Some(question("{\"a\":1,\"b\":2}"));
    let first = env.create(new.clone()).await;
    env.clock.advance(SECOND);

    // Timeout and labels of a re-open are ignored, and so is a request_id; an equal question may be written otherwise.
    let mut again = env.new_wait();
    again.spec.key = Some(key("k"));
    again.question = Some(question("{ \"b\": 2, \"a\": 1 }"));
    again.spec.labels = labels([("x", "y")]);
    again.timeout = SECOND;
    again.lifetime = SECOND;
    again.request_id = Some(request_id("r"));
    let opened = env.store.open(again.clone()).await.expect("open");
    assert!(matches!(opened, Opened::Resumed(wait) if wait == first));

    env.apply(first.record.id, resolve("true")).await;
    let opened = env.store.open(again.clone()).await.expect("open");
    assert!(matches!(opened, Opened::Resumed(wait) if wait.record.state() == State::Resolved));
    assert_eq!(env.store.load(again.id).await.expect("load"), None);
    assert_eq!(env.heard.count(), 2, "a re-open is no commit");
}

pub async fn a_key_belongs_to_one_name_and_question_of_one_namespace(env: Env) {
    let mut new = env.new_wait();
    new.spec.key = Some(key("k"));
    new.question = Some(question("1"));
    let first = env.create(new.clone()).await;

    let mut other_name = new.clone();
    other_name.id = env.new_wait().id;
    other_name.spec.name = Name::new("other").expect("a name");
    let mut other_question = new.clone();
    other_question.question = Some(question("1.0"));
    let mut no_question = new.clone();
    no_question.question = None;
    let mut later = no_question.clone();
    later.question_later = true;
    for (conflict, field) in [
        (other_name, "name"),
        (other_question, "question"),
        (no_question, "question"),
        (later, "question"),
    ] {
        let opened = env.store.open(conflict).await.expect("open");
        let wait_id = first.record.id;
        assert!(
            matches!(&opened, Opened::Refused(r) if *r == Refusal::KeyConflict { wait_id, field }),
            "{opened:?}"
        );
    }
    let mut elsewhere = new;
    elsewhere.id = env.new_wait().id;
    elsewhere.spec.namespace = namespace("elsewhere");
    env.create(elsewhere).await;
    assert_eq!(env.load(first.record.id).await, first);
}

pub async fn a_request_id_gives_the_wait_that_has_it_where_there_is_no_key(env: Env) {
    let with_id = || {
        let mut new = env.new_wait();
        new.request_id = Some(request_id("r"));
        new
    };
    let first = env.create(with_id()).await;
    let opened = env.store.open(with_id()).await.expect("open");
    assert!(matches!(opened, Opened::Resumed(wait) if wait == first));

    let mut other = with_id();
    other.spec.name = Name::new("other").expect("a name");
    let opened = env.store.open(other).await.expect("open");
    let wait_id = first.record.id;
    assert!(
        matches!(opened, Opened::Refused(r) if r == Refusal::RequestIdReused { wait_id }),
        "another body"
    );

    let mut elsewhere = with_id();
    elsewhere.spec.namespace = namespace("elsewhere");
    env.create(elsewhere).await;
    // Beside a key it says nothing.
    for name in ["k1", "k2"] {
        let mut keyed = with_id();
        keyed.spec.key = Some(key(name));
        env.create(keyed).await;
    }
    // And none is none.
    env.create(env.new_wait()).await;
    env.create(env.new_wait()).await;
}

pub async fn the_same_id_again_is_the_repeat_of_an_open(env: Env) {
    let new = env.new_wait();
    let first = env.create(new.clone()).await;
    let opened = env.store.open(new.clone()).await.expect("open");
    assert!(matches!(opened, Opened::Resumed(wait) if wait == first));
    let mut other = new;
    other.spec.name = Name::new("other").expect("a name");
    let opened = env.store.open(other).await.expect("open");
    assert!(matches!(opened, Opened::Refused(_)));
    assert_eq!(env.load(first.record.id).await, first);
}

pub async fn one_of_many_opens_of_a_key_creates(env: Env) {
    let mut opens = JoinSet::new();
    for _ in 0..100 {
        let mut new = env.new_wait();
        new.spec.key = Some(key("k"));
        let store = Arc::clone(&env.store);
        opens.spawn(async move { store.open(new).await.expect("open") });
    }
    let (mut created, mut ids) = (0, BTreeSet::new());
    while let Some(opened) = opens.join_next().await {
        match opened.expect("not cancelled") {
            Opened::Created(wait) => {
                created += 1;
                ids.insert(wait.record.id);
            }
            Opened::Resumed(wait) => {
                ids.insert(wait.record.id);
            }
            Opened::Refused(refusal) => panic!("{refusal}"),
        }
    }
    assert_eq!((created, ids.len(), env.heard.count()), (1, 1, 1));
}
