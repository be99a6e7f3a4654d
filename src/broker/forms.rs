//! Schemas of forms: compiled once, and held against answers where they keep nobody waiting.
//!
//! A check cannot be interrupted, so its cost is known beforehand. A small one is made where it is asked for; any other on a thread
//! of its own, of which there are few. Who finds them and the places behind them taken is told to come back.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Semaphore;

use super::Error;
use crate::domain::{
    Faults, JsonText, Question, Record, Refusal, Submission, Violation,
    schema::{Fault, INLINE_COST, Schema},
    transition::Body,
};

/// Schema text that is compiled where it is asked for.
const INLINE_SCHEMA: usize = 4 << 10;

/// How many checks wait for a thread, for each thread.
const QUEUE: usize = 16;

/// The most schema text whose compiled form is kept. A compiled schema is some ten times as large as its text.
const KEPT_TEXT: usize = 1 << 20;

/// Compiled schemas, and the threads that use them.
#[derive(Debug)]
pub(super) struct Forms {
    /// A plain mutex: it is held to look something up.
    kept: Mutex<Kept>,
    threads: Arc<Semaphore>,
    /// Checks that run or wait.
    begun: Arc<AtomicUsize>,
    most: usize,
}

#[derive(Debug, Default)]
struct Kept {
    schemas: HashMap<JsonText, (Schema, u64)>,
    bytes: usize,
    /// Counts uses, so that the schema that was not used for longest goes first.
    uses: u64,
}

impl Forms {
    pub(super) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
        Self {
            kept: Mutex::default(),
            threads: Arc::new(Semaphore::new(threads)),
            begun: Arc::default(),
            most: threads * (1 + QUEUE),
        }
    }

    /// Compiles a schema that came in `field`, unless it is kept.
    ///
    /// # Errors
    /// Every fault of it; [`Error::Overloaded`].
    pub(super) async fn compile(&self, field: &str, text: &JsonText) -> Result<Schema, Error> {
        if let Some(schema) = self.lookup(text) {
            return Ok(schema);
        }
        let compiled = if text.as_str().len() <= INLINE_SCHEMA {
            Schema::compile(text)
        } else {
            let text = text.clone();
            self.on_a_thread(move || Schema::compile(&text)).await?
        };
        let schema = compiled.map_err(|faults| {
            let at =
                |fault: Fault| Violation::new(format!("{field}{}", fault.path), fault.description);
            Refusal::InvalidFields(faults.into_iter().map(at).collect())
        })?;
        self.keep(text, &schema);
        Ok(schema)
    }

    /// Holds an answer against the form that `record` asks.
    ///
    /// # Errors
    /// [`Refusal::InvalidAnswer`] with every fault; [`Error::Overloaded`].
    pub(super) async fn check(
        &self,
        record: &Record,
        submission: &Submission,
    ) -> Result<(), Error> {
        let (Some(Question::Form(form)), Body::Json(answer)) = (&record.question, &submission.body)
        else {
            // The rules ask for no other checks.
            return Ok(());
        };
        let Some(text) = &form.schema else {
            return Ok(());
        };
        let compiled = self.compile("", text).await;
        let schema = compiled.map_err(|error| stale(record, error))?;
        let checked = if schema.cost(answer.as_str().len()) <= INLINE_COST {
            schema.check(answer)
        } else {
            let answer = answer.clone();
            self.on_a_thread(move || schema.check(&answer)).await?
        };
        checked.map_err(|found| {
            let mut faults = Faults::default();
            for Fault { path, description } in found {
                faults.push(|| place(&path), description);
            }
            let wait_id = record.id;
            Refusal::InvalidAnswer { wait_id, faults }.into()
        })
    }

    /// Runs work on one of the threads, in turn.
    async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = Place::take(&self.begun, self.most).ok_or(Error::Overloaded)?;
        // The semaphore is never closed.
        let permit = (self.threads.clone().acquire_owned().await)
            .map_err(|e| Error::Internal(e.to_string()))?;
        let running = tokio::task::spawn_blocking(move || {
            // Given up by the thread and not by the caller, who may leave before.
            let _held = (place, permit);
            work()
        });
        running.await.map_err(|error| {
            tracing::error!(%error, "a check of a schema did not end");
            Error::Internal("a check did not end; see the broker's log".to_owned())
        })
    }

    fn lookup(&self, text: &JsonText) -> Option<Schema> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let uses = kept.uses;
        let (schema, used) = kept.schemas.get_mut(text)?;
        *used = uses;
        Some(schema.clone())
    }

    fn keep(&self, text: &JsonText, schema: &Schema) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = kept.uses;
        if kept
            .schemas
            .insert(text.clone(), (schema.clone(), uses))
            .is_none()
        {
            kept.bytes += text.as_str().len();
        }
        while kept.bytes > KEPT_TEXT {
            let oldest = kept.schemas.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(text, _)| text.clone()) else {
                return;
            };
            kept.schemas.remove(&oldest);
            kept.bytes -= oldest.as_str().len();
        }
    }
}

/// A schema that was taken when its wait was opened is no fault of whoever answers.
fn stale(record: &Record, error: Error) -> Error {
    let Error::Refused(refusal) = error else {
        return error;
    };
    tracing::error!(wait_id = %record.id, %refusal, "the schema of an open wait is refused now: by another version?");
    Error::Internal("the schema of this wait cannot be used; see the broker's log".to_owned())
}

/// A place among the checks that run or wait.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(begun: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        // The count is given back with the place, also where there was no room.
        let before = begun.fetch_add(1, Ordering::AcqRel);
        let place = Self(begun.clone());
        (before < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How a place in an answer is told: the answer as a whole by the name of its field.
fn place(path: &str) -> String {
    match path.strip_prefix('.').unwrap_or(path) {
        "" => "payload_json".to_owned(),
        path => path.to_owned(),
    }
}
