//! What waits for the writer: a bounded queue of jobs, and how a job is answered.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::ops::{Purge, Transaction};
use crate::{
    domain::{Command, NewWait, Question, Record, WaitId},
    store::{Applied, Error, Listener, Opened, Purged},
};

/// What each job is taken to weigh beside its payload.
const JOB_BYTES: usize = 512;

/// What came of a command, and whether that wrote anything.
pub(super) type Written = (Applied, bool);

/// Something that the writer does in a transaction.
pub(super) enum Job {
    /// Opens a wait.
    Open(Box<Task<NewWait, Opened>>),
    /// Decides a command.
    Apply(Box<Task<(WaitId, Command), Option<Written>>>),
    /// Deletes old rows.
    Purge(Box<Task<Purge, Purged>>),
}

/// What is asked, what came of it, and who is told.
pub(super) struct Task<I, O> {
    input: I,
    output: Option<O>,
    reply: oneshot::Sender<Result<O, Error>>,
}

/// Where the answer to a job arrives.
pub(super) type Reply<O> = oneshot::Receiver<Result<O, Error>>;

impl<I, O> Task<I, O> {
    /// A task, and where its answer arrives.
    pub(super) fn new(input: I) -> (Box<Self>, Reply<O>) {
        let (reply, answer) = oneshot::channel();
        let task = Self {
            input,
            output: None,
            reply,
        };
        (Box::new(task), answer)
    }

    /// Tells whoever asked, if anybody still listens.
    fn answer(self, outcome: Result<(), Error>) {
        let answer = outcome.and_then(|()| {
            // A job whose transaction was committed has been run.
            self.output
                .ok_or_else(|| Error::Unavailable("it was not run".to_owned()))
        });
        let _ = self.reply.send(answer);
    }
}

impl Job {
    /// Runs the job inside an open transaction. May be called again after that was rolled back.
    pub(super) fn run(&mut self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        match self {
            Self::Open(task) => task.output = Some(tx.open(&task.input)?),
            Self::Apply(task) => task.output = Some(tx.apply(task.input.0, &task.input.1)?),
            Self::Purge(task) => task.output = Some(tx.purge(&task.input)?),
        }
        Ok(())
    }

    /// Tells the listener of a commit, then whoever asked.
    pub(super) fn finish(self, outcome: Result<(), Error>, listener: Option<&dyn Listener>) {
        if let (Ok(()), Some(listener), Some(record)) = (&outcome, listener, self.changed()) {
            listener.committed(record);
        }
        match self {
            Self::Open(task) => task.answer(outcome),
            Self::Apply(task) => task.answer(outcome),
            Self::Purge(task) => task.answer(outcome),
        }
    }

    /// The record that the job wrote, if it wrote one.
    fn changed(&self) -> Option<&Record> {
        match self {
            Self::Open(task) => match task.output.as_ref()? {
                Opened::Created(wait) => Some(&wait.record),
                Opened::Resumed(_) | Opened::Refused(_) => None,
            },
            Self::Apply(task) => match task.output.as_ref()? {
                Some((applied, true)) => Some(&applied.record),
                _ => None,
            },
            Self::Purge(_) => None,
        }
    }

    /// The wait it is about. A batch is run in this order, so that neighbours in the tables are written together; the sort is
    /// stable, so that the jobs of one wait stay in theirs.
    pub(super) fn order(&self) -> Option<WaitId> {
        match self {
            Self::Open(task) => Some(task.input.id),
            Self::Apply(task) => Some(task.input.0),
            Self::Purge(_) => None,
        }
    }

    /// About how much memory it holds.
    fn bytes(&self) -> usize {
        let payload = match self {
            Self::Open(task) => task.input.question.as_ref().map_or(0, Question::bytes),
            Self::Apply(task) => match &task.input.1 {
                Command::Resolve(submission) => submission.bytes(),
                Command::Fail { failure, .. } => {
                    let details = failure.details.as_ref();
                    failure.reason.as_str().len() + details.map_or(0, |d| d.as_str().len())
                }
                Command::SetQuestion(question) => question.bytes(),
                Command::Cancel { reason } => reason.as_str().len(),
                Command::Expire | Command::MarkAsked | Command::Heartbeat => 0,
            },
            Self::Purge(_) => 0,
        };
        JOB_BYTES + payload
    }
}

/// A bound on jobs by number and by weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) jobs: usize,
    pub(super) bytes: usize,
}

/// The queue. Many push, the writer takes.
pub(super) struct Queue {
    /// Held for a push or a take, never for I/O.
    state: Mutex<State>,
    filled: Condvar,
    bound: Bound,
}

#[derive(Default)]
struct State {
    /// With their weights.
    jobs: VecDeque<(usize, Job)>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    pub(super) fn new(bound: Bound) -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            bound,
        }
    }

    /// Puts a job in. A job that is heavier than the whole bound is taken by an empty queue.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if it does not fit, [`Error::Unavailable`] once the queue is closed.
    pub(super) fn push(&self, job: Job) -> Result<(), Error> {
        let weight = job.bytes();
        let mut state = self.state();
        if state.closed {
            return Err(closed());
        }
        let full = state.jobs.len() >= self.bound.jobs || state.bytes + weight > self.bound.bytes;
        if full && !state.jobs.is_empty() {
            return Err(Error::Overloaded);
        }
        state.bytes += weight;
        state.jobs.push_back((weight, job));
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for jobs and moves as many as fit into `batch`, at least one. `false` once the queue is closed and empty.
    pub(super) fn take(&self, batch: &mut Vec<Job>, bound: Bound) -> bool {
        let mut state = self.state();
        while state.jobs.is_empty() {
            if state.closed {
                return false;
            }
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let mut bytes = 0;
        while let Some((weight, _)) = state.jobs.front() {
            bytes += weight;
            if !batch.is_empty() && (batch.len() >= bound.jobs || bytes > bound.bytes) {
                break;
            }
            if let Some((weight, job)) = state.jobs.pop_front() {
                state.bytes -= weight;
                batch.push(job);
            }
        }
        true
    }

    /// Takes no more. What is in it is still done.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_all();
    }

    /// Drops what is in it: whoever waits for an answer is told that the store is gone. For a writer that died.
    pub(super) fn abandon(&self) {
        self.close();
        let jobs = std::mem::take(&mut self.state().jobs);
        drop(jobs);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a caller is told after the close.
pub(super) fn closed() -> Error {
    Error::Unavailable("it is closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn job() -> Job {
        let id = WaitId::new(Timestamp::from_micros(1), [0; 10]);
        Job::Apply(Task::new((id, Command::Expire)).0)
    }

    #[test]
    fn it_is_bounded_by_number_and_by_weight() {
        for bound in [
            Bound {
                jobs: 2,
                bytes: usize::MAX,
            },
            Bound {
                jobs: 100,
                bytes: 2 * JOB_BYTES,
            },
        ] {
            let queue = Queue::new(bound);
            queue.push(job()).expect("first");
            queue.push(job()).expect("second");
            assert_eq!(queue.push(job()), Err(Error::Overloaded));
            let mut batch = Vec::new();
            assert!(queue.take(
                &mut batch,
                Bound {
                    jobs: 1,
                    bytes: usize::MAX
                }
            ));
            assert_eq!(batch.len(), 1);
            queue.push(job()).expect("there is room again");
        }
    }

    #[test]
    fn a_job_beyond_the_bounds_is_done_alone() {
        let tight = Bound { jobs: 1, bytes: 1 };
        let queue = Queue::new(tight);
        queue.push(job()).expect("an empty queue takes anything");
        let mut batch = Vec::new();
        assert!(queue.take(&mut batch, tight));
        assert_eq!(batch.len(), 1);
    }

    #[test]
    fn after_the_close_it_gives_what_it_has_and_takes_nothing() {
        let wide = Bound {
            jobs: 9,
            bytes: usize::MAX,
        };
        let queue = Queue::new(wide);
        queue.push(job()).expect("open");
        queue.close();
        assert_eq!(queue.push(job()), Err(closed()));
        let mut batch = Vec::new();
        assert!(queue.take(&mut batch, wide));
        assert_eq!(batch.len(), 1);
        assert!(!queue.take(&mut batch, wide));
    }
}
