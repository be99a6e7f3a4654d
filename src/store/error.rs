//! How stores fail.

/// A store's failure. Nothing is known of what was asked for: it may be written or not, and repeating it is safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot take this now: the disk is full, a lock is held, it is shutting down. Worth a retry.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// More is queued than the store takes. Worth a retry with backoff.
    #[error("the store has more queued than it takes")]
    Overloaded,
    /// What is stored is not what was written. Not worth a retry; an operator must look.
    #[error("the store holds something it should not: {0}")]
    Corrupt(String),
}
