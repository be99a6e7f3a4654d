//! The reference store: waits in maps behind one lock. Keeps nothing over the end of the process; for tests, and the plainest
//! reading of the [`Store`] contract.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;

use super::{
    Applied, Clock, Due, Error, Found, LIST_BYTES, LIST_SCAN_ROWS, Listener, Opened, Page, Purged,
    Query, Store, clock::Ready, settled,
};
use crate::domain::{
    self, Command, Effect, Moment, NewWait, Refusal, Summary, Timestamp, Wait, WaitId,
    limits::{Key, Namespace, RequestId},
    transition,
};

/// A store in memory. No method waits for anything but a short lock, so it runs under a paused clock.
pub struct MemoryStore {
    /// A plain mutex: it is held for map operations and for the listener, never over an await. The listener is called under it,
    /// which is what keeps the commits of one wait in order.
    tables: Arc<Mutex<Tables>>,
    clock: Arc<dyn Clock>,
    ready: Ready,
    listener: OnceLock<Arc<dyn Listener>>,
    closed: AtomicBool,
}

#[derive(Default)]
struct Tables {
    waits: BTreeMap<WaitId, Row>,
    keys: HashMap<(Namespace, Key), WaitId>,
    request_ids: HashMap<(Namespace, RequestId), WaitId>,
    /// Pending waits by [`domain::Record::due_time`].
    due: BTreeSet<(Timestamp, WaitId)>,
    /// Settled waits by settle time.
    settled: BTreeSet<(Timestamp, WaitId)>,
    tombstones: HashMap<(Namespace, Key), Timestamp>,
    tombstone_times: BTreeSet<(Timestamp, Namespace, Key)>,
}

struct Row {
    wait: Wait,
    request_id: Option<RequestId>,
}

impl MemoryStore {
    /// An empty store that decides by `clock` and was ready at `ready` (see [`Moment::ready`]).
    pub fn new(clock: Arc<dyn Clock>, ready: Timestamp) -> Self {
        Self::over(Arc::default(), clock, ready)
    }

    /// The same waits as a broker finds them that was restarted and is ready at `ready`. Nobody listens to it yet.
    #[must_use]
    pub fn restarted(&self, ready: Timestamp) -> Self {
        Self::over(Arc::clone(&self.tables), Arc::clone(&self.clock), ready)
    }

    fn over(tables: Arc<Mutex<Tables>>, clock: Arc<dyn Clock>, ready: Timestamp) -> Self {
        Self {
            tables,
            ready: Ready::at(ready, &*clock),
            clock,
            listener: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    fn tables(&self) -> Result<MutexGuard<'_, Tables>, Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Unavailable("it is closed".to_owned()));
        }
        // A listener that panicked left the maps whole: they are changed before it is called.
        Ok(self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell(&self, record: &domain::Record) {
        if let Some(listener) = self.listener.get() {
            listener.committed(record);
        }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn listen(&self, listener: Arc<dyn Listener>) {
        // Contract: called once. A second listener would be a fault of the caller; the first stays.
        let _ = self.listener.set(listener);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn open(&self, new: NewWait) -> Result<Opened, Error> {
        let mut tables = self.tables()?;
        if let Some(existing) = tables.existing(&new) {
            return Ok(match transition::reopen(existing, &new) {
                Ok(()) => Opened::Resumed(existing.clone()),
                Err(refusal) => Opened::Refused(refusal),
            });
        }
        if tables.has_tombstone(&new) {
            return Ok(Opened::Refused(Refusal::KeyPurged));
        }
        let wait = new.create(self.clock.now());
        tables.insert(wait.clone(), new.idempotency_id().cloned());
        self.tell(&wait.record);
        Ok(Opened::Created(wait))
    }

    async fn apply(&self, id: WaitId, command: Command) -> Result<Option<Applied>, Error> {
        let mut tables = self.tables()?;
        let Some(row) = tables.waits.get_mut(&id) else {
            return Ok(None);
        };
        let before = row.wait.record.clone();
        let now = self.clock.now();
        let moment = Moment {
            now,
            ready: self.ready.time(now, &*self.clock),
        };
        let decision = domain::apply(&before, &command, moment);
        let after = match decision.effect {
            Effect::None => None,
            Effect::Settle(outcome) => Some(settled(before.clone(), outcome)),
            Effect::Update(record) => Some(record),
        };
        if let Some(after) = &after {
            row.wait.record = after.clone();
            tables.due.remove(&(before.due_time(), id));
            match &after.outcome {
                Some(outcome) => tables.settled.insert((outcome.settle_time, id)),
                None => tables.due.insert((after.due_time(), id)),
            };
            self.tell(after);
        }
        Ok(Some(Applied {
            record: after.unwrap_or(before),
            verdict: decision.verdict,
        }))
    }

    async fn load(&self, id: WaitId) -> Result<Option<Wait>, Error> {
        Ok(self.tables()?.waits.get(&id).map(|row| row.wait.clone()))
    }

    async fn find(&self, namespace: Namespace, key: Key) -> Result<Found, Error> {
        let tables = self.tables()?;
        let at = (namespace, key);
        let wait = tables.keys.get(&at).and_then(|id| tables.waits.get(id));
        Ok(match wait {
            Some(row) => Found::Wait(Box::new(row.wait.clone())),
            None if tables.tombstones.contains_key(&at) => Found::Tombstone,
            None => Found::Nothing,
        })
    }

    async fn list(&self, query: Query) -> Result<Page, Error> {
        let tables = self.tables()?;
        let upper = query.before.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = tables.waits.range((Bound::Unbounded, upper)).rev();
        let mut page = Page {
            waits: Vec::new(),
            next: None,
        };
        let (mut last, mut bytes) = (None, 0);
        for (id, row) in rows.by_ref().take(LIST_SCAN_ROWS) {
            last = Some(*id);
            let summary = Summary::from(row.wait.clone());
            if query.matches(&summary) {
                bytes += summary.size();
                page.waits.push(summary);
            }
            if page.waits.len() >= query.limit || bytes >= LIST_BYTES {
                break;
            }
        }
        if rows.next().is_some() {
            page.next = last;
        }
        Ok(page)
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        let tables = self.tables()?;
        let now = self.clock.now();
        let mut due = Due {
            waits: Vec::new(),
            next_in: None,
        };
        for (time, id) in &tables.due {
            if *time > now || due.waits.len() >= limit {
                due.next_in = Some(time.since(now));
                break;
            }
            due.waits.push(*id);
        }
        Ok(due)
    }

    async fn purge(
        &self,
        retention: Duration,
        tombstones: Duration,
        limit: usize,
    ) -> Result<Purged, Error> {
        let mut tables = self.tables()?;
        let now = self.clock.now();
        Ok(Purged {
            tombstones: tables.purge_tombstones(now.before(tombstones), limit),
            waits: tables.purge_waits(now.before(retention), now, limit),
        })
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl Tables {
    /// The wait that an open meets.
    fn existing(&self, new: &NewWait) -> Option<&Wait> {
        let namespace = || new.spec.namespace.clone();
        let by_name = match (&new.spec.key, new.idempotency_id()) {
            (Some(key), _) => self.keys.get(&(namespace(), key.clone())),
            (None, Some(id)) => self.request_ids.get(&(namespace(), id.clone())),
            (None, None) => None,
        };
        self.waits
            .get(by_name.unwrap_or(&new.id))
            .map(|row| &row.wait)
    }

    fn has_tombstone(&self, new: &NewWait) -> bool {
        new.spec.key.as_ref().is_some_and(|key| {
            let at = (new.spec.namespace.clone(), key.clone());
            self.tombstones.contains_key(&at)
        })
    }

    fn insert(&mut self, wait: Wait, request_id: Option<RequestId>) {
        let id = wait.record.id;
        let namespace = || wait.spec.namespace.clone();
        if let Some(key) = &wait.spec.key {
            self.keys.insert((namespace(), key.clone()), id);
        }
        if let Some(request_id) = &request_id {
            self.request_ids
                .insert((namespace(), request_id.clone()), id);
        }
        self.due.insert((wait.record.due_time(), id));
        self.waits.insert(id, Row { wait, request_id });
    }

    fn purge_waits(&mut self, until: Timestamp, now: Timestamp, limit: usize) -> usize {
        let old: Vec<_> = (self.settled.iter())
            .take_while(|(time, _)| *time < until)
            .take(limit)
            .copied()
            .collect();
        for entry in &old {
            self.settled.remove(entry);
            let Some(row) = self.waits.remove(&entry.1) else {
                continue;
            };
            let namespace = row.wait.spec.namespace;
            if let Some(request_id) = row.request_id {
                self.request_ids.remove(&(namespace.clone(), request_id));
            }
            if let Some(key) = row.wait.spec.key {
                let at = (namespace, key);
                self.keys.remove(&at);
                self.tombstones.insert(at.clone(), now);
                self.tombstone_times.insert((now, at.0, at.1));
            }
        }
        old.len()
    }

    fn purge_tombstones(&mut self, until: Timestamp, limit: usize) -> usize {
        let old: Vec<_> = (self.tombstone_times.iter())
            .take_while(|(time, _, _)| *time < until)
            .take(limit)
            .cloned()
            .collect();
        for entry in &old {
            self.tombstone_times.remove(entry);
            let (_, namespace, key) = entry.clone();
            self.tombstones.remove(&(namespace, key));
        }
        old.len()
    }
}
