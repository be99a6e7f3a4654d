//! A store in front of a store: it counts, it is slow, it fails.

use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abeyance::{
    domain::{
        Command, NewWait, Timestamp, Wait, WaitId,
        limits::{Key, Namespace},
    },
    store::{Applied, Due, Error, Found, Listener, Opened, Page, Purged, Query, Store},
};
use async_trait::async_trait;

/// How a store fails.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Unavailable,
    Overloaded,
    Corrupt,
}

impl Fault {
    fn error(self) -> Error {
        match self {
            Self::Unavailable => Error::Unavailable("the disk is full".to_owned()),
            Self::Overloaded => Error::Overloaded,
            Self::Corrupt => Error::Corrupt("row 7 holds no state".to_owned()),
        }
    }
}

/// A store in front of a store. Callers' calls are counted, slowed and failed; those of the broker's own tasks are not.
#[derive(Debug)]
pub struct Front {
    inner: Arc<dyn Store>,
    calls: AtomicUsize,
    trouble: Mutex<(Duration, Option<Fault>)>,
}

impl Front {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            calls: AtomicUsize::new(0),
            trouble: Mutex::default(),
        })
    }

    /// How often the store was asked for anything.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Every call takes this much longer from now on.
    pub fn slow(&self, by: Duration) {
        self.trouble.lock().expect("whole").0 = by;
    }

    /// Every call fails from now on, or no longer.
    pub fn fail(&self, fault: Option<Fault>) {
        self.trouble.lock().expect("whole").1 = fault;
    }

    /// Makes a call in a task of its own: once begun it goes on to its end, as the contract of [`Store`] has it.
    async fn call<T, F>(&self, call: impl FnOnce(Arc<dyn Store>) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let (slow, fault) = *self.trouble.lock().expect("whole");
        if let Some(fault) = fault {
            return Err(fault.error());
        }
        let call = call(self.inner.clone());
        let task = tokio::spawn(async move {
            if !slow.is_zero() {
                tokio::time::sleep(slow).await;
            }
            call.await
        });
        task.await.expect("no panic")
    }
}

#[async_trait]
impl Store for Front {
    fn listen(&self, listener: Arc<dyn Listener>) {
        self.inner.listen(listener);
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn open(&self, new: NewWait) -> Result<Opened, Error> {
        self.call(|store| async move { store.open(new).await })
            .await
    }

    async fn apply(&self, id: WaitId, command: Command) -> Result<Option<Applied>, Error> {
        self.call(|store| async move { store.apply(id, command).await })
            .await
    }

    async fn load(&self, id: WaitId) -> Result<Option<Wait>, Error> {
        self.call(|store| async move { store.load(id).await }).await
    }

    async fn find(&self, namespace: Namespace, key: Key) -> Result<Found, Error> {
        self.call(|store| async move { store.find(namespace, key).await })
            .await
    }

    async fn list(&self, query: Query) -> Result<Page, Error> {
        self.call(|store| async move { store.list(query).await })
            .await
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
        self.inner.close().await;
    }
}
