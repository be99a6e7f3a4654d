//! The result as Markdown.

use crate::{
    Options, goals,
    questions::Ask,
    scenarios::{CALLERS, Operation, Row, Run},
};

/// Others that used more than this share of a core may have changed a number.
const DISTURBED: f64 = 0.03;

/// Prints everything.
pub fn print(machine: &str, pinned: bool, options: &Options, runs: &[Run]) {
    println!("Machine: {machine}.");
    println!(
        "Broker {}, {} s for each load, medians of {}, {}.\n",
        env!("CARGO_PKG_VERSION"),
        options.span().length.as_secs_f64(),
        count(runs.len(), "run"),
        if pinned {
            "broker and load each on a core of their own"
        } else {
            "NOT pinned to cores: rates are not to be trusted"
        }
    );
    table(runs);
    println!();
    println!(
        "`fdatasync` after an append of 4 KiB, p50: {:.0} µs. Memory of the broker for each held `Wait`: {:.2} KiB ({} on one connection).\n",
        median(runs, |run| Some(run.sync_p50)),
        median(runs, |run| Some(run.held_bytes)) / 1024.0,
        count(options.held(), "stream"),
    );
    println!("| goal | wanted | measured | |");
    println!("| --- | --- | --- | --- |");
    for goal in goals::judge(runs) {
        let verdict = if goal.met { "pass" } else { "**miss**" };
        println!(
            "| {} | {} | {} | {verdict} |",
            goal.what, goal.wanted, goal.found
        );
    }
    println!("\n{}", disturbance(runs));
}

fn table(runs: &[Run]) {
    println!(
        "| operation | callers | per second | × no-op | p50 µs | p99 µs | broker CPU µs | operations per commit | commit p50 µs | commit p99 µs |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for operation in [
        Operation::Noop,
        Operation::OpenWait,
        Operation::Resolve,
        Operation::ResolveMixed,
        Operation::Cycle,
        Operation::ResolveTo(Ask::Free),
        Operation::ResolveTo(Ask::Calls),
        Operation::ResolveTo(Ask::FreeLong),
        Operation::ResolveTo(Ask::Form),
    ] {
        for callers in CALLERS {
            if runs.iter().any(|run| run.row(operation, callers).is_some()) {
                println!("{}", line(runs, operation, callers));
            }
        }
    }
}

fn line(runs: &[Run], operation: Operation, callers: usize) -> String {
    let of = |value: fn(&Row) -> f64| median(runs, |run| run.row(operation, callers).map(value));
    let ratio = median(runs, |run| {
        let floor = run.row(Operation::Noop, callers)?.rate;
        Some(run.row(operation, callers)?.rate / floor)
    });
    let commits = if operation == Operation::Noop {
        "| | | |".to_owned()
    } else {
        format!(
            "| {:.1} | {:.0} | {:.0} |",
            of(|row| row.commits.operations),
            of(|row| row.commits.p50 as f64),
            of(|row| row.commits.p99 as f64),
        )
    };
    format!(
        "| {} | {callers} | {:.0} | {ratio:.2} | {:.0} | {:.0} | {:.1} {commits}",
        name(operation),
        of(|row| row.rate),
        of(|row| row.p50),
        of(|row| row.p99),
        of(|row| row.cpu),
    )
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Noop => "no-op",
        Operation::OpenWait => "`OpenWait`",
        Operation::Resolve => "`Resolve`, oldest first",
        Operation::ResolveMixed => "`Resolve`, in any order",
        Operation::ResolveTo(Ask::Free) => "`Resolve` of 2 KiB, free question",
        Operation::ResolveTo(Ask::Calls) => "`Resolve` of 2 KiB, 3 tool calls",
        Operation::ResolveTo(Ask::FreeLong) => {
            "`Resolve` of 2 KiB, free question as long as the form"
        }
        Operation::ResolveTo(Ask::Form) => "`Resolve` of 2 KiB, form of 50 fields",
        Operation::Cycle => "full cycle (latency: answer sent → worker has it)",
    }
}

/// Which loads were not alone.
fn disturbance(runs: &[Run]) -> String {
    let rows = runs.iter().flat_map(|run| &run.rows);
    let disturbed: Vec<_> = rows.filter(|row| row.disturbed > DISTURBED).collect();
    if disturbed.is_empty() {
        return "Nothing else ran meanwhile.".to_owned();
    }
    let most = disturbed.iter().map(|row| row.disturbed);
    format!(
        "Disturbed: others ran during {}, using up to {:.0} % of a core. Measure again on a quiet machine.",
        count(disturbed.len(), "load"),
        most.fold(0.0, f64::max) * 100.0
    )
}

fn count(number: usize, of: &str) -> String {
    format!("{number} {of}{}", if number == 1 { "" } else { "s" })
}

/// The median of a value over the runs. Not a number where no run has it.
pub fn median(runs: &[Run], value: impl Fn(&Run) -> Option<f64>) -> f64 {
    let mut values: Vec<f64> = runs.iter().filter_map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
