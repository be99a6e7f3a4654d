//! What is to be reached, and whether it was.

use crate::{
    questions::Ask,
    report::median,
    scenarios::{Operation, Run},
};

/// One goal.
pub struct Goal {
    pub what: &'static str,
    pub wanted: String,
    pub found: String,
    pub met: bool,
}

/// The goals, judged by the medians of what the runs found.
pub fn judge(runs: &[Run]) -> Vec<Goal> {
    vec![
        ratio(runs, "`OpenWait`, 64 callers", Operation::OpenWait, 0.40),
        ratio(runs, "`Resolve`, 64 callers", Operation::Resolve, 0.35),
        delivery(runs),
        commit(runs),
        memory(runs),
        checked(
            runs,
            "`Resolve` of 3 tool calls, 2 KiB",
            Ask::Calls,
            Ask::Free,
            0.85,
        ),
        checked(
            runs,
            "`Resolve` of a form of 50 fields, 2 KiB",
            Ask::Form,
            Ask::FreeLong,
            0.70,
        ),
    ]
}

/// The rate of an operation as a share of the no-op's, at 64 callers.
fn ratio(runs: &[Run], what: &'static str, operation: Operation, wanted: f64) -> Goal {
    let found = median(runs, |run| {
        let floor = run.row(Operation::Noop, 64)?.rate;
        Some(run.row(operation, 64)?.rate / floor)
    });
    Goal {
        what,
        wanted: format!("≥ {wanted:.2} of the no-op's rate"),
        found: format!("{found:.2}"),
        met: found >= wanted,
    }
}

/// The rate of answers that are checked as a share of that of free ones, of the same sizes.
fn checked(runs: &[Run], what: &'static str, ask: Ask, free: Ask, wanted: f64) -> Goal {
    let found = median(runs, |run| {
        let free = run.rate(Operation::ResolveTo(free), 64)?;
        Some(run.rate(Operation::ResolveTo(ask), 64)? / free)
    });
    Goal {
        what,
        wanted: format!("≥ {wanted:.2} of free JSON"),
        found: format!("{found:.2}"),
        met: found >= wanted,
    }
}

/// How long an answer takes to its worker when the broker is idle.
fn delivery(runs: &[Run]) -> Goal {
    let found = median(runs, |run| Some(run.row(Operation::Cycle, 1)?.p50));
    let wanted = median(runs, |run| {
        Some(run.row(Operation::Noop, 1)?.p50 + 2.0 * run.sync_p50)
    });
    Goal {
        what: "answer sent → worker has it, one caller, p50",
        wanted: format!("≤ no-op + 2 × fdatasync = {wanted:.0} µs"),
        found: format!("{found:.0} µs"),
        met: found <= wanted,
    }
}

/// How long the slow commits take, at 64 callers.
fn commit(runs: &[Run]) -> Goal {
    let found = median(runs, |run| {
        let p99 = |operation| Some(run.row(operation, 64)?.commits.p99);
        Some(p99(Operation::OpenWait)?.max(p99(Operation::Resolve)?) as f64)
    });
    let wanted = median(runs, |run| Some(40.0 * run.sync_p50));
    Goal {
        what: "commit, 64 callers, p99",
        wanted: format!("≤ 40 × fdatasync = {wanted:.0} µs"),
        found: format!("{found:.0} µs"),
        met: found <= wanted,
    }
}

fn memory(runs: &[Run]) -> Goal {
    let found = median(runs, |run| Some(run.held_bytes)) / 1024.0;
    Goal {
        what: "memory of the broker for each held `Wait`",
        wanted: "≤ 7 KiB".to_owned(),
        found: format!("{found:.1} KiB"),
        met: found <= 7.0,
    }
}
