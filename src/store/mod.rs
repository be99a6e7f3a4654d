//! Memory of record: where waits are kept.
//!
//! May import: `domain`. Knows nothing of who is waiting, nor of gRPC.
//!
//! Invariants
//! - The rules stand in `domain::transition` alone. A store reads a record, asks them, and writes what they say, all in one
//!   transaction; it never repeats them in SQL.
//! - What a store has answered is durable, as far as its kind promises at all.
//! - Drivers' errors stop here: [`Error`] is all that the rooms above see.

pub mod clock;
mod error;
pub mod memory;
pub mod sqlite;
mod text;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::Error;

use crate::domain::{
    Command, NewWait, Outcome, Record, Refusal, State, Summary, Timestamp, Verdict, Wait, WaitId,
    limits::{Key, Name, Namespace},
};

/// A place where waits are kept. All methods may be called from many tasks at once.
///
/// # Contract
/// - **Atomic.** Each [`Store::open`] and [`Store::apply`] sees the record as the one before left it, and is written whole or
///   not at all. Within one transaction the order is: read the record, read the clock, ask the rules, write.
/// - **Durable.** They return after what they wrote survives `kill -9` and a loss of power (the memory store: as long as it
///   lives). On an error the caller knows nothing: it may be written or not. Repeating is safe, the rules see to that.
/// - **Not cut in half.** Once called they run to their end, also if the returned future is dropped: what is committed is told to
///   the [`Listener`] all the same.
/// - **Told in order.** The listener hears of each commit after it is durable and before the caller does; of one wait in the order
///   of its commits.
/// - **Read your commits.** A read that begins after a commit was told sees it.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Sets who is told of commits. Called once, before anything else; without it nobody is told.
    fn listen(&self, listener: Arc<dyn Listener>);

    /// The store's clock, by which it decides. Where it is remote, an estimate.
    fn now(&self) -> Timestamp;

    /// Opens a wait, or gives the one that is there under the same key or, where there is no key, the same `request_id` in the
    /// same namespace, if [`crate::domain::transition::reopen`] agrees. A wait that is there is not changed. An open with an id that
    /// is there already is the repeat of an open and judged likewise.
    async fn open(&self, new: NewWait) -> Result<Opened, Error>;

    /// Decides a command with [`crate::domain::apply`] and writes its effect. `None` if there is no such wait.
    async fn apply(&self, id: WaitId, command: Command) -> Result<Option<Applied>, Error>;

    /// Reads a wait.
    async fn load(&self, id: WaitId) -> Result<Option<Wait>, Error>;

    /// Reads the wait that has this key.
    async fn find(&self, namespace: Namespace, key: Key) -> Result<Found, Error>;

    /// Lists waits, newest id first. Looks at a bounded number of rows for each page, so a page may be short or empty and still
    /// have more behind it.
    async fn list(&self, query: Query) -> Result<Page, Error>;

    /// The pending waits whose [`Record::due_time`] has passed by the store's clock, earliest first, at most `limit`, and how long
    /// until the next.
    async fn due(&self, limit: usize) -> Result<Due, Error>;

    /// Deletes up to `limit` waits that were settled longer than `retention` ago, leaving a tombstone for each key; and up to
    /// `limit` tombstones older than `tombstones`.
    async fn purge(
        &self,
        retention: Duration,
        tombstones: Duration,
        limit: usize,
    ) -> Result<Purged, Error>;

    /// Finishes what was begun and closes. Later calls fail with [`Error::Unavailable`].
    async fn close(&self);
}

/// Who is told of commits. Called on a store's own thread: it must be quick and must not block.
pub trait Listener: Send + Sync {
    /// `record` was committed as it stands here: opened, changed or settled.
    fn committed(&self, record: &Record);
}

/// What came of an open.
#[derive(Clone, Debug)]
pub enum Opened {
    /// The wait is new.
    Created(Wait),
    /// The wait was there, in whatever state.
    Resumed(Wait),
    /// The rules refuse: another wait has the key or the `request_id`, or the key's tombstone stands.
    Refused(Refusal),
}

/// What came of a command.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The record as it is now.
    pub record: Record,
    /// What the caller is told.
    pub verdict: Result<Verdict, Refusal>,
}

/// What stands under a key.
#[derive(Clone, Debug)]
pub enum Found {
    /// A wait, in whatever state.
    Wait(Box<Wait>),
    /// A wait stood there and was purged.
    Tombstone,
    /// Nothing.
    Nothing,
}

/// Which waits to list.
#[derive(Clone, Debug)]
pub struct Query {
    /// Only of this namespace.
    pub namespace: Namespace,
    /// Only in one of these states. Empty: in any. A pending wait that is overdue counts as pending here.
    pub states: Vec<State>,
    /// Only with this name.
    pub name: Option<Name>,
    /// Only with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only opened at or before this time.
    pub created_until: Option<Timestamp>,
    /// Only opened at or after this time.
    pub created_from: Option<Timestamp>,
    /// Only ids below this one: where the page before ended.
    pub before: Option<WaitId>,
    /// At most this many.
    pub limit: usize,
}

impl Query {
    /// Whether a wait is among those asked for, wherever a page begins. The one rule: stores may narrow their scan by what they
    /// can index, and let this decide.
    pub fn matches(&self, wait: &Summary) -> bool {
        let labels = wait.spec.labels.as_map();
        self.namespace == wait.spec.namespace
            && (self.states.is_empty() || self.states.contains(&wait.state()))
            && self.name.as_ref().is_none_or(|n| *n == wait.spec.name)
            && self.labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self
                .created_until
                .is_none_or(|t| wait.record.create_time <= t)
            && self
                .created_from
                .is_none_or(|t| wait.record.create_time >= t)
    }
}

/// The most rows that a store looks at for one page of a list.
pub const LIST_SCAN_ROWS: usize = 10_000;

/// About the most bytes that the waits of one page come to. gRPC clients take 4 MiB unless they are set otherwise.
pub const LIST_BYTES: usize = 1 << 20;

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The waits, newest id first.
    pub waits: Vec<Summary>,
    /// Where the next page begins, if there may be more.
    pub next: Option<WaitId>,
}

/// The pending waits whose time is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The waits, earliest first.
    pub waits: Vec<WaitId>,
    /// How long until the next one is due. `None` if there is none, zero if more are due than were asked for.
    pub next_in: Option<Duration>,
}

/// The record of a pending wait that has just been given its outcome: what every store keeps and tells.
pub(crate) fn settled(record: Record, outcome: Outcome) -> Record {
    Record {
        last_time: outcome.settle_time,
        decided: None,
        outcome: Some(outcome),
        ..record
    }
}

/// How much was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Settled waits.
    pub waits: usize,
    /// Tombstones.
    pub tombstones: usize,
}
