//! Questions about tool calls and their answers in parts: kept as they were, until a purge.

use std::time::Duration;

use abeyance::{
    domain::{Command, Question, State, Verdict, Wait, limits::Description, question::Form},
    store::{Found, Opened, Purged},
};

use super::every;
use crate::{
    decisions::{CALLS, answers, asks, full, given, in_order, part, said_by, with_id},
    store_fixture::{Env, SECOND, cancel, fail, json, key, namespace, request_id},
};

/// Decisions in bytes that any rewriting would change.
const FIRST: &str = r#"{ "approvals": {"a1": {"kind":"tool-approved","override_args": { "n" : 1.0, "n2":9007199254740993 }}},
    "metadata": {"a1" : { "why":  "\u0041" }}, "answered_by": {"a1": "Alice \"A\" \\ \u00e9"}}"#;
const SECOND_PART: &str = r#"{"calls":{"e1": [1.50, {"kind" : "other"} ], "q1": {"kind":"tool-return","return_value":{"x" : 1e2}}}}"#;

async fn asked(env: &Env, name: &str) -> Wait {
    let mut new = env.new_wait();
    new.spec.key = Some(key(name));
    new.question = Some(asks(&CALLS, false));
    new.heartbeat_timeout = Some(Duration::from_secs(600));
    env.create(new).await
}

/// Every way to read gives this wait.
pub async fn is_kept(env: &Env, wait: &Wait) {
    let id = wait.record.id;
    assert_eq!(env.load(id).await, *wait);
    let key = wait.spec.key.clone().expect("a key");
    let found = env.store.find(namespace(""), key).await.expect("find");
    let Found::Wait(found) = found else {
        panic!("not found: {found:?}");
    };
    assert_eq!(*found, *wait);
    let listed = env.store.list(every(99)).await.expect("list").waits;
    let listed = listed.into_iter().find(|s| s.record.id == id);
    assert_eq!(listed, Some(wait.clone().into()));
}

/// Decides some of the calls, one after the other.
async fn decide(env: &Env, wait: &mut Wait) {
    let id = wait.record.id;
    for (n, text) in [FIRST, SECOND_PART].into_iter().enumerate() {
        env.clock.advance(SECOND);
        let answer = with_id(&format!("p{n}"), said_by("Bob", part(text)));
        let applied = env.apply(id, answers(answer)).await;
        assert_eq!(applied.verdict, Ok(Verdict::Done));
        assert_eq!(env.heard.of(id).last(), Some(&applied.record));
        wait.record = applied.record;
        is_kept(env, wait).await;
    }
}

pub async fn decisions_are_kept_as_they_were_given(env: Env) {
    let mut wait = asked(&env, "k").await;
    is_kept(&env, &wait).await;
    decide(&env, &mut wait).await;

    let decided = wait.record.decided().expect("decisions");
    let text = given(decided, "a1");
    assert_eq!(
        text.as_deref(),
        Some(r#"{ "n" : 1.0, "n2":9007199254740993 }"#)
    );
    assert_eq!(
        given(decided, "e1").as_deref(),
        Some(r#"[1.50, {"kind" : "other"} ]"#)
    );
    let metadata = decided.results().metadata[0].1.as_str();
    assert_eq!(metadata, r#"{ "why":  "\u0041" }"#);
    let by: Vec<_> = decided
        .results()
        .answered_by
        .iter()
        .map(|(_, by)| by.as_str())
        .collect();
    assert_eq!(by, ["Alice \"A\" \\ é", "Bob", "Bob"]);
    assert_eq!(in_order(decided), ["a1", "e1", "q1"]);
    assert_eq!(decided.request_ids(), [request_id("p0"), request_id("p1")]);
    let times: Vec<_> = decided.entries().iter().map(|entry| entry.time).collect();
    assert_eq!(times[0].after(SECOND), times[1]);

    // What is recorded beside them leaves them alone, and so do repeats and refusals.
    for command in [Command::MarkAsked, Command::Heartbeat] {
        env.clock.advance(SECOND);
        wait.record = env.apply(wait.record.id, command).await.record;
        is_kept(&env, &wait).await;
    }
    let commits = env.heard.count();
    let repeat = env.apply(wait.record.id, answers(part(SECOND_PART))).await;
    assert_eq!(repeat.verdict, Ok(Verdict::Repeat));
    let other = r#"{"calls":{"e1":1,"e2":1}}"#;
    let refused = env.apply(wait.record.id, answers(part(other))).await;
    assert!(refused.verdict.is_err());
    assert_eq!(env.heard.count(), commits);
    is_kept(&env, &wait).await;

    let env = env.restart().await;
    is_kept(&env, &wait).await;
    let repeat = env.apply(wait.record.id, answers(part(FIRST))).await;
    // Without its metadata's and override's bytes it would be another.
    assert_eq!(
        (repeat.verdict, &repeat.record),
        (Ok(Verdict::Repeat), &wait.record)
    );
}

pub async fn decisions_are_kept_however_the_wait_ends(env: Env) {
    let last = r#"{"approvals":{"a2":false},"calls":{"e2":null,"q2":{"kind":"model-retry","message":"again\n"}}}"#;
    let mut waits = Vec::new();
    for (n, command) in [
        answers(with_id("last", part(last))),
        answers(with_id("last", full(last))),
        fail("no"),
        cancel("no"),
        Command::Expire,
    ]
    .into_iter()
    .enumerate()
    {
        let mut wait = asked(&env, &n.to_string()).await;
        decide(&env, &mut wait).await;
        let before = wait.record.decided().expect("decisions").clone();
        if matches!(command, Command::Expire) {
            env.clock.set(wait.record.expire_time);
        }
        let applied = env.apply(wait.record.id, command).await;
        assert_eq!(applied.verdict, Ok(Verdict::Done));
        wait.record = applied.record;
        let after = wait.record.decided().expect("decisions");
        assert!(after.entries().starts_with(before.entries()));
        assert!(after.request_ids().starts_with(before.request_ids()));
        assert_eq!(wait.record.decided, None, "they stand in the outcome");
        let ended = wait.record.state() != State::Resolved;
        assert_eq!(in_order(after).len(), if ended { 3 } else { 6 });
        assert_eq!(after.results().decisions().count(), 6);
        is_kept(&env, &wait).await;
        waits.push(wait);
    }
    let env = env.restart().await;
    for wait in &waits {
        is_kept(&env, wait).await;
        let repeat = env.apply(wait.record.id, answers(part(FIRST))).await;
        assert_eq!(
            (repeat.verdict, &repeat.record),
            (Ok(Verdict::Repeat), &wait.record)
        );
    }
}

pub async fn questions_are_kept_as_they_were_asked(env: Env) {
    let form = |payload, schema| {
        Question::Form(Form {
            message: Description::new("Say \"yes\"\n").expect("short"),
            payload,
            schema,
        })
    };
    let mut waits = Vec::new();
    for (n, asked) in [
        asks(&CALLS, false),
        asks(&["e9"], true),
        asks(&[], false),
        form(None, None),
        form(
            Some(json("[1.0, { }]")),
            Some(json(r#"{"type" : "string"}"#)),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        for later in [false, true] {
            let mut new = env.new_wait();
            new.spec.key = Some(key(&format!("{n} {later}")));
            new.question_later = later;
            new.question = (!later).then(|| asked.clone());
            let mut wait = env.create(new.clone()).await;
            let set = Command::SetQuestion(asked.clone());
            let applied = env.apply(wait.record.id, set).await;
            let told = if later {
                Verdict::Done
            } else {
                Verdict::Repeat
            };
            assert_eq!(applied.verdict, Ok(told));
            wait.record = applied.record;
            assert_eq!(wait.record.question.as_ref(), Some(&asked));
            is_kept(&env, &wait).await;
            let opened = env.store.open(new).await.expect("open");
            assert!(matches!(opened, Opened::Resumed(same) if same == wait));
            waits.push(wait);
        }
    }
    let env = env.restart().await;
    for wait in &waits {
        is_kept(&env, wait).await;
    }
}

pub async fn a_question_set_later_is_decided_like_any(env: Env) {
    let mut new = env.new_wait();
    new.spec.key = Some(key("later"));
    new.question_later = true;
    let mut wait = env.create(new).await;
    let id = wait.record.id;
    let early = env.apply(id, answers(part(FIRST))).await;
    assert_eq!(early.record, wait.record);
    assert!(early.verdict.is_err());
    env.apply(id, Command::SetQuestion(asks(&CALLS, false)))
        .await;
    decide(&env, &mut wait).await;
    assert_eq!(
        wait.record.progress().map(|p| (p.decided, p.pending)),
        Some((3, 3))
    );
}

pub async fn a_purge_leaves_no_decision_behind(env: Env) {
    for (n, command) in [
        fail("no"),
        answers(full(r#"{"approvals":{"a2":true},"calls":{"e2":1,"q2":2}}"#)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut wait = asked(&env, &n.to_string()).await;
        decide(&env, &mut wait).await;
        let applied = env.apply(wait.record.id, command).await;
        assert_eq!(applied.verdict, Ok(Verdict::Done));
    }
    let mut open = asked(&env, "open").await;
    decide(&env, &mut open).await;
    env.clock.advance(SECOND * 11);
    let purged = env
        .store
        .purge(SECOND * 10, SECOND * 100, 9)
        .await
        .expect("purge");
    let expected = Purged {
        waits: 2,
        tombstones: 0,
    };
    assert_eq!(purged, expected);
    is_kept(&env, &open).await;
    // Its decisions are gone from where those of open waits stand, too.
    env.apply(open.record.id, cancel("")).await;
    if env.has_dir() {
        let db = rusqlite::Connection::open(env.dir().join("abeyance.db")).expect("opens");
        let count = |sql| {
            db.query_row(sql, [], |row| row.get::<_, i64>(0))
                .expect("a count")
        };
        assert_eq!(count("SELECT count(*) FROM decisions"), 0);
        assert_eq!(count("SELECT count(*) FROM pending"), 0);
        assert_eq!(count("SELECT count(*) FROM outcomes"), 1);
        assert_eq!(count("SELECT count(*) FROM waits"), 1);
    }
}
