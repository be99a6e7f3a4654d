//! A store that is slow, holds back, or fails on demand.

use std::{future::Future, sync::Arc, time::Duration};

use abeyance::{
    domain::{
        Command, NewWait, Timestamp, Wait, WaitId,
        limits::{Key, Namespace},
    },
    store::{Applied, Due, Error, Found, Listener, Opened, Page, Purged, Query, Store},
};
use async_trait::async_trait;
use tokio::sync::watch;

use super::soon;

/// Steers a rigged store. Cheap to clone; all clones steer the same one.
#[derive(Clone, Debug)]
pub struct Rig(Arc<watch::Sender<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    /// How long each write takes before it is carried out.
    delay: Duration,
    /// Writes are held before they are carried out.
    hold_writes: bool,
    /// Writes are carried out, and their callers hear nothing of it.
    hold_replies: bool,
    /// Writes fail without being carried out.
    fail: bool,
    /// What was read, and what an open found, comes back late: by this many turns of the scheduler at most.
    linger: u32,
    /// How many are held now.
    held: usize,
}

impl Default for Rig {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }
}

impl Rig {
    /// Each write takes this much longer before it is carried out.
    pub fn slow(&self, delay: Duration) {
        self.0.send_modify(|s| s.delay = delay);
    }

    /// Writes are held before they are carried out, until [`Rig::release`].
    pub fn hold_writes(&self) {
        self.0.send_modify(|s| s.hold_writes = true);
    }

    /// Writes are carried out and whoever waits is woken, but their callers hear nothing of it until [`Rig::release`].
    pub fn hold_replies(&self) {
        self.0.send_modify(|s| s.hold_replies = true);
    }

    /// What was read, and what an open found, comes back later by some turns of the scheduler, up to this many: time enough for
    /// others to change what was read.
    pub fn linger(&self, turns: u32) {
        self.0.send_modify(|s| s.linger = turns);
    }

    /// Whether writes fail as they do when the disk is full.
    pub fn fail(&self, fail: bool) {
        self.0.send_modify(|s| s.fail = fail);
    }

    /// Lets go of everything that is held, and holds nothing more.
    pub fn release(&self) {
        self.0.send_modify(|s| {
            s.hold_writes = false;
            s.hold_replies = false;
        });
    }

    /// Waits until this many writes or replies are held.
    pub async fn until_held(&self, count: usize) {
        let mut state = self.0.subscribe();
        let held = soon("writes are held", state.wait_for(|s| s.held >= count)).await;
        drop(held.expect("the rig is there"));
    }

    async fn pass(&self, held: impl Fn(&State) -> bool) {
        if !held(&self.0.borrow()) {
            return;
        }
        self.0.send_modify(|s| s.held += 1);
        let mut state = self.0.subscribe();
        // It fails only without a rig, and this is one.
        let _ = state.wait_for(|s| !held(s)).await;
        self.0.send_modify(|s| s.held -= 1);
    }

    async fn lingered(&self) {
        let most = self.0.borrow().linger;
        if most > 0 {
            // Without random bytes there is only no variety.
            let turns = getrandom::u32().unwrap_or(most) % most;
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn before(&self) -> Result<(), Error> {
        let (delay, fail) = {
            let state = self.0.borrow();
            (state.delay, state.fail)
        };
        if fail {
            return Err(Error::Unavailable("the test says so".to_owned()));
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.pass(|s| s.hold_writes).await;
        Ok(())
    }
}

/// The store that is steered.
#[derive(Debug)]
pub struct Rigged {
    inner: Arc<dyn Store>,
    rig: Rig,
}

impl Rigged {
    pub fn new(inner: Arc<dyn Store>, rig: Rig) -> Self {
        Self { inner, rig }
    }

    /// Carries out a write under the rig, to its end even if the caller goes: so the contract of stores wants it.
    async fn write<T, F>(
        &self,
        write: impl FnOnce(Arc<dyn Store>) -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let (inner, rig) = (self.inner.clone(), self.rig.clone());
        let task = tokio::spawn(async move {
            rig.before().await?;
            let done = write(inner).await;
            rig.pass(|s| s.hold_replies).await;
            done
        });
        task.await.expect("the store does not panic")
    }
}

#[async_trait]
impl Store for Rigged {
    fn listen(&self, listener: Arc<dyn Listener>) {
        self.inner.listen(listener);
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn open(&self, new: NewWait) -> Result<Opened, Error> {
        let opened = self
            .write(|store| async move { store.open(new).await })
            .await;
        self.rig.lingered().await;
        opened
    }

    async fn apply(&self, id: WaitId, command: Command) -> Result<Option<Applied>, Error> {
        self.write(move |store| async move { store.apply(id, command).await })
            .await
    }

    async fn load(&self, id: WaitId) -> Result<Option<Wait>, Error> {
        let wait = self.inner.load(id).await;
        self.rig.lingered().await;
        wait
    }

    async fn find(&self, namespace: Namespace, key: Key) -> Result<Found, Error> {
        let found = self.inner.find(namespace, key).await;
        self.rig.lingered().await;
        found
    }

    async fn list(&self, query: Query) -> Result<Page, Error> {
        self.inner.list(query).await
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        self.inner.due(limit).await
    }

    async fn purge(
        &self,
        retention: Duration,
        tombstones: Duration,
        limit: usize,
    ) -> Result<Purged, Error> {
        self.inner.purge(retention, tombstones, limit).await
    }

    async fn close(&self) {
        self.rig.release();
        self.inner.close().await;
    }
}
