//! One run: a broker, its load, and its kills.

use std::{io::Write as _, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use tokio::time::timeout;

use super::{
    checker::{Fault, check},
    history::{History, Seen, Summary},
    load::Load,
    process::{BOUND, Process, Setup},
    rng::Rng,
    wire::Case,
};

/// How much is acknowledged between two kills, at most.
const PER_CYCLE: u64 = 600;

/// A broker under load.
pub struct Run {
    name: &'static str,
    seed: u64,
    pub rng: Rng,
    root: Option<TempDir>,
    pub setup: Setup,
    process: Option<Process>,
    pub load: Arc<Load>,
    history: Arc<History>,
    last_start: u64,
}

impl Run {
    /// Starts a broker in a directory of its own. Its load is idle.
    pub async fn new(name: &'static str, seed: u64) -> Self {
        let root = TempDir::new().expect("a temporary directory can be made");
        let setup = Setup::new(&root.path().canonicalize().expect("it exists"));
        Self::with(name, seed, root, setup).await
    }

    /// The same with a set-up of the test's own, in `root`.
    pub async fn with(name: &'static str, seed: u64, root: TempDir, mut setup: Setup) -> Self {
        print(&format!("{name}: ABEYANCE_TEST_SEED={seed}"));
        let process = setup.start().await;
        let history = Arc::new(History::new());
        let rng = Rng::new(seed);
        let load = Load::new(&process.url(), &history, rng.fork(u64::MAX));
        Self {
            name,
            seed,
            rng,
            root: Some(root),
            setup,
            process: Some(process),
            load,
            last_start: history.tick(),
            history,
        }
    }

    pub fn root(&self) -> &Path {
        self.root.as_ref().expect("kept until the end").path()
    }

    /// Lets the load go on for a random while, then kills the broker.
    pub async fn go_on_until_killed(&mut self) {
        let more = 1 + self.rng.below(PER_CYCLE);
        self.go_on(more).await;
        // Not only right after an acknowledgement: anywhere.
        let jitter = Duration::from_micros(self.rng.below(5000));
        tokio::time::sleep(jitter).await;
        self.kill().await;
    }

    /// Waits until `more` was acknowledged.
    pub async fn go_on(&self, more: u64) {
        let mut progress = self.history.progress();
        let goal = *progress.borrow() + more;
        if timeout(BOUND, progress.wait_for(|n| *n >= goal))
            .await
            .is_err()
        {
            panic!(
                "{}: nothing goes on after a start (seed {}); the broker's log ends:\n{}",
                self.name,
                self.seed,
                self.setup.log_tail()
            );
        }
    }

    /// Waits until each of these was told something like `is`.
    pub async fn until(&self, cases: &[Arc<Case>], is: impl Fn(&Seen) -> bool) {
        let mut progress = self.history.progress();
        let all = progress.wait_for(|_| cases.iter().all(|case| self.saw(case, &is)));
        if timeout(BOUND, all).await.is_err() {
            panic!(
                "{}: not all were told in time; the broker's log ends:\n{}",
                self.name,
                self.setup.log_tail()
            );
        }
    }

    /// Waits until all are open.
    pub async fn until_opened(&self, cases: &[Arc<Case>]) {
        self.until(cases, |seen| matches!(seen, Seen::Opened { .. }))
            .await;
    }

    /// Waits until all, which were open before, have been opened again or attached to.
    pub async fn until_attached(&self, cases: &[Arc<Case>]) {
        self.until(cases, |seen| {
            matches!(seen, Seen::Opened { resumed: true, .. })
        })
        .await;
    }

    /// Whether anything like `is` was seen of it.
    pub fn saw(&self, case: &Case, is: impl Fn(&Seen) -> bool) -> bool {
        self.history
            .any(|event| event.wait == case.number && is(&event.seen))
    }

    /// Where the broker listens.
    pub fn address(&self) -> SocketAddr {
        self.setup.listen
    }

    pub async fn kill(&mut self) {
        self.load.set_up(false);
        if let Some(process) = self.process.take() {
            process.kill().await;
        }
    }

    /// Waits until the broker ends by itself.
    pub async fn exit(&mut self) -> std::process::ExitStatus {
        let mut process = self.process.take().expect("it runs");
        let status = process.exit().await;
        self.load.set_up(false);
        status
    }

    /// Starts it and kills it before it serves, or just after.
    pub async fn kill_while_it_starts(&mut self) {
        let starting = self.setup.spawn();
        tokio::time::sleep(Duration::from_micros(self.rng.below(60_000))).await;
        starting.kill().await;
    }

    pub async fn restart(&mut self) {
        self.process = Some(self.setup.start().await);
        self.last_start = self.history.tick();
        self.load.set_up(true);
    }

    /// What happened so far.
    pub fn so_far(&self) -> Summary {
        self.history.summary()
    }

    /// Ends the load, asks for everything once more, and judges.
    pub async fn finish(&mut self) -> (Vec<Fault>, Summary) {
        self.finish_within(BOUND).await
    }

    /// The same, where faults are expected and nobody need be patient.
    pub async fn finish_within(&mut self, bound: Duration) -> (Vec<Fault>, Summary) {
        self.load.finish(bound).await;
        self.kill().await;
        let events = self.history.snapshot();
        (check(&events, self.last_start), Summary::of(&events))
    }

    /// Fails if there are faults, and then keeps the directory.
    pub fn judge(&mut self, faults: &[Fault]) {
        if faults.is_empty() {
            return;
        }
        let kept = self.root.take().map(TempDir::keep);
        let some: Vec<_> = faults.iter().take(10).collect();
        panic!(
            "{}: {} faults with ABEYANCE_TEST_SEED={}, for example {some:#?}; see {kept:?}",
            self.name,
            faults.len(),
            self.seed
        );
    }
}

/// Tells how far a long test is, past the test runner's capture.
pub fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
