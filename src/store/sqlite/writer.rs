//! The one thread that writes. Whatever is queued goes into one transaction; while the disk flushes it, the next batch fills.
//!
//! Invariants
//! - Nobody hears of anything before its commit returned.
//! - One operation that fails does not fail its neighbours: they are run again without it.

use std::{
    cell::Cell,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    checkpoint::Checkpoints,
    fault, ops,
    queue::{Bound, Job, Queue},
};
use crate::store::{Clock, Error, Listener, clock::Ready};

/// How often it complains: while a disk is full, every transaction fails.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The writer, before it runs.
pub(super) struct Writer {
    pub(super) db: Connection,
    pub(super) queue: Arc<Queue>,
    pub(super) batch: Bound,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ready: Ready,
    pub(super) listener: Arc<OnceLock<Arc<dyn Listener>>>,
    pub(super) checkpoints: Arc<Checkpoints>,
    /// When it last complained.
    pub(super) warned: Cell<Option<Instant>>,
}

impl Writer {
    /// Writes until the queue is closed and empty.
    pub(super) fn run(&self) {
        // If this thread ends, nobody may wait for it for ever.
        let _abandon = Abandon(self);
        let _guard = fault::EndAfterPanic("writer");
        let mut batch = Vec::new();
        while self.queue.take(&mut batch, self.batch) {
            batch.sort_by_key(Job::order);
            let jobs = batch.len();
            self.write(&mut batch);
            self.checkpoints.written(jobs, &self.db);
        }
    }

    /// Writes a batch and answers it.
    fn write(&self, batch: &mut Vec<Job>) {
        match self.attempt(batch) {
            Ok(()) => {
                for job in batch.drain(..) {
                    self.answer(job, Ok(()));
                }
            }
            Err(e) if batch.len() > 1 && fault::is_of_one_operation(&e) => {
                for mut job in batch.drain(..) {
                    let outcome = self.attempt(std::slice::from_mut(&mut job));
                    self.answer(job, outcome.map_err(|e| fault::describe(&e)));
                }
            }
            Err(e) => {
                let error = fault::describe(&e);
                for job in batch.drain(..) {
                    self.answer(job, Err(error.clone()));
                }
            }
        }
    }

    /// Runs jobs in one transaction. On an error nothing of it is written.
    fn attempt(&self, jobs: &mut [Job]) -> rusqlite::Result<()> {
        let written = self.transact(jobs);
        if let Err(e) = &written {
            fault::end_if_fatal("write", e);
            self.report(e);
            // Some errors have rolled it back already.
            if !self.db.is_autocommit()
                && let Err(e) = self.db.execute_batch("ROLLBACK")
            {
                fault::end_if_fatal("roll back", &e);
                tracing::error!(error = %e, "could not roll a transaction back");
            }
        }
        written
    }

    fn transact(&self, jobs: &mut [Job]) -> rusqlite::Result<()> {
        // IMMEDIATE: the lock is taken, and waited for, before anything is read, so a transaction never fails halfway for it.
        let begun = Instant::now();
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let tx = ops::Transaction {
            db: &self.db,
            clock: &*self.clock,
            ready: self.ready,
        };
        for job in &mut *jobs {
            job.run(&tx)?;
        }
        self.db.prepare_cached("COMMIT")?.execute([])?;
        // How well group commit works. Off by default; the bench listens to it.
        tracing::trace!(
            operations = jobs.len(),
            micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            "committed"
        );
        Ok(())
    }

    fn report(&self, error: &rusqlite::Error) {
        let lately = self
            .warned
            .get()
            .is_some_and(|at| at.elapsed() < WARN_EVERY);
        if lately {
            return;
        }
        self.warned.set(Some(Instant::now()));
        match fault::describe(error) {
            Error::Corrupt(_) => tracing::error!(%error, "the database is not as it was written"),
            _ => tracing::warn!(%error, "a transaction was rolled back"),
        }
    }

    fn answer(&self, job: Job, outcome: Result<(), Error>) {
        job.finish(outcome, self.listener.get().map(|l| &**l));
    }
}

struct Abandon<'a>(&'a Writer);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.queue.abandon();
        self.0.checkpoints.stop();
    }
}
