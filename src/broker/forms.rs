//! Schemas of forms: compiled once, and held against answers where they keep nobody waiting.
//!
//! Neither compiling nor a check can be interrupted, so what they cost is known beforehand. What is quick is done where it is asked
//! for; all else on threads of its own, of which there are few. Who finds them and the places behind them taken is told to come
//! back.
//!
//! Invariants
//! - What is kept, with the memory that all threads need to use it, takes at most so many bytes as were allowed.
//! - What runs or waits is bounded in number and in bytes, and gives its place back when it has run, not when its caller leaves.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Semaphore;

use super::{Error, recent::Recent};
use crate::domain::{
    Faults, JsonText, Question, Record, Refusal, Submission, Violation, Wait, WaitId,
    schema::{Fault, INLINE_COST, Schema},
    transition::Body,
};

/// What may be taken. The default is what the broker takes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Threads for what is not quick.
    threads: usize,
    /// Checks that run or wait. Small ones come by the hundred where many people answer at once, and are soon done.
    places: usize,
    /// The bytes of the texts that they hold. One alone may be larger.
    bytes: usize,
    /// The memory of compiled schemas that are kept.
    kept: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
        Self {
            threads,
            places: threads + 1_024,
            bytes: 32 << 20,
            kept: 64 << 20,
        }
    }
}

/// Compiled schemas, and the threads that use them.
#[derive(Debug)]
pub(super) struct Forms {
    /// A plain mutex: it is held to look something up.
    kept: Mutex<Kept>,
    threads: Arc<Semaphore>,
    /// A plain mutex: it is held to count.
    begun: Arc<Mutex<Begun>>,
    limits: Limits,
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Kept {
    schemas: HashMap<JsonText, (Schema, u64)>,
    /// What all of them take.
    bytes: usize,
    /// Counts uses, so that the schema that was not used for longest goes first.
    uses: u64,
}

/// What runs or waits.
#[derive(Debug, Default)]
struct Begun {
    places: usize,
    bytes: usize,
}

impl Forms {
    pub(super) fn new() -> Self {
        Self::within(Limits::default())
    }

    fn within(limits: Limits) -> Self {
        Self {
            kept: Mutex::default(),
            threads: Arc::new(Semaphore::new(limits.threads)),
            begun: Arc::default(),
            limits,
            recent: Mutex::default(),
        }
    }

    /// Remembers for a while what a wait that was just opened asks.
    pub(super) fn remember(&self, wait: &Wait) {
        if let Some(Question::Form(form)) = &wait.record.question
            && let Some(schema) = &form.schema
        {
            lock(&self.recent).add(wait.record.id, schema);
        }
    }

    /// Whether an answer fits the form of a wait that was opened here lately. `false` says nothing: that is for [`Forms::check`] to
    /// tell, once the rules have seen the wait. Only what is quick is looked at, since it may be looked at again then.
    pub(super) fn surely_fits(&self, id: WaitId, submission: &Submission) -> bool {
        let Body::Json(answer) = &submission.body else {
            return false;
        };
        let schema = lock(&self.recent).schema(id);
        let compiled = schema.and_then(|text| self.lookup(&text));
        compiled.is_some_and(|schema| {
            schema.cost(answer.as_str().len()) <= INLINE_COST && schema.check(answer).is_ok()
        })
    }

    /// Compiles a schema that came in `field`, unless it is kept.
    ///
    /// # Errors
    /// Every fault of it; [`Error::Overloaded`].
    pub(super) async fn compile(&self, field: &str, text: &JsonText) -> Result<Schema, Error> {
        if let Some(schema) = self.lookup(text) {
            return Ok(schema);
        }
        let compiled = if Schema::is_quick(text) {
            Schema::compile(text)
        } else {
            let (bytes, text) = (text.as_str().len(), text.clone());
            self.on_a_thread(bytes, move || Schema::compile(&text))
                .await?
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
        let schema = compiled.map_err(|error| stale(record.id, error))?;
        let checked = if schema.cost(answer.as_str().len()) <= INLINE_COST {
            schema.check(answer)
        } else {
            let (bytes, answer) = (answer.as_str().len(), answer.clone());
            self.on_a_thread(bytes, move || schema.check(&answer))
                .await?
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

    /// Runs work that holds so many bytes on one of the threads, in turn.
    async fn on_a_thread<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = Place::take(&self.begun, bytes, &self.limits).ok_or(Error::Overloaded)?;
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
        let mut kept = lock(&self.kept);
        kept.uses += 1;
        let uses = kept.uses;
        let (schema, used) = kept.schemas.get_mut(text)?;
        *used = uses;
        Some(schema.clone())
    }

    /// What a schema takes where it is kept: each of the threads may use it, and so may as many that check in line.
    fn size(&self, text: &JsonText, schema: &Schema) -> usize {
        (schema.bytes(2 * self.limits.threads)).saturating_add(text.as_str().len())
    }

    /// Keeps a schema, in the place of those that were not used for longest.
    fn keep(&self, text: &JsonText, schema: &Schema) {
        let size = self.size(text, schema);
        if size > self.limits.kept {
            // It would drive out all others. Each of its checks compiles it again.
            return;
        }
        let mut kept = lock(&self.kept);
        let used = kept.uses;
        let before = kept.schemas.insert(text.clone(), (schema.clone(), used));
        if before.is_none() {
            kept.bytes += size;
        }
        while kept.bytes > self.limits.kept {
            let oldest = kept.schemas.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(text, _)| text.clone()) else {
                return;
            };
            if let Some((schema, _)) = kept.schemas.remove(&oldest) {
                kept.bytes -= self.size(&oldest, &schema);
            }
        }
    }
}

/// What is counted is whole between any two statements, so a panic elsewhere leaves it so.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A schema that was taken when its wait was opened is no fault of whoever answers.
fn stale(wait_id: WaitId, error: Error) -> Error {
    let Error::Refused(refusal) = error else {
        return error;
    };
    tracing::error!(%wait_id, %refusal, "the schema of an open wait is refused now: by another version?");
    Error::Internal("the schema of this wait cannot be used; see the broker's log".to_owned())
}

/// A place among what runs or waits.
struct Place {
    begun: Arc<Mutex<Begun>>,
    bytes: usize,
}

impl Place {
    fn take(begun: &Arc<Mutex<Begun>>, bytes: usize, limits: &Limits) -> Option<Self> {
        let mut count = lock(begun);
        let full =
            count.places >= limits.places || bytes > limits.bytes - count.bytes.min(limits.bytes);
        if full && count.places > 0 {
            return None;
        }
        count.places += 1;
        count.bytes += bytes;
        let begun = begun.clone();
        Some(Self { begun, bytes })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut count = lock(&self.begun);
        count.places -= 1;
        count.bytes -= self.bytes;
    }
}

/// How a place in an answer is told: the answer as a whole by the name of its field.
fn place(path: &str) -> String {
    match path.strip_prefix('.').unwrap_or(path) {
        "" => "payload_json".to_owned(),
        path => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LIMITS: Limits = Limits {
        threads: 2,
        places: 5,
        bytes: 1_000,
        kept: 64 << 20,
    };

    fn json(text: &str) -> JsonText {
        JsonText::new(text).expect(text)
    }

    /// Work that begins to run and then waits for its gate.
    struct Gate {
        open: mpsc::Sender<()>,
        work: Option<Box<dyn FnOnce() + Send>>,
    }

    fn gate() -> Gate {
        let (open, wait) = mpsc::channel::<()>();
        let work = Some(Box::new(move || wait.recv().expect("a gate that opens")) as _);
        Gate { open, work }
    }

    /// Fills all with work of so many bytes each, sees that there is no room for `more`, and lets everything drain.
    async fn overflows(bytes: &[usize], more: usize) {
        let forms = Arc::new(Forms::within(LIMITS));
        let mut gates = Vec::new();
        let mut running = Vec::new();
        for (at, &bytes) in bytes.iter().enumerate() {
            let mut gate = gate();
            let (forms_of, work) = (forms.clone(), gate.work.take().expect("work"));
            running.push(tokio::spawn(async move {
                forms_of.on_a_thread(bytes, work).await
            }));
            gates.push(gate.open);
            while lock(&forms.begun).places <= at {
                tokio::task::yield_now().await;
            }
        }
        let full = forms.on_a_thread(more, || ()).await;
        assert!(matches!(full, Err(Error::Overloaded)), "{full:?}");
        assert_eq!(lock(&forms.begun).places, bytes.len(), "nothing was taken");
        // One that ends makes room, and one whose caller leaves while it waits does too.
        let last = running.pop().expect("the last");
        last.abort();
        last.await.expect_err("it was aborted");
        assert_eq!(lock(&forms.begun).places, bytes.len() - 1);
        for gate in gates {
            // The one that was aborted hears nothing.
            let _ = gate.send(());
        }
        forms.on_a_thread(more, || ()).await.expect("there is room");
        for one in running {
            one.await.expect("no panic").expect("it ran");
        }
        let begun = lock(&forms.begun);
        assert_eq!((begun.places, begun.bytes), (0, 0));
    }

    #[tokio::test]
    async fn what_waits_is_bounded_in_number() {
        overflows(&[10; 5], 10).await;
    }

    #[tokio::test]
    async fn what_waits_is_bounded_in_bytes() {
        overflows(&[400, 400, 150], 100).await;
        overflows(&[10, 900, 90], 1).await;
    }

    #[tokio::test]
    async fn one_alone_may_be_larger() {
        let forms = Forms::within(LIMITS);
        forms.on_a_thread(5_000, || ()).await.expect("alone");
    }

    #[test]
    fn hundreds_of_small_answers_wait_and_large_ones_until_their_bytes_are_many() {
        let limits = Limits::default();
        let begun = Arc::default();
        let place = |bytes| Place::take(&begun, bytes, &limits);
        let small: Vec<_> = (0..1_024).map(|_| place(2_000).expect("room")).collect();
        drop(small);
        let large: Vec<_> = (0..8).map(|_| place(4 << 20).expect("room")).collect();
        assert!(place(1).is_none());
        drop(large);
        assert_eq!(lock(&begun).bytes, 0);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_by_what_it_takes() {
        let limits = Limits {
            kept: 8 << 20,
            ..LIMITS
        };
        let forms = Forms::within(limits);
        let schema = |at: usize| json(&format!(r#"{{"pattern":"([a-z]|é){{300}}%d{at}"}}"#));
        let first = schema(0);
        let size = {
            let compiled = forms.compile("f", &first).await.expect("a schema");
            forms.size(&first, &compiled)
        };
        assert!(size > 10_000 * first.as_str().len(), "{size}");
        for at in 1..50 {
            // The first is used all the time, so it stays.
            forms.compile("f", &first).await.expect("a schema");
            forms.compile("f", &schema(at)).await.expect("a schema");
            let kept = lock(&forms.kept);
            let sum = kept
                .schemas
                .iter()
                .map(|(text, (schema, _))| forms.size(text, schema));
            assert_eq!(kept.bytes, sum.sum::<usize>());
            assert!(kept.bytes <= limits.kept);
        }
        let kept = lock(&forms.kept);
        assert!(kept.schemas.contains_key(&first));
        assert!(kept.schemas.contains_key(&schema(49)));
        assert!(!kept.schemas.contains_key(&schema(1)));
        assert!(
            (2..50).contains(&kept.schemas.len()),
            "{}",
            kept.schemas.len()
        );
    }

    #[tokio::test]
    async fn what_is_larger_than_all_that_may_be_kept_drives_nothing_out() {
        let limits = Limits {
            kept: 100 << 10,
            ..LIMITS
        };
        let forms = Forms::within(limits);
        let (small, large) = (json("true"), json(r#"{"pattern":"[ab]{900}c"}"#));
        for text in [&small, &large, &small, &large] {
            forms.compile("f", text).await.expect("a schema");
        }
        let kept = lock(&forms.kept);
        assert_eq!(kept.schemas.keys().collect::<Vec<_>>(), [&small]);
    }
}
