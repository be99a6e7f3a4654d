//! Who is waiting here: the one way for the rooms above to open, settle and find waits, and to hear of their outcomes.
//!
//! May import: `domain`, `store`. Knows nothing of gRPC or HTTP.
//!
//! Invariants
//! - A place in the registry is taken before the row is read, so no outcome slips between the two.
//! - A slot moves forward only: pending, then one outcome.
//! - A commit wakes whoever waits from the store's own thread; no caller's disconnect comes between.
//! - Memory holds only who is attached. What is due, and who won, is in the store.

mod apply;
mod drain;
mod error;
mod expiry;
mod forms;
mod hub;
mod recent;
mod registry;
mod request;
mod retention;
mod subscription;
mod watch;

use std::{fmt, future::Future, sync::Arc};

pub use drain::Drain;
pub use error::Error;
pub use registry::{News, Part};
pub use request::{Filter, Open, Options};
pub use subscription::{Attached, Subscription};
pub use watch::{Told, Watch};

use crate::{
    domain::{
        Command, KeyRing, NewWait, Record, Refusal, State, Summary, Timestamp, Token, Wait, WaitId,
        deadline,
        limits::{Key, Limits, Namespace},
    },
    store::{Found, Opened, Page, Query, Store},
};

/// Where an open names its question.
const SPEC_QUESTION: &str = "spec.question";

/// The broker. Cheap to clone; all clones are the same broker.
#[derive(Clone)]
pub struct Broker(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    hub: Arc<hub::Hub>,
    keys: KeyRing,
    options: Options,
    drain: Drain,
    forms: forms::Forms,
}

impl Broker {
    /// A broker over a store that nobody else listens to.
    pub fn new(store: Arc<dyn Store>, keys: KeyRing, options: Options) -> Self {
        let hub = Arc::new(hub::Hub::new());
        store.listen(hub.clone());
        Self(Arc::new(Inner {
            store,
            hub,
            keys,
            options,
            drain: Drain::default(),
            forms: forms::Forms::new(),
        }))
    }

    /// The task that settles waits whose time is up. Must run for as long as the broker does.
    pub fn expiry(&self) -> impl Future<Output = ()> + Send + use<> {
        expiry::Expiry {
            store: self.0.store.clone(),
            hub: self.0.hub.clone(),
        }
        .run()
    }

    /// The task that deletes what was kept long enough. Must run for as long as the broker does.
    pub fn retention(&self) -> impl Future<Output = ()> + Send + use<> {
        retention::Retention {
            store: self.0.store.clone(),
            retention: self.0.options.retention,
            tombstones: self.0.options.tombstones,
        }
        .run()
    }

    /// What callers may send.
    pub fn limits(&self) -> &Limits {
        &self.0.options.limits
    }

    /// The store's clock.
    pub fn now(&self) -> Timestamp {
        self.0.store.now()
    }

    /// How many waits have somebody attached here.
    pub fn attached(&self) -> usize {
        self.0.hub.registry.len()
    }

    /// The sign that the broker stops.
    pub fn drain(&self) -> &Drain {
        &self.0.drain
    }

    /// Begins to let go of all streams, and refuses new ones. Calls that are not streams still work.
    pub fn begin_drain(&self) {
        self.0.drain.begin();
        self.0.hub.registry.wake_everybody();
    }

    /// Opens a wait, or re-opens it by key or `request_id`.
    ///
    /// # Errors
    /// What the rules refuse, and what the store fails with.
    ///
    /// # Cancel safety
    /// The wait may be opened even if the future is dropped.
    pub async fn open(&self, open: Open) -> Result<(Wait, Token, bool), Error> {
        self.check_question(SPEC_QUESTION, open.question.as_ref())
            .await?;
        let new = self.new_wait(open)?;
        let (wait, resumed) = match self.0.store.open(new).await? {
            Opened::Created(wait) => {
                self.0.forms.remember(&wait);
                (wait, false)
            }
            Opened::Resumed(wait) => (self.settle_if_overdue(wait).await?, true),
            Opened::Refused(refusal) => return Err(refusal.into()),
        };
        let token = self.token(&wait)?;
        Ok((wait, token, resumed))
    }

    /// Opens a wait, or re-opens it, and stays attached. Errors and cancel safety as for [`Broker::open`].
    pub async fn open_attached(&self, open: Open) -> Result<Attached, Error> {
        self.refuse_if_draining()?;
        self.check_question(SPEC_QUESTION, open.question.as_ref())
            .await?;
        let new = self.new_wait(open)?;
        // The place is taken before the wait exists, so there is nothing to read again.
        let place = self.0.hub.registry.subscribe(new.id);
        match self.0.store.open(new).await? {
            Opened::Created(wait) => {
                self.0.forms.remember(&wait);
                self.attached_to(wait, place, false)
            }
            Opened::Resumed(wait) => {
                drop(place);
                // Boxed: most opens are new.
                Box::pin(self.attach_to(wait.record.id, true)).await
            }
            Opened::Refused(refusal) => Err(refusal.into()),
        }
    }

    /// Attaches to a wait by its token.
    ///
    /// # Errors
    /// An unknown token, a purged or a missing wait; what the store fails with.
    pub async fn attach(&self, token: &str) -> Result<Attached, Error> {
        self.refuse_if_draining()?;
        let id = self.0.keys.verify(token)?;
        self.attach_to(id, true).await
    }

    /// Attaches to a wait by its key.
    ///
    /// # Errors
    /// An unknown or purged key; what the store fails with.
    pub async fn attach_by_key(&self, namespace: Namespace, key: Key) -> Result<Attached, Error> {
        self.refuse_if_draining()?;
        match self.0.store.find(namespace, key).await? {
            Found::Wait(wait) => self.attach_to(wait.record.id, true).await,
            Found::Tombstone => Err(Refusal::KeyPurged.into()),
            Found::Nothing => Err(Refusal::WaitUnknown.into()),
        }
    }

    /// Reads the wait of a token. An overdue one is settled as expired first.
    ///
    /// # Errors
    /// An unknown token, a purged or a missing wait; what the store fails with.
    pub async fn describe(&self, token: &str) -> Result<Wait, Error> {
        let id = self.0.keys.verify(token)?;
        let wait = self.0.store.load(id).await?;
        self.settle_if_overdue(wait.ok_or_else(|| self.missing(id))?)
            .await
    }

    /// Reads a wait by its public name. An overdue one is settled as expired first.
    ///
    /// # Errors
    /// [`Refusal::WaitUnknown`]; what the store fails with.
    pub async fn get(&self, id: WaitId) -> Result<Wait, Error> {
        let wait = self.0.store.load(id).await?;
        self.settle_if_overdue(wait.ok_or(Refusal::WaitUnknown)?)
            .await
    }

    /// Lists waits, newest first. Overdue ones are settled as expired first.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn list(
        &self,
        filter: &Filter,
        before: Option<WaitId>,
        limit: usize,
    ) -> Result<Page, Error> {
        // The store counts an overdue wait as pending, so it would not show it among the expired ones.
        if filter.states.contains(&State::Expired) && !filter.states.contains(&State::Pending) {
            let due = self.0.store.due(expiry::PAGE).await?;
            expiry::settle(&self.0.store, due.waits).await?;
        }
        let query = self.query(filter, before, limit);
        let mut page = self.0.store.list(query.clone()).await?;
        let now = self.now();
        for wait in &mut page.waits {
            if wait.settled.is_none()
                && wait.record.due_time() <= now
                && let Some(applied) = self.0.store.apply(wait.record.id, Command::Expire).await?
            {
                *wait = Summary::from(Wait {
                    spec: wait.spec.clone(),
                    token_key: 0,
                    record: applied.record,
                });
            }
        }
        // One that turned out to be over may not be asked for any more.
        page.waits.retain(|wait| query.matches(wait));
        Ok(page)
    }

    /// Begins to follow the waits that match.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`].
    pub fn watch(&self, filter: Filter) -> Result<Watch, Error> {
        self.refuse_if_draining()?;
        Ok(Watch::new(self.clone(), filter))
    }

    /// Closes the store. Call it last.
    pub async fn close(&self) {
        self.0.store.close().await;
    }

    fn hub(&self) -> &hub::Hub {
        &self.0.hub
    }

    /// Reads a wait for a watch. An overdue one is settled as expired first.
    async fn summary(&self, id: WaitId) -> Result<Option<Summary>, Error> {
        let Some(wait) = self.0.store.load(id).await? else {
            return Ok(None);
        };
        let wait = self.settle_if_overdue(wait).await?;
        Ok(Some(Summary::from(wait)))
    }

    fn query(&self, filter: &Filter, before: Option<WaitId>, limit: usize) -> Query {
        let now = self.now();
        Query {
            namespace: filter.namespace.clone(),
            states: filter.states.clone(),
            name: filter.name.clone(),
            labels: filter.labels.clone(),
            created_until: filter.min_age.map(|age| now.before(age)),
            created_from: filter.max_age.map(|age| now.before(age)),
            before,
            limit,
        }
    }

    fn refuse_if_draining(&self) -> Result<(), Error> {
        if self.0.drain.begun() {
            return Err(Error::ShuttingDown);
        }
        Ok(())
    }

    fn new_wait(&self, open: Open) -> Result<NewWait, Error> {
        let mut random = [0; 10];
        getrandom::fill(&mut random)
            .map_err(|error| Error::Internal(format!("no random bytes: {error}")))?;
        let timeout = deadline::timeout(open.wish, &self.0.options.limits);
        Ok(NewWait {
            id: WaitId::new(self.now(), random),
            token_key: self.0.keys.signing(),
            spec: open.spec,
            timeout: timeout.timeout,
            timeout_source: timeout.source,
            lifetime: timeout.lifetime,
            heartbeat_timeout: open.heartbeat_timeout,
            question: open.question,
            question_later: open.question_later,
            request_id: open.request_id,
        })
    }

    /// Takes a place, then reads.
    async fn attach_to(&self, id: WaitId, resumed: bool) -> Result<Attached, Error> {
        let place = self.0.hub.registry.subscribe(id);
        let wait = self.0.store.load(id).await?;
        let wait = self
            .settle_if_overdue(wait.ok_or_else(|| self.missing(id))?)
            .await?;
        self.attached_to(wait, place, resumed)
    }

    fn attached_to(
        &self,
        wait: Wait,
        place: registry::Subscription,
        resumed: bool,
    ) -> Result<Attached, Error> {
        place.seed(&wait.record);
        Ok(Attached {
            token: self.token(&wait)?,
            resumed,
            subscription: Subscription {
                place,
                broker: self.clone(),
                expire_time: wait.record.expire_time,
            },
            wait,
        })
    }

    /// Whoever meets an overdue wait settles it first and reports after.
    async fn settle_if_overdue(&self, mut wait: Wait) -> Result<Wait, Error> {
        let record = &wait.record;
        if record.outcome.is_none() && record.due_time() <= self.now() {
            // Boxed: it is rare, and would make the future of every open half as large again.
            wait.record = Box::pin(self.expire(record.id)).await?;
        }
        Ok(wait)
    }

    async fn expire(&self, id: WaitId) -> Result<Record, Error> {
        let applied = self.0.store.apply(id, Command::Expire).await?;
        Ok(applied.ok_or_else(|| self.missing(id))?.record)
    }

    fn token(&self, wait: &Wait) -> Result<Token, Error> {
        self.0.keys.token(wait.token_key, wait.record.id).ok_or_else(|| {
            let (wait_id, number) = (wait.record.id, wait.token_key);
            tracing::error!(%wait_id, number, "the token key of this wait is not in the key file");
            Error::Internal("the token key of this wait is gone; see the broker's log".to_owned())
        })
    }

    /// A genuine token without a record: old enough to be purged, or lost.
    fn missing(&self, wait_id: WaitId) -> Error {
        let age = self.now().since(wait_id.create_time());
        if age >= self.0.options.retention {
            return Refusal::WaitPurged { wait_id }.into();
        }
        tracing::error!(%wait_id, "a genuine token came whose record should still be here: was an old backup restored?");
        Refusal::RecordMissing { wait_id }.into()
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("store", &self.0.store)
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}
