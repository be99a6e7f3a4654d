//! The embedded store: one SQLite database in a data directory, for one process.
//!
//! One thread writes, in group commits (`writer`); a few connections read beside it (`readers`); another thread moves the log
//! into the database (`checkpoint`). `ops` is what happens in a transaction, `rows` how a wait is written down.
//!
//! Invariants
//! - What is acknowledged is flushed (`synchronous=FULL`). A flush that fails ends the process, exit status 74.
//! - Every write transaction is the writer's, and takes its lock before it reads, so no caller meets a BUSY.
//! - No read transaction outlives one short read.
//! - The token key is on the disk before the first token leaves, and no database is opened without its own.

mod checkpoint;
mod connection;
mod fault;
mod key;
mod lock;
mod ops;
mod options;
mod queue;
mod readers;
mod rows;
mod statements;
mod writer;

use std::{
    cell::Cell,
    fmt, fs,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::Connection;

pub use options::{OpenError, Options};

use self::{
    checkpoint::Checkpoints,
    lock::DirLock,
    ops::Purge,
    queue::{Bound, Job, Queue, Reply, Task},
    readers::Readers,
    writer::Writer,
};
use super::{
    Applied, Clock, Due, Error, Found, Listener, Opened, Page, Purged, Query, Store, clock::Ready,
};
use crate::domain::{
    Command, KeyRing, NewWait, Timestamp, Wait, WaitId,
    limits::{Key, Namespace},
};

mod migrations {
    refinery::embed_migrations!("src/store/sqlite/migrations");
}

/// The database's file in the data directory.
const DATABASE: &str = "abeyance.db";

/// How many waits one transaction purges, so that others get their turn.
const PURGE_PIECE: usize = 256;

/// The embedded store. Dropping it without [`Store::close`] still does what is queued, in the background.
pub struct SqliteStore {
    queue: Arc<Queue>,
    readers: Readers,
    listener: Arc<OnceLock<Arc<dyn Listener>>>,
    checkpoints: Arc<Checkpoints>,
    clock: Arc<dyn Clock>,
    keys: KeyRing,
    /// Until it is joined.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens the store, or makes it on the first start. Blocks: for up to [`Options::lock_timeout`] while another process
    /// leaves. Does not look at the waits, so it takes no longer for a million of them.
    ///
    /// # Errors
    /// See [`OpenError`]. Nothing was changed that a later start would stumble over.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        make_dir(&options.dir)?;
        let lock = DirLock::take(&options.dir, options.lock_timeout)?;
        let path = options.dir.join(DATABASE);
        let key_file = options.key_file();
        // The key before the database: a crash between the two leaves a key without a database, which the next start uses.
        let keys = key::read_or_make(&key_file, path.exists())?;
        let db = prepare(&path, &key_file, &keys, options)?;
        let checkpoint_db = connection::checkpointer(&path, options)?;

        let queue = Arc::new(Queue::new(Bound {
            jobs: options.queue_jobs,
            bytes: options.queue_bytes,
        }));
        let listener = Arc::new(OnceLock::new());
        let checkpoints = Arc::new(Checkpoints::new(options.wal_limit_bytes));
        let writer = Writer {
            db,
            queue: Arc::clone(&queue),
            batch: Bound {
                jobs: options.batch_jobs,
                bytes: options.batch_bytes,
            },
            clock: Arc::clone(&options.clock),
            // The last thing before others can be served.
            ready: Ready::at(options.clock.now(), &*options.clock),
            listener: Arc::clone(&listener),
            checkpoints: Arc::clone(&checkpoints),
            warned: Cell::new(None),
        };
        let thread = start(writer, checkpoint_db, lock, &options.dir)?;
        Ok(Self {
            readers: Readers::new(path, options.busy_timeout, options.readers),
            queue,
            listener,
            checkpoints,
            clock: Arc::clone(&options.clock),
            keys,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The token keys of this database.
    pub fn key_ring(&self) -> &KeyRing {
        &self.keys
    }

    /// The size of the write-ahead log in bytes, when it was last looked at.
    pub fn wal_bytes(&self) -> u64 {
        self.checkpoints.log_bytes()
    }

    async fn write<I, O>(
        &self,
        input: I,
        job: impl FnOnce(Box<Task<I, O>>) -> Job,
    ) -> Result<O, Error> {
        let (task, reply): (_, Reply<O>) = Task::new(input);
        self.queue.push(job(task))?;
        // Dropped without an answer only by a writer that died.
        reply
            .await
            .unwrap_or_else(|_| Err(Error::Unavailable("its writer is gone".to_owned())))
    }
}

/// Opens the database and brings it up to date.
fn prepare(
    path: &Path,
    key_file: &Path,
    keys: &KeyRing,
    options: &Options,
) -> Result<Connection, OpenError> {
    let io = |what, source| OpenError::Io {
        what,
        path: path.to_owned(),
        source,
    };
    if !path.exists() {
        // An empty file is an empty database. Made here for its mode, which SQLite then gives the log too.
        key::private()
            .open(path)
            .map_err(|e| io("make the database file", e))?;
    }
    let mut db = connection::writer(path, options)?;
    migrations::migrations::runner()
        // A migration and the row that says it was made, in one transaction: between two a crash would leave a database that no
        // start can open.
        .set_grouped(true)
        .run(&mut db)
        .map_err(|e| OpenError::Migration(Box::new(e)))?;
    // In one transaction, so that no key is recorded beside one that is refused.
    let tx = db.transaction()?;
    key::check(&tx, keys, key_file)?;
    tx.commit()?;
    key::sync_folder_of(path).map_err(|e| io("flush the folder of", e))?;
    Ok(db)
}

/// Starts the threads. The writer outlives the checkpoints and lets go of the directory at its end.
fn start(
    writer: Writer,
    checkpoint_db: Connection,
    lock: DirLock,
    dir: &Path,
) -> Result<JoinHandle<()>, OpenError> {
    let spawn_error = |source| OpenError::Io {
        what: "start a thread for",
        path: dir.to_owned(),
        source,
    };
    let checkpoints = Arc::clone(&writer.checkpoints);
    let checkpointer = thread::Builder::new()
        .name("store-checkpoint".to_owned())
        .spawn(move || checkpoints.run(&checkpoint_db))
        .map_err(spawn_error)?;
    let checkpoints = Arc::clone(&writer.checkpoints);
    thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || {
            writer.run();
            // It ends when it is told to; a panic of it is on stderr already.
            let _ = checkpointer.join();
            checkpoint::finish(&writer.db);
            drop(writer);
            drop(lock);
        })
        .inspect_err(|_| checkpoints.stop())
        .map_err(spawn_error)
}

fn make_dir(dir: &Path) -> Result<(), OpenError> {
    let new: Vec<&Path> = dir
        .ancestors()
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.is_dir())
        .collect();
    if new.is_empty() {
        // The start that made it may have been cut short. Not every folder above lets us flush it, and most need it no more.
        let _ = key::sync_folder_of(dir);
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(dir)
        // Each new folder is a name in the one above, which a loss of power may forget, and all within with it.
        .and_then(|()| new.into_iter().try_for_each(key::sync_folder_of))
        .map_err(|source| OpenError::Io {
            what: "make the data directory",
            path: dir.to_owned(),
            source,
        })
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn listen(&self, listener: Arc<dyn Listener>) {
        // Contract: called once. A second listener would be a fault of the caller; the first stays.
        let _ = self.listener.set(listener);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn open(&self, new: NewWait) -> Result<Opened, Error> {
        self.write(new, Job::Open).await
    }

    async fn apply(&self, id: WaitId, command: Command) -> Result<Option<Applied>, Error> {
        let done = self.write((id, command), Job::Apply).await?;
        Ok(done.map(|(applied, _)| applied))
    }

    async fn load(&self, id: WaitId) -> Result<Option<Wait>, Error> {
        self.readers.read(move |db| readers::load(db, id)).await
    }

    async fn find(&self, namespace: Namespace, key: Key) -> Result<Found, Error> {
        self.readers
            .read(move |db| readers::find(db, &namespace, &key))
            .await
    }

    async fn list(&self, query: Query) -> Result<Page, Error> {
        self.readers.read(move |db| readers::list(db, &query)).await
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        let clock = Arc::clone(&self.clock);
        self.readers
            .read(move |db| readers::due(db, clock.now(), limit))
            .await
    }

    /// In several transactions if `limit` is large. If the returned future is dropped, fewer may be deleted.
    async fn purge(
        &self,
        retention: Duration,
        tombstones: Duration,
        limit: usize,
    ) -> Result<Purged, Error> {
        let mut purged = Purged {
            waits: 0,
            tombstones: 0,
        };
        let mut left = limit;
        while left > 0 {
            let piece = left.min(PURGE_PIECE);
            left -= piece;
            let purge = Purge {
                retention,
                tombstones,
                limit: piece,
            };
            let done = self.write(purge, Job::Purge).await?;
            purged.waits += done.waits;
            purged.tombstones += done.tombstones;
            if done.waits < piece && done.tombstones < piece {
                break;
            }
        }
        Ok(purged)
    }

    async fn close(&self) {
        self.readers.close().await;
        self.queue.close();
        let thread = (self.thread.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // An error means that the writer panicked, which is on stderr already.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}
