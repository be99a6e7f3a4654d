//! What a commit sets in motion. The store calls this on its own thread, after the commit and before the caller is told, so no
//! disconnect can come between a decision and its wake-up.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use tokio::sync::{Notify, OnceCell, broadcast};

use super::registry::Registry;
use crate::{
    domain::{Record, Summary, Timestamp, WaitId},
    store::Listener,
};

/// How many changes a watcher may lag behind before it is let go.
const WATCH_BACKLOG: usize = 8192;

/// Where commits are told.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) registry: Arc<Registry>,
    pub(super) alarm: Alarm,
    changes: broadcast::Sender<Arc<Change>>,
}

/// That a wait changed. It is read at most once, by whichever watcher comes first, for all of them.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) id: WaitId,
    /// The wait as it was read after the change. `None` if it is gone.
    pub(super) read: OnceCell<Option<Summary>>,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self {
            registry: Arc::new(Registry::new()),
            alarm: Alarm::default(),
            changes: broadcast::channel(WATCH_BACKLOG).0,
        }
    }

    /// What changes from now on.
    pub(super) fn changes(&self) -> broadcast::Receiver<Arc<Change>> {
        self.changes.subscribe()
    }
}

impl Listener for Hub {
    fn committed(&self, record: &Record) {
        match &record.outcome {
            Some(outcome) => self.registry.publish(record.id, outcome),
            None => {
                self.registry.publish_part(record);
                self.alarm.not_later_than(record.due_time());
            }
        }
        if self.changes.receiver_count() > 0 {
            // It fails only if the last watcher left just now.
            let _ = self.changes.send(Arc::new(Change {
                id: record.id,
                read: OnceCell::new(),
            }));
        }
    }
}

/// When the expiry task must look again, at the latest.
#[derive(Debug)]
pub(super) struct Alarm {
    at: AtomicI64,
    earlier: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            at: AtomicI64::new(i64::MAX),
            earlier: Notify::new(),
        }
    }
}

impl Alarm {
    /// A wait is due at `time`: wakes the expiry task if it meant to sleep longer.
    fn not_later_than(&self, time: Timestamp) {
        let time = time.as_micros();
        if self.at.fetch_min(time, Ordering::AcqRel) > time {
            self.earlier.notify_one();
        }
    }

    /// The expiry task is about to read what is due: whatever is committed from now on wakes it.
    pub(super) fn reset(&self) {
        self.at.store(i64::MAX, Ordering::Release);
    }

    /// The expiry task will look at `time` anyway.
    pub(super) fn set(&self, time: Timestamp) {
        self.at.fetch_min(time.as_micros(), Ordering::AcqRel);
    }

    /// Waits until something is due earlier than was said.
    pub(super) async fn earlier(&self) {
        self.earlier.notified().await;
    }
}
