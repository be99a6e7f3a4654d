//! A store of either kind with a clock that stands still, a listener that remembers, and short ways to say what is asked.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use abeyance::{
    domain::{
        Command, Failure, JsonText, NewWait, Question, Record, Spec, Submission, TimeoutSource,
        Timestamp, Wait, WaitId,
        limits::{ErrorType, Key, Labels, Name, Namespace, Reason, RequestId},
    },
    store::{
        Applied, Clock, Listener, ManualClock, Opened, Store,
        memory::MemoryStore,
        sqlite::{Options, SqliteStore},
    },
};
use tempfile::TempDir;

/// When the tests begin: an even second, so that microseconds show.
pub const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

pub const SECOND: Duration = Duration::from_secs(1);

/// A store under test.
pub struct Env {
    pub clock: Arc<ManualClock>,
    pub store: Arc<dyn Store>,
    pub heard: Arc<Heard>,
    kind: Kind,
}

enum Kind {
    Memory(Arc<MemoryStore>),
    Sqlite(TempDir),
}

impl Env {
    pub fn memory() -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let store = Arc::new(MemoryStore::new(clock.clone(), START));
        Self::over(clock, store.clone(), Kind::Memory(store))
    }

    pub fn sqlite() -> Self {
        Self::sqlite_with(|_| ())
    }

    /// The embedded store with other settings.
    pub fn sqlite_with(set: impl FnOnce(&mut Options)) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let dir = TempDir::new().expect("a directory");
        let mut options = options(dir.path(), clock.clone());
        set(&mut options);
        let store = Arc::new(SqliteStore::open(&options).expect("opens"));
        Self::over(clock, store, Kind::Sqlite(dir))
    }

    fn over(clock: Arc<ManualClock>, store: Arc<dyn Store>, kind: Kind) -> Self {
        let heard = Arc::new(Heard::default());
        store.listen(heard.clone());
        Self {
            clock,
            store,
            heard,
            kind,
        }
    }

    /// Whether it is an embedded store.
    pub fn has_dir(&self) -> bool {
        matches!(self.kind, Kind::Sqlite(_))
    }

    /// The data directory of an embedded store.
    pub fn dir(&self) -> &Path {
        match &self.kind {
            Kind::Sqlite(dir) => dir.path(),
            Kind::Memory(_) => panic!("a memory store has no directory"),
        }
    }

    /// The same waits after a restart of the broker.
    pub async fn restart(self) -> Self {
        let Self {
            clock, store, kind, ..
        } = self;
        match kind {
            Kind::Memory(memory) => {
                store.close().await;
                let memory = Arc::new(memory.restarted(clock.now()));
                Self::over(clock, memory.clone(), Kind::Memory(memory))
            }
            Kind::Sqlite(dir) => {
                store.close().await;
                drop(store);
                let again = SqliteStore::open(&options(dir.path(), clock.clone())).expect("opens");
                Self::over(clock, Arc::new(again), Kind::Sqlite(dir))
            }
        }
    }

    /// A wait with an id of its own and nothing that need not be there.
    pub fn new_wait(&self) -> NewWait {
        new_wait(self.clock.now())
    }

    pub async fn create(&self, new: NewWait) -> Wait {
        match self.store.open(new).await.expect("open") {
            Opened::Created(wait) => wait,
            other => panic!("not created: {other:?}"),
        }
    }

    pub async fn apply(&self, id: WaitId, command: Command) -> Applied {
        let applied = self.store.apply(id, command).await.expect("apply");
        applied.expect("the wait is there")
    }

    pub async fn load(&self, id: WaitId) -> Wait {
        let wait = self.store.load(id).await.expect("load");
        wait.expect("the wait is there")
    }
}

pub fn options(dir: &Path, clock: Arc<dyn Clock>) -> Options {
    Options {
        clock,
        ..Options::new(dir)
    }
}

/// Remembers every commit.
#[derive(Default)]
pub struct Heard(Mutex<Vec<Record>>);

impl Heard {
    pub fn all(&self) -> Vec<Record> {
        self.0.lock().expect("whole").clone()
    }

    pub fn of(&self, id: WaitId) -> Vec<Record> {
        let mut records = self.all();
        records.retain(|r| r.id == id);
        records
    }

    /// Gives what was heard and forgets it.
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut self.0.lock().expect("whole"))
    }

    pub fn count(&self) -> usize {
        self.0.lock().expect("whole").len()
    }
}

impl Listener for Heard {
    fn committed(&self, record: &Record) {
        self.0.lock().expect("whole").push(record.clone());
    }
}

pub fn new_wait(now: Timestamp) -> NewWait {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut random = [0; 10];
    random[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    NewWait {
        id: WaitId::new(now, random),
        token_key: 1,
        spec: Spec {
            namespace: namespace(""),
            name: Name::new("approve").expect("a name"),
            key: None,
            labels: Labels::default(),
        },
        timeout: Duration::from_secs(3600),
        timeout_source: TimeoutSource::Timeout,
        lifetime: Duration::from_secs(3600),
        heartbeat_timeout: None,
        question: None,
        question_later: false,
        request_id: None,
    }
}

pub fn namespace(text: &str) -> Namespace {
    Namespace::new(text).expect("a namespace")
}

pub fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

pub fn request_id(text: &str) -> RequestId {
    RequestId::new(text).expect("an id")
}

pub fn json(text: &str) -> JsonText {
    JsonText::new(text).expect("JSON")
}

pub fn question(text: &str) -> Question {
    Question::FreeJson(json(text))
}

pub fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    let map: BTreeMap<_, _> = pairs
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    Labels::new("labels", map).expect("labels")
}

pub fn resolve(text: &str) -> Command {
    Command::Resolve(Box::new(Submission::json(json(text))))
}

/// An answer with a request id.
pub fn resolve_as(id: &str, text: &str) -> Command {
    Command::Resolve(Box::new(Submission {
        request_id: Some(request_id(id)),
        ..Submission::json(json(text))
    }))
}

pub fn fail(reason: &str) -> Command {
    Command::Fail {
        failure: Failure {
            reason: Reason::new(reason).expect("a reason"),
            error_type: ErrorType::new("").expect("a type"),
            details: None,
        },
        request_id: None,
    }
}

pub fn cancel(reason: &str) -> Command {
    Command::Cancel {
        reason: Reason::new(reason).expect("a reason"),
    }
}
