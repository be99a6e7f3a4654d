//! What an operator can set of the embedded store, and why it may refuse to start.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use super::fault;
use crate::store::{Clock, Error, SystemClock};

/// Settings of the embedded store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory. Made, for its owner alone, if it is not there. Must be on a local file system.
    pub dir: PathBuf,
    /// The token key file. Default: `token.key` in the data directory; elsewhere, a backup of the data need not hold it.
    pub key_file: Option<PathBuf>,
    /// How long to wait for another process that uses the directory, as in a rolling restart. Default: 10 s.
    pub lock_timeout: Duration,
    /// How long a transaction waits while another process holds the database's own lock. Default: 10 s.
    pub busy_timeout: Duration,
    /// What the store decides by. Default: the machine's clock.
    pub clock: Arc<dyn Clock>,
    /// The most writes that may be queued; above it they are refused with [`Error::Overloaded`]. Default: 16,384.
    pub queue_jobs: usize,
    /// The most bytes of payload, about, that may be queued. Default: 64 MiB.
    pub queue_bytes: usize,
    /// The most writes in one transaction. More make fewer flushes and longer ones. Default: 512.
    pub batch_jobs: usize,
    /// The most bytes of payload, about, in one transaction. Default: 4 MiB.
    pub batch_bytes: usize,
    /// The writer's page cache in bytes; what is not in it comes from the kernel's. Default: 32 MiB.
    pub cache_bytes: usize,
    /// How many reads may run at once. Default: 4.
    pub readers: u32,
    /// Above this size of the write-ahead log the store warns, and cuts the file back to it when it can. Default: 64 MiB.
    pub wal_limit_bytes: u64,
}

impl Options {
    /// The defaults, for this data directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            key_file: None,
            lock_timeout: Duration::from_secs(10),
            busy_timeout: Duration::from_secs(10),
            clock: Arc::new(SystemClock),
            queue_jobs: 16_384,
            queue_bytes: 64 << 20,
            batch_jobs: 512,
            batch_bytes: 4 << 20,
            cache_bytes: 32 << 20,
            readers: 4,
            wal_limit_bytes: 64 << 20,
        }
    }

    pub(super) fn key_file(&self) -> PathBuf {
        match &self.key_file {
            Some(path) => path.clone(),
            None => self.dir.join("token.key"),
        }
    }
}

/// Why the store does not open. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process uses the data directory.
    #[error(
        "another process uses the data directory {} and did not leave it within {waited:?}; stop it, or give this one a directory of its own",
        dir.display()
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// There is a database and no token key. A new key would make every token that was given out worthless.
    #[error(
        "there is a database but no token key file {}; restore the file, or say where it is; if it is lost, no token given out so far can be answered, and only a fresh data directory helps",
        path.display()
    )]
    KeyMissing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The token keys are not those of this database.
    #[error(
        "the token key file {} does not belong to this database: its tokens were made with a key number {number} that {fault}; restore the file that belongs to it",
        path.display()
    )]
    KeyMismatch {
        /// The file.
        path: PathBuf,
        /// The number of the key.
        number: u8,
        /// What is the matter with it, to be put behind "that".
        fault: &'static str,
    },
    /// The token key file cannot be understood.
    #[error("the token key file {} cannot be read: {fault}; restore it", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it. Never holds any of its text.
        fault: String,
    },
    /// The file system refuses something.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The database was written by a newer version, or a change of its layout failed.
    #[error(
        "could not bring the database to the layout of this version: {0}; was it written by a newer one?"
    )]
    Migration(#[source] Box<refinery::Error>),
    /// The database does not open.
    #[error(transparent)]
    Database(Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(fault::describe(&error))
    }
}
