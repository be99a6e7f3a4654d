//! What a server is made of.

use std::{fmt, future::Future, pin::Pin};

use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

/// What a background task that failed says of it.
pub type TaskError = Box<dyn std::error::Error + Send + Sync>;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A background task. It has to end once the token that it gets is cancelled, and not before.
pub type Task = Box<dyn FnOnce(CancellationToken) -> BoxFuture<Result<(), TaskError>> + Send>;

/// Closes something.
pub type Close = Box<dyn FnOnce() -> BoxFuture<()> + Send>;

/// What a server serves, and what it does besides. The broker makes one; tests of the connection loop make their own.
pub struct Parts {
    /// The services, without health and reflection.
    pub routes: Routes,
    /// The background tasks by their names.
    pub tasks: Vec<(&'static str, Task)>,
    /// Tells the streams to end. Called once, when a stop begins. Must not block.
    pub begin_drain: Box<dyn FnOnce() + Send>,
    /// Closes the store. Called once, after everything else has ended.
    pub close: Close,
}

impl Parts {
    /// Services with nothing behind them.
    pub fn of(routes: Routes) -> Self {
        Self {
            routes,
            tasks: Vec::new(),
            begin_drain: Box::new(|| ()),
            close: Box::new(|| Box::pin(async {})),
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks: Vec<_> = self.tasks.iter().map(|(name, _)| name).collect();
        f.debug_struct("Parts")
            .field("tasks", &tasks)
            .finish_non_exhaustive()
    }
}
