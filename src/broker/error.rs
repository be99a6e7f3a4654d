//! How the broker fails.

use crate::{domain::Refusal, store};

/// Why the broker did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules refuse. The caller's to mend.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store cannot take this now. Nothing is known of what was asked for; repeating it is safe.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// More is queued than the store takes. Repeat with backoff.
    #[error("more is queued than the broker takes; repeat with backoff")]
    Overloaded,
    /// A fault of the broker or of what it keeps. An operator must look.
    #[error("{0}")]
    Internal(String),
    /// The broker is shutting down.
    #[error("the broker is shutting down")]
    ShuttingDown,
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Unavailable(why) => Self::Unavailable(why),
            store::Error::Overloaded => Self::Overloaded,
            store::Error::Corrupt(_) => {
                tracing::error!(%error, "the store is damaged");
                Self::Internal("the broker's store is damaged; see its log".to_owned())
            }
        }
    }
}
