//! Moves the log (WAL) into the database, off the commit path.
//!
//! A thread of its own copies small pieces often, so that no commit waits for a large one. That alone never lets the log begin
//! anew: while the thread copies, the writer appends, and SQLite resets the log only when all of it is copied. So once the log
//! is long and nearly all copied, the writer copies the little rest itself between two batches; its next commit then writes over
//! the log from the front.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::fault;

/// After about this many pages of log the thread copies.
const PIECE_PAGES: u64 = 1000;
/// From this length of the log on the writer is asked to finish; sooner if that is over half of the limit.
const RESET_PAGES: u64 = 4000;
/// What the writer is asked to copy is no more than this, a millisecond or so.
const REST_PAGES: u64 = 1000;
/// How often the thread follows up on its own passes, to catch up with a busy writer.
const PASSES: usize = 4;
/// How often it tries again while somebody's read holds the log.
const RETRY: Duration = Duration::from_secs(1);
/// How often it complains about a long log.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// SQLite's page, as the database is made with.
const PAGE_BYTES: u64 = 4096;

/// What the writer and the checkpoint thread share.
pub(super) struct Checkpoints {
    signal: Mutex<Signal>,
    wake: Condvar,
    /// The writer is asked to copy the rest.
    finish: AtomicBool,
    /// Pages that the writer has probably written since it last woke the thread.
    written: AtomicU64,
    /// The length of the log when it was last looked at.
    log_pages: AtomicU64,
    limit_bytes: u64,
    reset_pages: u64,
}

#[derive(Default)]
struct Signal {
    due: bool,
    stop: bool,
}

/// What a pass found: pages in the log, and how many of them are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pass {
    log: u64,
    copied: u64,
}

impl Pass {
    fn rest(self) -> u64 {
        self.log.saturating_sub(self.copied)
    }
}

impl Checkpoints {
    /// Complains when the log is longer than `limit_bytes`.
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self {
            signal: Mutex::default(),
            wake: Condvar::new(),
            finish: AtomicBool::new(false),
            written: AtomicU64::new(0),
            log_pages: AtomicU64::new(0),
            limit_bytes,
            reset_pages: RESET_PAGES.min(limit_bytes / PAGE_BYTES / 2),
        }
    }

    /// The length of the log when it was last looked at, in bytes.
    pub(super) fn log_bytes(&self) -> u64 {
        self.log_pages.load(Ordering::Relaxed) * PAGE_BYTES
    }

    /// The writer tells of a batch, and finishes a checkpoint on its own connection if it is asked to.
    pub(super) fn written(&self, jobs: usize, db: &Connection) {
        if self.finish.swap(false, Ordering::AcqRel) {
            pass(db);
        }
        // A guess will do: it only sets the pace. Each commit writes a few pages however small it is.
        let pages = 6 + jobs as u64;
        if self.written.fetch_add(pages, Ordering::Relaxed) + pages >= PIECE_PAGES {
            self.written.store(0, Ordering::Relaxed);
            self.signal().due = true;
            self.wake.notify_one();
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.signal().stop = true;
        self.wake.notify_one();
    }

    /// The thread: copies when it is woken, until it is stopped.
    pub(super) fn run(self: Arc<Self>, db: &Connection) {
        let mut last_warning = None;
        let mut behind = false;
        let mut waited = false;
        while self.wait(behind) {
            if !waited && self.finish.load(Ordering::Acquire) {
                // The writer's turn: two at once would only get into each other's way.
                (behind, waited) = (true, true);
                continue;
            }
            // A writer that did not come has nothing to write, so the rest can be copied here.
            waited = false;
            self.finish.store(false, Ordering::Release);
            let Some(found) = self.catch_up(db) else {
                behind = true;
                continue;
            };
            self.log_pages.store(found.log, Ordering::Relaxed);
            self.warn(found, &mut last_warning);
            behind = found.rest() > 0;
            if found.log >= self.reset_pages && found.rest() <= REST_PAGES {
                self.finish.store(true, Ordering::Release);
            }
        }
    }

    /// Copies until little is left or it gets no further. `None` if somebody else is at it.
    fn catch_up(&self, db: &Connection) -> Option<Pass> {
        let mut found = pass(db)?;
        for _ in 1..PASSES {
            if found.rest() <= REST_PAGES / 2 {
                break;
            }
            let next = pass(db)?;
            let stuck = next.copied <= found.copied;
            found = next;
            if stuck {
                break;
            }
        }
        Some(found)
    }

    /// Waits for the next turn. `false` if there is none.
    fn wait(&self, behind: bool) -> bool {
        let mut signal = self.signal();
        while !signal.due && !signal.stop {
            if behind {
                let (guard, timeout) = self
                    .wake
                    .wait_timeout(signal, RETRY)
                    .unwrap_or_else(PoisonError::into_inner);
                signal = guard;
                if timeout.timed_out() {
                    break;
                }
            } else {
                signal = self
                    .wake
                    .wait(signal)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
        signal.due = false;
        !signal.stop
    }

    fn warn(&self, found: Pass, last: &mut Option<Instant>) {
        let bytes = found.log * PAGE_BYTES;
        let lately = last.is_some_and(|at| at.elapsed() < WARN_EVERY);
        if bytes > self.limit_bytes && !lately {
            *last = Some(Instant::now());
            tracing::warn!(
                wal_bytes = bytes,
                limit_bytes = self.limit_bytes,
                "the write-ahead log grows over its limit: look for a long read of the database file, a backup for example"
            );
        }
    }

    fn signal(&self) -> MutexGuard<'_, Signal> {
        // Nothing panics while it is held.
        self.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies what nobody holds, without waiting for anybody. `None` if it could not.
fn pass(db: &Connection) -> Option<Pass> {
    let row = db
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
        .and_then(|mut statement| {
            statement.query_row([], |row| {
                // -1 where there is no log yet.
                let pages = |at| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
                Ok((
                    row.get::<_, i64>(0)?,
                    Pass {
                        log: pages(1)?,
                        copied: pages(2)?,
                    },
                ))
            })
        });
    match row {
        Ok((0, found)) => Some(found),
        // Another checkpoint is at work.
        Ok(_) => None,
        Err(e) => {
            fault::end_if_fatal("checkpoint", &e);
            tracing::warn!(error = %e, "a checkpoint failed; it is tried again");
            None
        }
    }
}

/// Moves the whole log into the database and empties it. For the close.
pub(super) fn finish(db: &Connection) {
    // Without waiting for readers of other processes: what they hold back, the next start copies.
    let emptied = db
        .busy_timeout(Duration::ZERO)
        .and_then(|()| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    if let Err(e) = emptied {
        fault::end_if_fatal("checkpoint", &e);
        tracing::warn!(error = %e, "the last checkpoint failed; the next start makes up for it");
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Mutex};

    use super::*;

    /// Where a test's log goes.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("whole").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// C57: what an operator is told while somebody's read holds the log.
    #[test]
    fn a_log_over_its_limit_is_complained_about_once_in_a_while() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .finish();
        let checkpoints = Checkpoints::new(10 * PAGE_BYTES);
        let mut last = None;
        let mut complaints = |pages| {
            let found = Pass {
                log: pages,
                copied: 0,
            };
            checkpoints.warn(found, &mut last);
            let text = String::from_utf8(log.0.lock().expect("whole").clone());
            text.expect("text").matches("grows over its limit").count()
        };
        tracing::subscriber::with_default(subscriber, || {
            assert_eq!(complaints(10), 0);
            assert_eq!(complaints(11), 1);
            assert_eq!(complaints(500), 1);
        });
    }

    #[test]
    fn the_log_is_reset_at_half_of_a_small_limit() {
        assert_eq!(Checkpoints::new(u64::MAX).reset_pages, RESET_PAGES);
        assert_eq!(Checkpoints::new(100 * PAGE_BYTES).reset_pages, 50);
    }
}
