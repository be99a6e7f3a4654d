//! Acknowledged means kept: the real binary on a real directory, used by many and killed again and again.
//!
//! `ABEYANCE_TEST_KILL_CYCLES` sets how often (default 30; thousands are fine), `ABEYANCE_TEST_SEED` repeats the choices of a
//! run. What everybody was told is written down in [`history`] and judged by [`checker`], which [`planted`] judges in turn.

mod c25;
mod c27;
mod c40;
mod checker;
mod history;
mod hold;
mod load;
mod planted;
pub mod process;
pub mod rng;
mod run;
pub mod wire;

pub use self::{
    checker::{Kind, check},
    history::{History, Said},
    run::{Run, print},
};

use std::time::Duration;

use self::{
    process::copy_dir,
    rng::{number, seed},
};

/// The number of kill cycles of an ordinary run.
const CYCLES: u64 = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_whenever_the_broker_is_killed() {
    let cycles = number("ABEYANCE_TEST_KILL_CYCLES").unwrap_or(CYCLES);
    let mut run = Run::new("torture", seed()).await;
    run.load.begin();
    for cycle in 1..=cycles {
        run.go_on_until_killed().await;
        if run.rng.chance(20) {
            run.kill_while_it_starts().await;
        }
        run.restart().await;
        if cycle % 10 == 0 {
            print(&format!(
                "torture: {cycle} of {cycles} kills, {}",
                run.so_far()
            ));
        }
    }
    let (faults, summary) = run.finish().await;
    print(&format!(
        "torture: {cycles} kill cycles, {summary}, {} faults",
        faults.len()
    ));
    run.judge(&faults);
}

/// The judge's eyes are good enough for a real broker: an older state put back behind its back is noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_state_put_back_between_two_starts_is_found() {
    let mut run = Run::new("planted", seed()).await;
    run.load.begin();
    run.go_on_until_killed().await;
    let copy = run.root().join("copy");
    copy_dir(&run.setup.data, &copy);
    run.restart().await;
    // Long enough that opens and answers are among what is acknowledged, and then lost.
    run.go_on(1000).await;
    run.kill().await;
    std::fs::remove_dir_all(&run.setup.data).expect("the broker is dead");
    copy_dir(&copy, &run.setup.data);
    run.restart().await;
    let (faults, _) = run.finish_within(Duration::from_secs(3)).await;
    let found = |kind| faults.iter().any(|fault| fault.kind == kind);
    assert!(
        found(Kind::Unknown) && (found(Kind::OpenLost) || found(Kind::AnswerLost)),
        "found only {faults:?}"
    );
}
