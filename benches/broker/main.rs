//! Measures floors and product in one run and prints them as ratios. `benches/README.md` says how and why.

mod child;
mod commits;
mod disk;
mod goals;
mod load;
mod machine;
mod messages;
mod noop;
mod questions;
mod report;
mod scenarios;
mod wire;

use std::{path::PathBuf, time::Duration};

use clap::Parser;

use crate::load::Span;

/// What goes wrong here ends the run.
type Fault = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Fault>;

/// Floors and product, measured in the same run.
#[derive(Clone, Debug, Parser)]
#[command(name = "broker", bin_name = "cargo bench --bench broker --")]
struct Options {
    /// One short run, to see that everything works. Its numbers mean little.
    #[arg(long)]
    quick: bool,
    /// How long each load is measured, in seconds, after a fifth of that as a warm-up [default: 3; with --quick: 0.5]
    #[arg(long)]
    seconds: Option<f64>,
    /// How many runs, each with a broker of its own; the table shows medians [default: 3; with --quick: 1]
    #[arg(long)]
    runs: Option<usize>,
    /// How many streams are held to see their memory [default: 20000; with --quick: 2000]
    #[arg(long)]
    held: Option<usize>,
    /// Where the broker keeps its data: a folder on the disk that is to be measured [default: in cargo's target folder]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Serve in this folder: what the bench starts as the broker's process.
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
    /// Cargo says this to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn span(&self) -> Span {
        let length = self.seconds.unwrap_or(if self.quick { 0.5 } else { 3.0 });
        Span {
            warm_up: Duration::from_secs_f64(length / 5.0),
            length: Duration::from_secs_f64(length),
        }
    }

    fn runs(&self) -> usize {
        self.runs.unwrap_or(if self.quick { 1 } else { 3 }).max(1)
    }

    fn held(&self) -> usize {
        self.held.unwrap_or(if self.quick { 2000 } else { 20_000 })
    }

    fn folder(&self) -> PathBuf {
        let default = || PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        self.dir.clone().unwrap_or_else(default)
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(folder) = &options.serve {
        return child::serve(folder);
    }
    let pinned = machine::pin(machine::LOAD_CORE);
    if let Err(error) = &pinned {
        eprintln!("the load is not pinned to a core of its own: {error}");
    }
    // One thread: the load has one core.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut runs = Vec::new();
    for number in 1..=options.runs() {
        eprintln!("run {number} of {}", options.runs());
        runs.push(runtime.block_on(scenarios::run(&options))?);
    }
    let machine = machine::description(&options.folder())?;
    report::print(&machine, pinned.is_ok(), &options, &runs);
    Ok(())
}
