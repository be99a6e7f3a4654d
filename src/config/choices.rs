//! Settings that are one of a few words.

use clap::ValueEnum;

use crate::domain::results::UnknownKeys;

/// The kinds of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// An embedded SQLite database in the data directory.
    Sqlite,
    /// Memory.
    Memory,
}

/// What becomes of keys in answers that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnknownAnswerKeys {
    /// The answer is refused, and the key that was probably meant is named.
    Refuse,
    /// They go to the worker, for a library that is newer than the broker.
    Relay,
}

impl From<UnknownAnswerKeys> for UnknownKeys {
    fn from(keys: UnknownAnswerKeys) -> Self {
        match keys {
            UnknownAnswerKeys::Refuse => Self::Refuse,
            UnknownAnswerKeys::Relay => Self::Relay,
        }
    }
}

/// The forms of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object for each line.
    Json,
}
