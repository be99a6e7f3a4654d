//! Reads the store's trace of its commits: how many operations each held, and how long it took.

use std::{
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    subscriber::Interest,
};
use tracing_subscriber::layer::{Context, Layer};

use crate::Fault;

/// Where the store writes. Its event tells `operations` and `micros`.
const WRITER: &str = "abeyance::store::sqlite::writer";

/// What was committed over a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct Commits {
    /// How many commits there were.
    pub count: usize,
    /// Operations in a commit, on average.
    pub operations: f64,
    /// How long a transaction took from its begin to the end of its commit, in microseconds.
    pub p50: u64,
    /// The same.
    pub p99: u64,
}

impl fmt::Display for Commits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            count,
            operations,
            p50,
            p99,
        } = self;
        write!(f, "{count} {operations} {p50} {p99}")
    }
}

impl FromStr for Commits {
    type Err = Fault;

    fn from_str(line: &str) -> Result<Self, Fault> {
        match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            [count, operations, p50, p99] => Ok(Self {
                count: count.parse()?,
                operations: operations.parse()?,
                p50: p50.parse()?,
                p99: p99.parse()?,
            }),
            _ => Err(format!("not what the broker says of commits: {line:?}").into()),
        }
    }
}

/// Collects the commits of this process. Cheap to clone; all clones collect into one.
#[derive(Clone, Debug, Default)]
pub struct Collector(Arc<Mutex<Vec<Commit>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Commit {
    operations: u64,
    micros: u64,
}

impl Collector {
    /// What was committed since the last call.
    pub fn take(&self) -> Commits {
        let mut commits =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        commits.sort_unstable_by_key(|commit| commit.micros);
        let at = |share: f64| {
            let at = (commits.len() as f64 * share) as usize;
            commits.get(at).map_or(0, |commit| commit.micros)
        };
        let operations: u64 = commits.iter().map(|commit| commit.operations).sum();
        Commits {
            count: commits.len(),
            operations: operations as f64 / commits.len().max(1) as f64,
            p50: at(0.5),
            p99: at(0.99),
        }
    }
}

impl<S: Subscriber> Layer<S> for Collector {
    // Everything else stays switched off, as it is by default in `abeyance serve`.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == WRITER && metadata.fields().field("operations").is_some() {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut commit = Commit::default();
        event.record(&mut commit);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(commit);
    }
}

impl Visit for Commit {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "operations" => self.operations = value,
            "micros" => self.micros = value,
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
