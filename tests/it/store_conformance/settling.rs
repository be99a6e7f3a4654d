//! Commands: what they write, what they tell, and to whom.

use std::{sync::Arc, task::Context, task::Waker, time::Duration};

use abeyance::{
    domain::{
        Answer, Command, Ending, Failure, Refusal, State, Submission, Verdict,
        limits::{AnsweredBy, ErrorType, Reason},
        transition::Body,
    },
    store::Opened,
};
use tokio::task::JoinSet;

use crate::store_fixture::{
    Env, SECOND, START, cancel, fail, json, key, question, request_id, resolve,
};

pub async fn every_ending_is_kept_as_it_was_given(env: Env) {
    let failure = |details| Failure {
        reason: Reason::new("no\nway \u{1f6ab}").expect("a reason"),
        error_type: ErrorType::new("Denied").expect("a type"),
        details,
    };
    for command in [
        resolve(" [1.0, 9007199254740993, \"\\u0000\"] "),
        Command::Resolve(Box::new(Submission {
            request_id: Some(request_id("r")),
            answered_by: Some(AnsweredBy::new("Ann").expect("a name")),
            ..Submission::json(json("null"))
        })),
        Command::Fail {
            failure: failure(Some(json("{\"code\": 1e2}"))),
            request_id: Some(request_id("r")),
        },
        Command::Fail {
            failure: failure(None),
            request_id: None,
        },
        fail(""),
        cancel("not needed"),
        cancel(""),
    ] {
        let mut new = env.new_wait();
        new.heartbeat_timeout = Some(Duration::from_secs(60));
        new.question = Some(question("{}"));
        let wait = env.create(new).await;
        let id = wait.record.id;
        env.apply(id, Command::MarkAsked).await;
        env.clock.advance(SECOND);

        let applied = env.apply(id, command.clone()).await;

        assert_eq!(applied.verdict, Ok(Verdict::Done));
        let outcome = applied.record.outcome.clone().expect("settled");
        assert_eq!(outcome.settle_time, applied.record.last_time);
        assert_eq!(
            applied.record.ask_time.map(|t| t.after(SECOND)),
            Some(outcome.settle_time)
        );
        match (command, outcome.ending) {
            (Command::Resolve(sent), Ending::Resolved(Answer::Json { json, answered_by })) => {
                assert_eq!(sent.body, Body::Json(json));
                assert_eq!(
                    (sent.answered_by, sent.request_id),
                    (answered_by, outcome.request_id)
                );
            }
            (
                Command::Fail {
                    failure,
                    request_id,
                },
                Ending::Failed(kept),
            ) => assert_eq!((failure, request_id), (kept, outcome.request_id)),
            (Command::Cancel { reason }, Ending::Cancelled { reason: kept }) => {
                assert_eq!(reason, kept);
            }
            (command, ending) => panic!("{command:?} gave {ending:?}"),
        }
        assert_eq!(env.load(id).await.record, applied.record);
    }
}

pub async fn a_repeat_is_told_so_and_changes_nothing(env: Env) {
    let id = env.create(env.new_wait()).await.record.id;
    let first = env.apply(id, resolve("{\"a\":1}")).await.record;
    env.clock.advance(SECOND);
    for (command, verdict) in [
        (resolve("{ \"a\": 1 }"), Verdict::Repeat),
        (cancel("late"), Verdict::Nothing),
        (Command::Expire, Verdict::Nothing),
        (Command::MarkAsked, Verdict::Nothing),
    ] {
        let applied = env.apply(id, command).await;
        assert_eq!(applied.verdict, Ok(verdict));
        assert_eq!(applied.record, first);
    }
    assert_eq!(env.heard.count(), 2, "one open, one settle");
}

pub async fn what_is_refused_changes_nothing(env: Env) {
    let id = env.create(env.new_wait()).await.record.id;
    let first = env.apply(id, fail("no")).await.record;
    let settle_time = first.last_time;
    env.clock.advance(SECOND);
    for command in [
        resolve("1"),
        fail("other"),
        Command::Heartbeat,
        Command::SetQuestion(question("1")),
    ] {
        let applied = env.apply(id, command).await;
        assert_eq!(
            applied.verdict,
            Err(Refusal::AlreadySettled {
                wait_id: id,
                state: State::Failed,
                settle_time
            })
        );
        assert_eq!(applied.record, first);
    }
    assert_eq!(env.load(id).await.record, first);
    assert_eq!(env.heard.count(), 2);
}

pub async fn a_wait_that_is_not_there_is_none(env: Env) {
    let id = env.new_wait().id;
    let applied = env.store.apply(id, resolve("1")).await.expect("apply");
    assert!(applied.is_none());
    assert_eq!(env.store.load(id).await.expect("load"), None);
    assert_eq!(env.heard.count(), 0);
}

pub async fn a_question_can_come_later(env: Env) {
    let mut new = env.new_wait();
    new.spec.key = Some(key("k"));
    new.question_later = true;
    let id = env.create(new.clone()).await.record.id;

    let early = env.apply(id, resolve("1")).await;
    assert_eq!(early.verdict, Err(Refusal::QuestionNotSet { wait_id: id }));
    let set = env.apply(id, Command::SetQuestion(question("[1]"))).await;
    assert_eq!(set.verdict, Ok(Verdict::Done));
    assert_eq!(env.load(id).await.record, set.record);
    assert_eq!(set.record.question, Some(question("[1]")));
    let again = env.apply(id, Command::SetQuestion(question("[ 1 ]"))).await;
    assert_eq!(again.verdict, Ok(Verdict::Repeat));
    let other = env.apply(id, Command::SetQuestion(question("[2]"))).await;
    assert_eq!(
        other.verdict,
        Err(Refusal::QuestionConflict { wait_id: id })
    );
    assert_eq!(env.load(id).await.record, set.record);

    // The promise is what a re-open must repeat.
    let opened = env.store.open(new).await.expect("open");
    assert!(matches!(opened, Opened::Resumed(wait) if wait.record == set.record));
    let settled = env.apply(id, resolve("1")).await;
    assert_eq!(settled.verdict, Ok(Verdict::Done));
    assert_eq!(settled.record.question, Some(question("[1]")));
    assert_eq!(env.load(id).await.record, settled.record);
}

pub async fn the_first_ask_counts(env: Env) {
    let id = env.create(env.new_wait()).await.record.id;
    env.clock.advance(SECOND);
    let asked = env.apply(id, Command::MarkAsked).await;
    assert_eq!(asked.record.ask_time, Some(START.after(SECOND)));
    env.clock.advance(SECOND);
    let again = env.apply(id, Command::MarkAsked).await;
    assert_eq!(
        (again.verdict, &again.record),
        (Ok(Verdict::Repeat), &asked.record)
    );
    assert_eq!(env.load(id).await.record, asked.record);
}

pub async fn the_listener_hears_each_commit_in_order(env: Env) {
    let mut new = env.new_wait();
    new.heartbeat_timeout = Some(Duration::from_secs(60));
    new.question_later = true;
    let id = new.id;
    let mut told = vec![env.create(new).await.record];
    for command in [
        Command::MarkAsked,
        Command::MarkAsked,
        resolve("1"),
        Command::SetQuestion(question("1")),
        Command::Expire,
        Command::Heartbeat,
        resolve("1"),
        resolve("1"),
        resolve("2"),
    ] {
        env.clock.advance(SECOND);
        let applied = env.apply(id, command).await;
        if told.last() != Some(&applied.record) {
            told.push(applied.record);
        }
        // Before the caller: what the caller was told of is among what was heard.
        assert_eq!(env.heard.of(id), told);
    }
    assert_eq!(told.len(), 5, "opened, asked, question, heartbeat, settled");

    // Also when many commands are under way at once.
    let ids: Vec<_> = (0..20).map(|_| env.new_wait()).collect();
    let mut all = JoinSet::new();
    for new in ids.clone() {
        env.create(new.clone()).await;
        for n in 0..10 {
            let store = Arc::clone(&env.store);
            let command = if n == 7 {
                cancel("")
            } else {
                resolve(&n.to_string())
            };
            all.spawn(async move { store.apply(new.id, command).await });
        }
    }
    while let Some(done) = all.join_next().await {
        done.expect("not cancelled").expect("apply");
    }
    for new in ids {
        let heard = env.heard.of(new.id);
        assert_eq!(heard.len(), 2);
        assert_eq!(heard[1], env.load(new.id).await.record);
    }
}

pub async fn a_dropped_call_is_done_all_the_same(env: Env) {
    let new = env.new_wait();
    let id = new.id;
    let mut context = Context::from_waker(Waker::noop());
    let mut open = env.store.open(new);
    let _ = open.as_mut().poll(&mut context);
    drop(open);
    let mut apply = env.store.apply(id, resolve("1"));
    let _ = apply.as_mut().poll(&mut context);
    drop(apply);
    // The next command of the same wait stands behind both.
    let applied = env.apply(id, resolve("1")).await;
    assert_eq!(applied.verdict, Ok(Verdict::Repeat));
    let states: Vec<_> = env.heard.of(id).iter().map(|r| r.state()).collect();
    assert_eq!(states, [State::Pending, State::Resolved]);
}
