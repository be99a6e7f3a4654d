//! C59: what a disk can do to the broker, and what the broker must make of it.
//!
//! SIGKILL alone cannot see a missing flush: the kernel keeps what was written. So the broker runs under a preloaded library
//! (`tests/shim/disk.c`) that writes down what it does to its files. From that, [`disk`] works out what a loss of power would have
//! left, and the test puts that in the place of what is there before it starts the broker again. The library also makes flushes
//! fail, or lie, which shows that the judge of the torture test notices.
//!
//! `ABEYANCE_TEST_POWER_CYCLES` sets how often the power is lost (default 10).

mod disk;
mod failing;
mod journal;
pub mod shim;

use std::{collections::BTreeMap, time::Duration};

use self::{
    disk::{Disk, Keep, put_back, really},
    shim::{Files, Shim, lie},
};
use crate::torture::{
    Kind, Run, Said, print,
    process::Setup,
    rng::{Rng, number, seed},
};

const CYCLES: u64 = 10;

/// The disk of a run, as far as it is known.
struct Watch {
    disk: Disk,
    started: usize,
}

impl Watch {
    /// Before the first start.
    fn new(files: &Files) -> Self {
        Self {
            disk: Disk::new(&files.disk()),
            started: 0,
        }
    }

    /// The broker is dead: catches up with what it did.
    fn catch_up(&mut self, files: &Files) {
        self.disk
            .replay(&journal::read(&files.journal(self.started)));
    }

    /// The power fails: only what `keep` says is left. Prepares the next start.
    fn lose_power(&mut self, files: &Files, keep: Keep<'_>) {
        put_back(&files.disk(), &self.disk.image(keep));
        self.disk = Disk::new(&files.disk());
    }

    /// Has the next start written down too.
    fn next(&mut self, files: &Files, run: &mut Run) {
        self.started += 1;
        run.setup.env = files.watched(self.started);
    }
}

/// A broker under the library, its set-up changed by `set`. Its load is idle.
async fn run(name: &'static str, set: impl FnOnce(&Files, &mut Setup)) -> (Run, Files, Watch) {
    let Shim { root, files } = Shim::new();
    let watch = Watch::new(&files);
    let mut setup = files.setup();
    set(&files, &mut setup);
    (Run::with(name, seed(), root, setup).await, files, watch)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c59_what_is_acknowledged_survives_a_loss_of_power() {
    let cycles = number("ABEYANCE_TEST_POWER_CYCLES").unwrap_or(CYCLES);
    let (mut run, files, mut watch) = run("power", |_, _| {}).await;
    run.load.begin();
    // Nothing may be missing after the very first acknowledgement: not the key, not a folder.
    run.go_on(1).await;
    run.kill().await;
    for cycle in 1..=cycles {
        watch.catch_up(&files);
        match cycle % 3 {
            0 => {} // The process died and nothing else.
            1 => watch.lose_power(&files, Keep::Nothing),
            _ => watch.lose_power(&files, Keep::Some(&mut run.rng)),
        }
        watch.next(&files, &mut run);
        run.restart().await;
        run.go_on_until_killed().await;
    }
    watch.catch_up(&files);
    watch.lose_power(&files, Keep::Nothing);
    run.setup.env.clear();
    run.restart().await;
    let (faults, summary) = run.finish().await;
    print(&format!(
        "power: {} losses, {summary}, {} faults",
        cycles - cycles / 3 + 1,
        faults.len()
    ));
    run.judge(&faults);
}

/// A first start that is cut short, by a kill or by the loss of power, leaves nothing that stops the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c59_a_first_start_cut_short_is_no_obstacle() {
    let mut rng = Rng::new(seed());
    for round in 0..12 {
        let Shim { root: _root, files } = Shim::new();
        let mut watch = Watch::new(&files);
        let mut setup = files.setup();
        let starting = setup.spawn();
        tokio::time::sleep(Duration::from_micros(rng.below(60_000))).await;
        starting.kill().await;
        if files.journal(0).exists() {
            watch.catch_up(&files);
            match round % 3 {
                0 => {}
                1 => watch.lose_power(&files, Keep::Nothing),
                _ => watch.lose_power(&files, Keep::Some(&mut rng)),
            }
        }
        setup.env.clear();
        setup.start().await.kill().await;
    }
}

/// The library sees every change: what it wrote down, all of it kept, is what is really there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_misses_nothing() {
    let (mut run, files, mut watch) = run("journal", |_, _| {}).await;
    let line = run.load.line(&mut run.rng).clone();
    // Enough for a checkpoint on the way.
    for n in 0..125 {
        let case = run.load.plain_case(n % 2 == 0);
        line.open(&case).await.expect("the broker is up");
        let said = Said::Resolve(n.to_string());
        line.say(&case, &said, "").await.expect("the broker is up");
    }
    run.kill().await;
    watch.catch_up(&files);
    let written = watch.disk.image(Keep::Everything);
    let real = really(&files.disk());
    let sizes = |image: &BTreeMap<String, Option<Vec<u8>>>| {
        image
            .iter()
            .map(|(path, bytes)| (path.clone(), bytes.as_ref().map(Vec::len)))
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(&written), sizes(&real));
    assert!(written == real, "same sizes, other bytes");
}

/// A disk that calls a flush done and does nothing is noticed: by losses, or by a broker that refuses to go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_not_really_flushed_is_found() {
    lost("lying log", "-wal").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_not_really_flushed_is_found() {
    lost("lying folder", "nested").await;
}

async fn lost(name: &'static str, suffix: &str) {
    let (mut run, files, mut watch) = run(name, |_, setup| setup.env.extend(lie(suffix))).await;
    run.load.begin();
    run.go_on(300).await;
    run.kill().await;
    watch.catch_up(&files);
    watch.lose_power(&files, Keep::Nothing);
    run.setup.env.clear();
    run.restart().await;
    let (faults, _) = run.finish_within(Duration::from_secs(3)).await;
    assert!(
        faults.iter().any(|fault| fault.kind == Kind::Unknown),
        "a flush of {suffix} that does nothing must lose something, found only {faults:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_key_that_is_not_really_flushed_is_found() {
    let (mut run, files, mut watch) =
        run("lying key", |_, setup| setup.env.extend(lie("key.new"))).await;
    run.kill().await;
    watch.catch_up(&files);
    watch.lose_power(&files, Keep::Nothing);
    run.setup.env.clear();
    let started = run.setup.spawn().ready_or_exit().await;
    assert!(started.is_err(), "it started without its token key");
}
