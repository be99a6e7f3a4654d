//! Two at once for one wait: exactly one wins, whoever loses is told who won, and the listener is told once.
//!
//! `ABEYANCE_TEST_RACE_ROUNDS` sets how often each is run; 1,000 unless it is set.

use std::sync::Arc;

use abeyance::{
    domain::{Command, Record, Refusal, State, Verdict, WaitId},
    store::Applied,
};
use tokio::task::JoinSet;

use crate::store_fixture::{Env, SECOND, fail, resolve};

/// How many waits race at the same time, so that one commit carries many.
const ABREAST: usize = 50;

/// How often to run what happens at once.
pub fn rounds() -> usize {
    match std::env::var("ABEYANCE_TEST_RACE_ROUNDS") {
        Ok(text) => text.parse().expect("a number of rounds"),
        Err(_) => 1_000,
    }
}

macro_rules! races {
    ($($race:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $race() { super::$race(super::Env::memory()).await })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $race() { super::$race(super::Env::sqlite()).await })*
        }
    };
}

races! {
    resolve_against_resolve,
    resolve_against_fail,
    resolve_against_expire,
}

async fn resolve_against_resolve(env: Env) {
    race(&env, || [resolve("1"), resolve("2")], false).await;
}

async fn resolve_against_fail(env: Env) {
    race(&env, || [resolve("1"), fail("no")], false).await;
}

async fn resolve_against_expire(env: Env) {
    race(&env, || [resolve("1"), Command::Expire], true).await;
}

/// Races both commands for many waits. With `clock_runs`, the time of all of them runs out somewhere in the middle.
async fn race(env: &Env, commands: impl Fn() -> [Command; 2], clock_runs: bool) {
    for round in 0..rounds().div_ceil(ABREAST) {
        let ids = open(env).await;
        let mut racers = JoinSet::new();
        for (n, id) in ids.iter().copied().enumerate() {
            if clock_runs && n == (round * 7) % ABREAST {
                let clock = Arc::clone(&env.clock);
                racers.spawn(async move {
                    clock.advance(SECOND);
                    None
                });
            }
            // Each side is sent first in half of the rounds.
            let mut sides = commands();
            if (round + n) % 2 == 0 {
                sides.reverse();
            }
            for command in sides {
                let store = Arc::clone(&env.store);
                racers.spawn(async move {
                    let applied = store.apply(id, command).await.expect("apply");
                    Some((id, applied.expect("the wait is there")))
                });
            }
        }
        let told: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
        let heard = env.heard.take();
        for id in ids {
            let told = told.iter().filter(|(of, _)| *of == id).map(|(_, a)| a);
            let record = check(env, id, &told.collect::<Vec<_>>(), clock_runs).await;
            let heard = heard.iter().filter(|r| r.id == id);
            let heard: Vec<_> = heard.map(Record::state).collect();
            let once = [State::Pending, record.state()];
            assert_eq!(heard, once, "the listener is told once");
        }
    }
}

/// Opens waits of one second, all in a commit or two.
async fn open(env: &Env) -> Vec<WaitId> {
    let mut opens = JoinSet::new();
    for _ in 0..ABREAST {
        let (store, mut new) = (Arc::clone(&env.store), env.new_wait());
        new.lifetime = SECOND;
        opens.spawn(async move {
            let id = new.id;
            store.open(new).await.expect("open");
            id
        });
    }
    opens.join_all().await
}

async fn check(env: &Env, id: WaitId, told: &[&Applied], clock_runs: bool) -> Record {
    assert_eq!(told.len(), 2);
    let record = env.load(id).await.record;
    let state = record.state();
    assert_ne!(state, State::Pending);

    let winners = told.iter().filter(|a| a.verdict == Ok(Verdict::Done));
    let lost = Refusal::AlreadySettled {
        wait_id: id,
        state,
        settle_time: record.last_time,
    };
    for applied in told {
        match &applied.verdict {
            Ok(Verdict::Done) => assert_eq!(applied.record, record),
            // An expire that came early or late has nothing to do and minds nothing.
            Ok(Verdict::Nothing) if clock_runs => {}
            Err(refusal) => {
                assert_eq!(*refusal, lost);
                assert_eq!(applied.record, record);
            }
            Ok(other) => panic!("{other:?}"),
        }
    }
    // A late answer that itself meets the overdue wait settles it as expired: nobody is told that he won, then.
    let expired_by_answer =
        state == State::Expired && told.iter().any(|a| a.verdict == Ok(Verdict::Nothing));
    assert_eq!(winners.count(), usize::from(!expired_by_answer));
    record
}
