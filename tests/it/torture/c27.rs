//! C27: the broker dies after the commit and before anybody hears of it.
//!
//! The preloaded library kills the process from within the flush that made the commit durable, before it returns.

use std::{os::unix::process::ExitStatusExt as _, sync::Arc};

use super::{
    history::{Said, Seen},
    rng::seed,
    run::Run,
    wire::{Case, Lost},
};
use crate::power_loss::shim::Shim;

const WAITS: usize = 20;

/// A run in which the first wait was answered and committed, and nobody told. The broker is up again.
async fn answered_and_not_told(name: &'static str) -> (Run, Vec<Arc<Case>>, Said) {
    let Shim { root, files } = Shim::new();
    let mut setup = files.setup();
    setup.env.extend(files.kill("-wal"));
    let mut run = Run::with(name, seed(), root, setup).await;
    let cases: Vec<_> = (0..WAITS)
        .map(|n| run.load.plain_case(n % 2 == 0))
        .collect();
    let line = run.load.line(&mut run.rng).clone();
    for case in &cases {
        line.open(case).await.expect("the broker is up");
        run.load.publish(case);
    }
    for case in &cases {
        drop(run.load.hold(case, &mut run.rng));
    }
    run.until_attached(&cases).await;
    std::fs::write(files.arm(), "").expect("the fault can be armed");

    let said = Said::Resolve("{\"heard\":false}".to_owned());
    assert_eq!(line.say(&cases[0], &said, "").await, Err(Lost::Cut));
    assert_eq!(run.exit().await.signal(), Some(9), "it died in the flush");
    run.setup.env.clear();
    run.restart().await;
    (run, cases, said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_repeat_after_the_crash_is_ok_and_the_waiter_is_told() {
    let (mut run, cases, said) = answered_and_not_told("c27 a").await;
    let line = run.load.line(&mut run.rng).clone();
    assert_eq!(line.say(&cases[0], &said, "").await, Ok(()));
    let is_repeat = |seen: &Seen| matches!(seen, Seen::Accepted { replayed: true, .. });
    assert!(run.saw(&cases[0], is_repeat), "told as a repeat");
    let (faults, _) = run.finish().await;
    run.judge(&faults);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_without_a_repeat_the_waiter_finds_the_outcome_when_it_comes_back() {
    let (mut run, cases, _) = answered_and_not_told("c27 b").await;
    // Nobody says anything any more: the waiter attaches again by itself.
    run.until(&cases[..1], |seen| matches!(seen, Seen::Told(_)))
        .await;
    let (faults, _) = run.finish().await;
    run.judge(&faults);
}
