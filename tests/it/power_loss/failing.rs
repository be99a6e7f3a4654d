//! Flushes that fail.

use std::sync::Arc;

use abeyance::proto::v1::{WaitSpec, wait_spec::Expiry};

use super::{
    Files, Keep, Watch,
    disk::put_back,
    journal::{self, Entry},
    run,
    shim::{Shim, eio_at},
};
use crate::torture::{
    History, Run, Said, check,
    wire::{Case, Line, Lost},
};

/// `EX_IOERR`: what the broker ends with when its disk fails.
const EXIT_IO: i32 = 74;

/// What the kernel does with what a failed flush was to write: keeps it in memory, where a next start may read it, or not.
const AFTERWARDS: [bool; 2] = [false, true];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c59_a_failed_flush_of_the_log_acknowledges_nothing_and_ends_the_process() {
    for power_is_lost in AFTERWARDS {
        let (mut run, files, mut watch) = run("eio log", |files, setup| {
            setup.env.extend(files.eio("-wal"))
        })
        .await;
        let line = run.load.line(&mut run.rng).clone();
        let mut cases = Vec::new();
        for n in 0..20 {
            let case = run.load.plain_case(n % 2 == 0);
            line.open(&case).await.expect("the broker is up");
            run.load.publish(&case);
            drop(run.load.hold(&case, &mut run.rng));
            cases.push(case);
        }
        run.until_attached(&cases).await;
        std::fs::write(files.arm(), "").expect("the fault can be armed");

        let late = run.load.plain_case(true);
        let said = Said::Resolve("1".to_owned());
        let (opened, answered) = tokio::join!(line.open(&late), line.say(&cases[0], &said, ""));
        // They may share a commit. If not, one is before the other, and neither may be after the failure.
        assert!(
            opened == Err(Lost::Cut) && answered == Err(Lost::Cut),
            "acknowledged without a flush: {opened:?}, {answered:?}"
        );
        ended(&mut run, &files, &mut watch, power_is_lost).await;
        let (faults, _) = run.finish().await;
        run.judge(&faults);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c59_a_failed_flush_of_a_checkpoint_ends_the_process_and_loses_nothing() {
    for power_is_lost in AFTERWARDS {
        let (mut run, files, mut watch) = run("eio checkpoint", |files, setup| {
            setup.env.extend(files.eio(".db"))
        })
        .await;
        std::fs::write(files.arm(), "").expect("the fault can be armed");
        run.load.begin();
        ended(&mut run, &files, &mut watch, power_is_lost).await;
        run.go_on(200).await;
        let (faults, _) = run.finish().await;
        run.judge(&faults);
    }
}

/// The process ends by itself and touches the failed file no more; then it starts again.
async fn ended(run: &mut Run, files: &Files, watch: &mut Watch, power_is_lost: bool) {
    let status = run.exit().await;
    assert_eq!(status.code(), Some(EXIT_IO), "{}", run.setup.log_tail());
    assert_nothing_after_a_failure(&journal::read(&files.journal(0)));
    if power_is_lost {
        watch.catch_up(files);
        watch.lose_power(files, Keep::Nothing);
    }
    run.setup.env.clear();
    run.restart().await;
}

fn assert_nothing_after_a_failure(entries: &[Entry]) {
    let failed = entries
        .iter()
        .position(|e| matches!(e, Entry::FlushFailed { .. }));
    let failed = failed.expect("a flush failed");
    let Entry::FlushFailed { inode: broken, .. } = entries[failed] else {
        unreachable!("just found");
    };
    for entry in &entries[failed + 1..] {
        let (Entry::Write { inode, .. }
        | Entry::Truncate { inode, .. }
        | Entry::FlushBegin { inode, .. }
        | Entry::FlushEnd { inode, .. }) = entry
        else {
            continue;
        };
        assert_ne!(*inode, broken, "tried again in place: {entry:?}");
    }
}

/// Whichever of the first flushes fails, of files and of folders: what is acknowledged all the same is kept, and the next start is
/// none the worse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c59_whichever_early_flush_fails_the_next_start_recovers() {
    for nth in 1..=24 {
        let Shim { root: _root, files } = Shim::new();
        let mut watch = Watch::new(&files);
        let mut setup = files.setup();
        setup.env.extend(eio_at(nth));
        let history = Arc::new(History::new());
        let cases: Vec<_> = (0..3).map(plain_case).collect();
        if let Ok(mut process) = setup.spawn().ready_or_exit().await {
            setup.listen = process.address;
            let line = Line::new(&process.url(), history.clone());
            let mut cut = false;
            for case in &cases {
                cut |= line.open(case).await.is_err();
            }
            if cut {
                assert_eq!(process.exit().await.code(), Some(EXIT_IO), "flush {nth}");
            } else {
                process.kill().await;
            }
        }
        watch.catch_up(&files);
        put_back(&files.disk(), &watch.disk.image(Keep::Nothing));

        setup.env.clear();
        let process = setup.start().await;
        let last_start = history.tick();
        let line = Line::new(&process.url(), history.clone());
        for case in &cases {
            let said = Said::Resolve("0".to_owned());
            // What is refused is in the history.
            if line.open(case).await.is_ok() && line.say(case, &said, "").await.is_ok() {
                let _ = line.describe(case).await;
            }
        }
        let faults = check(&history.snapshot(), last_start);
        assert!(
            faults.is_empty(),
            "flush {nth} failed: {faults:?}\n{}",
            setup.log_tail()
        );
    }
}

fn plain_case(number: u32) -> Arc<Case> {
    let spec = WaitSpec {
        name: "early".to_owned(),
        expiry: Some(Expiry::NoTimeout(true)),
        ..Default::default()
    };
    Case::new(number, spec, format!("request-{number}"))
}
