//! Who gets woken: one slot for each wait that a stream of this process is attached to.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::domain::{Outcome, WaitId};

/// Enough that two threads seldom want the same lock, few enough to cost nothing when idle.
const SHARDS: usize = 64;

/// The slots. All locks are held for a few instructions and never across an `await`.
///
/// Lock order: shard, then slot.
pub(super) struct Registry {
    // A plain mutex per shard: the work inside is shorter than any cleverer lock's overhead.
    shards: [Mutex<HashMap<WaitId, Arc<Slot>>>; SHARDS],
}

/// What is known of one wait here, and who listens. It only moves forward: pending, then one outcome.
#[derive(Default)]
struct Slot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    outcome: Option<Arc<Outcome>>,
    listeners: Vec<(u64, Option<Waker>)>,
    next_number: u64,
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
        if state.outcome.is_none() {
            state.outcome = Some(Arc::new(outcome.clone()));
        }
        state.wake_all();
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

    /// The outcome, as soon as it is published. A wake without an outcome means: look around.
    pub(super) fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<Arc<Outcome>> {
        let mut state = lock(&self.slot.0);
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
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
    pub(super) fn seed(&self, outcome: &Outcome) {
        let mut state = lock(&self.slot.0);
        if state.outcome.is_none() {
            state.outcome = Some(Arc::new(outcome.clone()));
            state.wake_all();
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
        }
    }

    #[tokio::test]
    async fn everybody_attached_is_woken_and_the_first_outcome_stays() {
        let registry = Arc::new(Registry::new());
        let (a, b) = (registry.subscribe(id(1)), registry.subscribe(id(1)));
        let publisher = registry.clone();
        let both = tokio::spawn(async move {
            let first = poll_fn(|cx| a.poll_outcome(cx)).await;
            (first, poll_fn(|cx| b.poll_outcome(cx)).await)
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
