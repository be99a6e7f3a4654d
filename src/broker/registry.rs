//! Who gets woken: one slot for each wait that a stream of this process is attached to.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::domain::{Decided, Outcome, Progress, Record, WaitId};

/// Enough that two threads seldom want the same lock, few enough to cost nothing when idle.
const SHARDS: usize = 64;

/// The slots. All locks are held for a few instructions and never across an `await`.
///
/// Lock order: shard, then slot.
pub(super) struct Registry {
    // A plain mutex per shard: the work inside is shorter than any cleverer lock's overhead.
    shards: [Mutex<HashMap<WaitId, Arc<Slot>>>; SHARDS],
}

/// What is known of one wait here, and who listens. It only moves forward: pending, more and more decided, then one outcome.
#[derive(Default)]
struct Slot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    outcome: Option<Arc<Outcome>>,
    part: Option<Arc<Part>>,
    listeners: Vec<(u64, Option<Waker>)>,
    next_number: u64,
}

/// What is decided of a wait's tool calls while it is open.
#[derive(Debug)]
pub struct Part {
    /// The decisions.
    pub decided: Arc<Decided>,
    /// How far they are.
    pub progress: Progress,
}

impl Part {
    fn of(record: &Record) -> Option<Self> {
        Some(Self {
            decided: record.decided.clone()?,
            progress: record.progress()?,
        })
    }
}

/// What there is to tell of a wait.
#[derive(Debug)]
pub enum News {
    /// More of its tool calls are decided.
    Part(Arc<Part>),
    /// It is settled.
    Outcome(Arc<Outcome>),
}

impl Registry {
    pub(super) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// Takes a place in the slot of `id`. From now on no outcome can be missed; what was published before may not be seen, so
    /// read the row after this.
    pub(super) fn subscribe(self: &Arc<Self>, id: WaitId) -> Subscription {
        let mut shard = lock(self.shard(id));
        let slot = shard.entry(id).or_default().clone();
        let mut state = lock(&slot.0);
        let number = state.next_number;
        state.next_number += 1;
        // Nearly every slot has one listener; do not let the vector's first growth take room for four.
        state.listeners.reserve_exact(1);
        state.listeners.push((number, None));
        drop(state);
        drop(shard);
        Subscription {
            registry: self.clone(),
            id,
            slot,
            number,
        }
    }

    /// Puts an outcome into the slot of `id`, if anybody is there, and wakes them.
    pub(super) fn publish(&self, id: WaitId, outcome: &Outcome) {
        let Some(slot) = lock(self.shard(id)).get(&id).cloned() else {
            return;
        };
        let mut state = lock(&slot.0);
        state.end(outcome);
        // Also where it was known: a repeat wakes whoever still waits.
        state.wake_all();
    }

    /// Puts what is decided into the slot of a wait, if anybody is there, and wakes them if it is more than was known.
    pub(super) fn publish_part(&self, record: &Record) {
        let Some(slot) = lock(self.shard(record.id)).get(&record.id).cloned() else {
            return;
        };
        if let Some(part) = Part::of(record) {
            lock(&slot.0).advance(part);
        }
    }

    /// Wakes every stream, so that it looks around: the broker drains.
    pub(super) fn wake_everybody(&self) {
        for shard in &self.shards {
            let slots: Vec<_> = lock(shard).values().cloned().collect();
            for slot in slots {
                lock(&slot.0).wake_all();
            }
        }
    }

    /// How many waits have somebody attached here.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn shard(&self, id: WaitId) -> &Mutex<HashMap<WaitId, Arc<Slot>>> {
        // The last byte of an id is random.
        &self.shards[usize::from(id.as_bytes()[15]) % SHARDS]
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("len", &self.len())
            .finish()
    }
}

impl SlotState {
    /// Takes the outcome, if there is none, and lets go of what it makes old.
    fn end(&mut self, outcome: &Outcome) -> bool {
        let first = self.outcome.is_none();
        if first {
            self.outcome = Some(Arc::new(outcome.clone()));
            self.part = None;
        }
        first
    }

    /// Takes what is decided, if it is more than was known.
    fn advance(&mut self, part: Part) {
        if self.outcome.is_some() {
            return;
        }
        let known = (self.part.as_ref()).map_or(0, |part| part.progress.decided);
        if part.progress.decided > known {
            self.part = Some(Arc::new(part));
            self.wake_all();
        }
    }

    fn wake_all(&mut self) {
        for (_, waker) in &mut self.listeners {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }
}

/// A place in a wait's slot. Dropping it gives the place up; the last one to leave takes the slot away.
pub(super) struct Subscription {
    registry: Arc<Registry>,
    id: WaitId,
    slot: Arc<Slot>,
    number: u64,
}

impl Subscription {
    pub(super) fn id(&self) -> WaitId {
        self.id
    }

    /// What is news to somebody who was told of `told` decisions, as soon as it is published. A wake without any means: look around.
    pub(super) fn poll_news(&self, cx: &mut Context<'_>, told: usize) -> Poll<News> {
        let mut state = lock(&self.slot.0);
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(News::Outcome(outcome.clone()));
        }
        if let Some(part) = &state.part
            && part.progress.decided > told
        {
            return Poll::Ready(News::Part(part.clone()));
        }
        for (number, waker) in &mut state.listeners {
            if *number == self.number {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
            }
        }
        Poll::Pending
    }

    /// Tells the slot what was read from the row after the place was taken.
    pub(super) fn seed(&self, record: &Record) {
        let mut state = lock(&self.slot.0);
        match &record.outcome {
            Some(outcome) => {
                if state.end(outcome) {
                    state.wake_all();
                }
            }
            None => {
                if let Some(part) = Part::of(record) {
                    state.advance(part);
                }
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut shard = lock(self.registry.shard(self.id));
        let mut state = lock(&self.slot.0);
        state.listeners.retain(|(number, _)| *number != self.number);
        let empty = state.listeners.is_empty();
        drop(state);
        // Under the shard's lock nobody can have joined since.
        if empty
            && let Entry::Occupied(entry) = shard.entry(self.id)
            && Arc::ptr_eq(entry.get(), &self.slot)
        {
            entry.remove();
        }
    }
}

/// Nothing here panics with a lock held, and a slot is valid after every step; so a poisoned lock is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::Arc};

    use super::*;
    use crate::domain::{Ending, Timestamp, limits::Reason};

    fn id(n: u8) -> WaitId {
        WaitId::new(Timestamp::from_micros(1), [n; 10])
    }

    fn outcome(text: &str) -> Outcome {
        Outcome {
            settle_time: Timestamp::from_micros(1),
            ending: Ending::Cancelled {
                reason: Reason::new(text).expect("short"),
            },
            request_id: None,
            decided: None,
        }
    }

    async fn heard(place: &Subscription) -> Arc<Outcome> {
        match poll_fn(|cx| place.poll_news(cx, usize::MAX)).await {
            News::Outcome(outcome) => outcome,
            News::Part(_) => panic!("nothing was decided in part"),
        }
    }

    #[tokio::test]
    async fn everybody_attached_is_woken_and_the_first_outcome_stays() {
        let registry = Arc::new(Registry::new());
        let (a, b) = (registry.subscribe(id(1)), registry.subscribe(id(1)));
        let publisher = registry.clone();
        let both = tokio::spawn(async move {
            let first = heard(&a).await;
            (first, heard(&b).await)
        });
        tokio::task::yield_now().await;
        publisher.publish(id(1), &outcome("one"));
        publisher.publish(id(1), &outcome("two"));
        let (a, b) = both.await.expect("no panic");
        assert_eq!((&*a, &*b), (&outcome("one"), &outcome("one")));
    }

    #[test]
    fn nothing_is_left_when_the_last_one_leaves() {
        let registry = Arc::new(Registry::new());
        let (a, b) = (registry.subscribe(id(1)), registry.subscribe(id(1)));
        assert_eq!(registry.len(), 1);
        drop(a);
        assert_eq!(registry.len(), 1);
        drop(b);
        assert_eq!(registry.len(), 0);
        registry.publish(id(1), &outcome("nobody is there"));
        assert_eq!(registry.len(), 0);
    }
}
