//! What every store must do. Each test runs on each store; the suite, not the trait, is the contract.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use abeyance::{
    domain::{
        Command, Ending, ExpiryCause, Failure, Refusal, State, Summary, TimeoutSource, Verdict,
        WaitId,
        limits::{ErrorType, Name, Reason},
    },
    store::{Error, Found, LIST_SCAN_ROWS, Opened, Purged, Query},
};
use tokio::task::JoinSet;

use crate::store_fixture::{
    Env, SECOND, START, cancel, fail, json, key, labels, namespace, question, request_id, resolve,
};

/// Runs each of these tests on each store.
macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $test() { super::$test(super::Env::memory()).await })*
        }
        mod sqlite {
            $(#[tokio::test] async fn $test() { super::$test(super::Env::sqlite()).await })*
        }
    };
}

conformance! {
    a_new_wait_is_kept_as_it_was_given,
    lengths_are_cut_to_microseconds,
    a_key_gives_the_wait_that_has_it,
    a_key_belongs_to_one_name_and_question_of_one_namespace,
    a_request_id_gives_the_wait_that_has_it_where_there_is_no_key,
    the_same_id_again_is_the_repeat_of_an_open,
    one_of_many_opens_of_a_key_creates,
    every_ending_is_kept_as_it_was_given,
    a_repeat_is_told_so_and_changes_nothing,
    what_is_refused_changes_nothing,
    a_wait_that_is_not_there_is_none,
    a_question_can_come_later,
    the_first_ask_counts,
    whoever_meets_an_overdue_wait_settles_it_first,
    expire_is_harmless_when_early,
    a_lost_heartbeat_expires_the_wait,
    a_heartbeat_pushes_the_timeout_back,
    after_a_restart_everybody_has_one_full_heartbeat_period,
    time_never_runs_backwards_within_a_wait,
    the_listener_hears_each_commit_in_order,
    what_was_committed_is_read_at_once,
    a_dropped_call_is_done_all_the_same,
    a_list_goes_from_new_to_old_page_by_page,
    a_list_shows_what_is_asked_for,
    a_list_looks_at_a_bounded_number_of_rows,
    due_waits_come_earliest_first,
    a_purge_takes_what_was_settled_long_enough_ago,
    a_purged_key_leaves_a_tombstone_and_a_request_id_none,
    everything_is_there_after_a_restart,
    a_closed_store_says_so,
}

async fn a_new_wait_is_kept_as_it_was_given(env: Env) {
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

async fn lengths_are_cut_to_microseconds(env: Env) {
    let mut new = env.new_wait();
    new.timeout = Duration::from_nanos(5_000_999);
    new.heartbeat_timeout = Some(Duration::from_nanos(1_999));
    let wait = env.create(new).await;
    assert_eq!(wait.record.timeout, Duration::from_micros(5_000));
    assert_eq!(env.load(wait.record.id).await, wait);
}

async fn a_key_gives_the_wait_that_has_it(env: Env) {
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

async fn a_key_belongs_to_one_name_and_question_of_one_namespace(env: Env) {
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

async fn a_request_id_gives_the_wait_that_has_it_where_there_is_no_key(env: Env) {
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

async fn the_same_id_again_is_the_repeat_of_an_open(env: Env) {
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

async fn one_of_many_opens_of_a_key_creates(env: Env) {
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

async fn every_ending_is_kept_as_it_was_given(env: Env) {
    let failure = |details| Failure {
        reason: Reason::new("no\nway \u{1f6ab}").expect("a reason"),
        error_type: ErrorType::new("Denied").expect("a type"),
        details,
    };
    for command in [
        resolve(" [1.0, 9007199254740993, \"\\u0000\"] "),
        Command::Resolve {
            answer: abeyance::domain::Answer::FreeJson(json("null")),
            request_id: Some(request_id("r")),
        },
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
            (Command::Resolve { answer, request_id }, Ending::Resolved(kept)) => {
                assert_eq!((answer, request_id), (kept, outcome.request_id));
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

async fn a_repeat_is_told_so_and_changes_nothing(env: Env) {
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

async fn what_is_refused_changes_nothing(env: Env) {
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

async fn a_wait_that_is_not_there_is_none(env: Env) {
    let id = env.new_wait().id;
    let applied = env.store.apply(id, resolve("1")).await.expect("apply");
    assert!(applied.is_none());
    assert_eq!(env.store.load(id).await.expect("load"), None);
    assert_eq!(env.heard.count(), 0);
}

async fn a_question_can_come_later(env: Env) {
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

async fn the_first_ask_counts(env: Env) {
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

async fn whoever_meets_an_overdue_wait_settles_it_first(env: Env) {
    for command in [
        resolve("1"),
        fail("no"),
        cancel("no"),
        Command::Expire,
        Command::MarkAsked,
        Command::Heartbeat,
    ] {
        let id = env.create(env.new_wait()).await.record.id;
        // To the very microsecond: over at its time, not after it.
        env.clock.advance(Duration::from_secs(3600));
        let applied = env.apply(id, command).await;
        let outcome = applied.record.outcome.clone().expect("settled");
        let expired = Ending::Expired {
            cause: ExpiryCause::Timeout,
            reason: "No resolution arrived within 1:00:00.".to_owned(),
        };
        assert_eq!(outcome.ending, expired);
        assert_eq!(env.load(id).await.record, applied.record);
        assert_eq!(env.heard.of(id).len(), 2, "one open, one settle");
    }
}

async fn expire_is_harmless_when_early(env: Env) {
    let wait = env.create(env.new_wait()).await;
    env.clock
        .advance(Duration::from_secs(3600) - Duration::from_micros(1));
    let applied = env.apply(wait.record.id, Command::Expire).await;
    assert_eq!(applied.verdict, Ok(Verdict::Nothing));
    assert_eq!(env.load(wait.record.id).await, wait);
    assert_eq!(env.heard.count(), 1);
}

/// A wait of an hour that must hear a heartbeat every minute.
async fn beating(env: &Env) -> WaitId {
    let mut new = env.new_wait();
    new.heartbeat_timeout = Some(Duration::from_secs(60));
    env.create(new).await.record.id
}

async fn a_lost_heartbeat_expires_the_wait(env: Env) {
    let id = beating(&env).await;
    // The clock starts with the ask, not with the open.
    let early = env.apply(id, Command::Heartbeat).await;
    assert_eq!(early.verdict, Ok(Verdict::Nothing));
    env.clock.advance(Duration::from_secs(300));
    env.apply(id, Command::MarkAsked).await;
    assert_eq!(
        env.store.due(9).await.expect("due").next_in,
        Some(Duration::from_secs(60))
    );
    env.clock.advance(Duration::from_secs(60));
    assert_eq!(env.store.due(9).await.expect("due").waits, [id]);
    let expired = env.apply(id, Command::Expire).await.record;
    let ending = Ending::Expired {
        cause: ExpiryCause::Heartbeat,
        reason: "No heartbeat arrived within 0:01:00.".to_owned(),
    };
    assert_eq!(
        expired.outcome.clone().map(|o| o.ending).as_ref(),
        Some(&ending)
    );
    assert_eq!(env.load(id).await.record, expired);
    assert_eq!(env.store.due(9).await.expect("due").waits, []);
}

async fn a_heartbeat_pushes_the_timeout_back(env: Env) {
    let id = beating(&env).await;
    env.apply(id, Command::MarkAsked).await;
    for _ in 0..3 {
        env.clock.advance(Duration::from_secs(59));
        let beat = env.apply(id, Command::Heartbeat).await;
        assert_eq!(beat.verdict, Ok(Verdict::Done));
        assert_eq!(env.load(id).await.record, beat.record);
        let due = env.store.due(9).await.expect("due");
        assert_eq!(due.next_in, Some(Duration::from_secs(60)));
    }
    env.clock.advance(Duration::from_secs(60));
    let late = env.apply(id, Command::Heartbeat).await;
    assert!(matches!(late.verdict, Err(Refusal::AlreadySettled { .. })));
}

async fn after_a_restart_everybody_has_one_full_heartbeat_period(env: Env) {
    let id = beating(&env).await;
    env.apply(id, Command::MarkAsked).await;
    // The broker is down while the heartbeat runs out.
    env.clock.advance(Duration::from_secs(100));
    let env = env.restart().await;
    let before = env.load(id).await.record;

    // It comes up as due, and looking at it arms it anew instead of ending it.
    assert_eq!(env.store.due(9).await.expect("due").waits, [id]);
    let looked = env.apply(id, Command::Expire).await;
    assert_eq!(looked.record.state(), State::Pending);
    assert_eq!(
        looked.record.heartbeat_time,
        Some(before.create_time.after(Duration::from_secs(100)))
    );
    assert_eq!(env.load(id).await.record, looked.record);
    let due = env.store.due(9).await.expect("due");
    assert_eq!(
        (due.waits, due.next_in),
        (vec![], Some(Duration::from_secs(60)))
    );

    env.clock.advance(Duration::from_secs(60));
    let expired = env.apply(id, Command::Expire).await.record;
    assert_eq!(expired.state(), State::Expired);

    // Nothing had to be written for the grace itself: a heartbeat within it is enough.
    let second = beating(&env).await;
    env.apply(second, Command::MarkAsked).await;
    env.clock.advance(Duration::from_secs(100));
    let env = env.restart().await;
    env.clock.advance(Duration::from_secs(59));
    let beat = env.apply(second, Command::Heartbeat).await;
    assert_eq!(beat.verdict, Ok(Verdict::Done));
}

async fn time_never_runs_backwards_within_a_wait(env: Env) {
    let id = beating(&env).await;
    env.clock.advance(Duration::from_secs(10));
    let asked = env.apply(id, Command::MarkAsked).await.record;
    env.clock.set(START.before(Duration::from_secs(86_400)));
    let beat = env.apply(id, Command::Heartbeat).await.record;
    assert_eq!(beat.heartbeat_time, asked.ask_time);
    let settled = env.apply(id, resolve("1")).await.record;
    assert_eq!(
        settled.outcome.map(|o| o.settle_time),
        Some(asked.last_time)
    );
    // And the jump does not poison the next wait.
    let next = env.create(env.new_wait()).await.record;
    assert_eq!(next.create_time, START.before(Duration::from_secs(86_400)));
}

async fn the_listener_hears_each_commit_in_order(env: Env) {
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

async fn what_was_committed_is_read_at_once(env: Env) {
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

async fn a_dropped_call_is_done_all_the_same(env: Env) {
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

/// Everything in the default namespace.
fn every(limit: usize) -> Query {
    Query {
        namespace: namespace(""),
        states: vec![],
        name: None,
        labels: BTreeMap::new(),
        created_until: None,
        created_from: None,
        before: None,
        limit,
    }
}

async fn a_list_goes_from_new_to_old_page_by_page(env: Env) {
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

async fn a_list_shows_what_is_asked_for(env: Env) {
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

async fn a_list_looks_at_a_bounded_number_of_rows(env: Env) {
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

async fn due_waits_come_earliest_first(env: Env) {
    assert_eq!(env.store.due(9).await.expect("due").next_in, None);
    let mut ids = Vec::new();
    for seconds in [30, 10, 20, 40] {
        let mut new = env.new_wait();
        new.lifetime = Duration::from_secs(seconds);
        ids.push(env.create(new).await.record.id);
    }
    let due = |limit| env.store.due(limit);
    assert_eq!(
        due(9).await.expect("due").next_in,
        Some(Duration::from_secs(10))
    );
    env.clock.advance(Duration::from_secs(30));
    let three = due(9).await.expect("due");
    assert_eq!(three.waits, [ids[1], ids[2], ids[0]]);
    assert_eq!(three.next_in, Some(Duration::from_secs(10)));
    let two = due(2).await.expect("due");
    assert_eq!(two.waits, [ids[1], ids[2]]);
    assert_eq!(two.next_in, Some(Duration::ZERO), "more are due");
    env.apply(ids[1], Command::Expire).await;
    env.apply(ids[2], Command::Expire).await;
    let rest = due(1).await.expect("due");
    assert_eq!(
        (rest.waits, rest.next_in),
        (vec![ids[0]], Some(Duration::from_secs(10)))
    );
}

async fn a_purge_takes_what_was_settled_long_enough_ago(env: Env) {
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

async fn a_purged_key_leaves_a_tombstone_and_a_request_id_none(env: Env) {
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

async fn everything_is_there_after_a_restart(env: Env) {
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

async fn a_closed_store_says_so(env: Env) {
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
