//! Expiry, heartbeats and a clock that jumps.

use std::time::Duration;

use abeyance::domain::{Command, Ending, ExpiryCause, Refusal, State, Verdict, WaitId};

use crate::store_fixture::{Env, START, cancel, fail, resolve};

pub async fn whoever_meets_an_overdue_wait_settles_it_first(env: Env) {
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

pub async fn expire_is_harmless_when_early(env: Env) {
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

pub async fn a_lost_heartbeat_expires_the_wait(env: Env) {
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

pub async fn a_heartbeat_pushes_the_timeout_back(env: Env) {
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

pub async fn after_a_restart_everybody_has_one_full_heartbeat_period(env: Env) {
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

pub async fn time_never_runs_backwards_within_a_wait(env: Env) {
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

pub async fn due_waits_come_earliest_first(env: Env) {
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
