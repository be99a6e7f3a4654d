//! `watch`: pending waits, and then each change as it comes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use clap::Args;

use super::{
    args::{Broker, Which},
    exit::Failure,
    list::key_and_labels,
    output::{self, clean},
    progress, record, time,
};
use crate::client::{Client, State, WaitInfo, WatchEvent};

/// Show pending waits, and then each change as it comes
///
/// A change is a wait that is opened, asked, or ends, and a tool call that is decided. Begins again by itself after a cut, and then tells
/// only what changed meanwhile. Changes that come close together may be told as one. Once all that is there has been told it says so on
/// stderr.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  abeyance watch --name refund
  abeyance watch --json | while read -r wait; do ...; done")]
pub(super) struct WatchArgs {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object for each change, one on a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

pub(super) async fn run(mut args: WatchArgs) -> Result<(), Failure> {
    if args.which.states.is_empty() {
        args.which.states.push(State::Pending);
    }
    output::until_reader_leaves(watch(&args).await)
}

async fn watch(args: &WatchArgs) -> Result<(), Failure> {
    let client = args.broker.client()?;
    let mut watch = client.watch(&args.which.filter());
    let mut told = Told::default();
    let mut synced = false;
    loop {
        match watch.next().await.map_err(|e| args.broker.failure(e))? {
            WatchEvent::Began => told.begin(),
            WatchEvent::Wait(wait) => {
                let before = told.before(&wait);
                if told.is_news(&wait, &args.which.states) {
                    print(&wait, before, args.json)?;
                }
            }
            WatchEvent::Synced => {
                for wait_id in told.sync() {
                    tell_end(&client, &wait_id, args.json).await?;
                }
                // On a terminal it says why nothing more comes, and to a script that from now on it misses nothing.
                if !std::mem::replace(&mut synced, true) {
                    output::note(format_args!(
                        "synced, {} now; changes follow",
                        told.waits.len()
                    ));
                }
            }
        }
    }
}

/// A wait that was told before a cut and not after it has ended meanwhile, or was purged since.
async fn tell_end(client: &Client, wait_id: &str, json: bool) -> Result<(), Failure> {
    match client.get(wait_id).await {
        Ok(wait) => print(&wait, None, json),
        Err(error) => {
            tracing::debug!(%error, wait_id, "cannot tell how a wait ended");
            Ok(())
        }
    }
}

/// Prints a wait of which `before` was told before.
fn print(wait: &WaitInfo, before: Option<Seen>, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&record::Wait::listed(wait));
    }
    let now = SystemTime::now();
    let is_decision = before.is_some_and(|before| before.decided != Seen::of(wait).decided);
    let (when, what) = match (wait.state, wait.settle_time, wait.ask_time) {
        // The broker tells in watches how many are decided, and not when.
        (State::Pending, ..) if is_decision => (now, "decided"),
        (State::Pending, _, None) => (wait.create_time, "opened"),
        (State::Pending, _, Some(asked)) => (asked, "asked"),
        (state, settled, _) => (settled.unwrap_or(now), state.name()),
    };
    let left = match wait.state {
        State::Pending => {
            let decided = progress::short(wait).map(|decided| format!("{decided}  "));
            let left = time::relative(wait.expire_time, now);
            format!("{}expires {left}  ", decided.unwrap_or_default())
        }
        _ => String::new(),
    };
    let line = format!(
        "{}  {what:<9}  {}  {}  {left}{}",
        time::clock(when),
        wait.wait_id,
        clean(&wait.name),
        key_and_labels(wait),
    );
    output::line(line.trim_end())
}

/// What can change of a wait that goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    asked: bool,
    /// How many of its tool calls were decided.
    decided: u32,
}

impl Seen {
    fn of(wait: &WaitInfo) -> Self {
        Self {
            asked: wait.ask_time.is_some(),
            decided: (wait.decided.as_ref()).map_or(0, |decided| decided.decided_calls),
        }
    }
}

/// What was told of which wait, so that a watch that begins again repeats nothing.
#[derive(Default)]
struct Told {
    /// By wait id. Waits that match no longer are forgotten.
    waits: BTreeMap<String, Seen>,
    /// Those of them that were not told again since the watch began.
    stale: BTreeSet<String>,
}

impl Told {
    fn begin(&mut self) {
        self.stale = self.waits.keys().cloned().collect();
    }

    fn before(&self, wait: &WaitInfo) -> Option<Seen> {
        self.waits.get(&wait.wait_id).copied()
    }

    fn is_news(&mut self, wait: &WaitInfo, states: &[State]) -> bool {
        self.stale.remove(&wait.wait_id);
        if !states.contains(&wait.state) {
            self.waits.remove(&wait.wait_id);
            return true;
        }
        let seen = Seen::of(wait);
        self.waits.insert(wait.wait_id.clone(), seen) != Some(seen)
    }

    /// The ids of those that were told before the watch began again, and match no longer.
    fn sync(&mut self) -> BTreeSet<String> {
        let ended = std::mem::take(&mut self.stale);
        self.waits.retain(|id, _| !ended.contains(id));
        ended
    }
}
