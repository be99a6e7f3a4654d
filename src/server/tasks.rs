//! The background tasks: named, joined, and none of them goes unnoticed.

use std::{collections::HashMap, future::Future};

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Error, TaskError};
use crate::telemetry::names;

/// The background tasks of a server. Dropping it aborts them.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    set: JoinSet<Result<(), TaskError>>,
    names: HashMap<Id, &'static str>,
    stop: CancellationToken,
}

impl Tasks {
    /// Spawns a task, which has to end once the token that it gets is cancelled, and not before.
    pub(super) fn spawn<F>(&mut self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        let handle = self.set.spawn(task(self.stop.clone()));
        self.names.insert(handle.id(), name);
    }

    /// Waits until a task ends that should not have.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn failed(&mut self) -> Error {
        match self.set.join_next_with_id().await {
            Some(ended) => {
                let (name, why) = self.told(ended);
                Error::Task {
                    name,
                    why: why.unwrap_or_else(|| "it ended by itself".to_owned()),
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Stops all tasks and waits for them. Those that fail now are logged.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.set.join_next_with_id().await {
            if let (task, Some(why)) = self.told(ended) {
                tracing::error!(
                    { names::TASK } = task,
                    { names::ERROR } = why,
                    "task failed while stopping"
                );
            }
        }
    }

    /// Which task ended, and why if it failed.
    fn told(
        &self,
        ended: Result<(Id, Result<(), TaskError>), JoinError>,
    ) -> (&'static str, Option<String>) {
        let (id, why) = match ended {
            Ok((id, result)) => (id, result.err().map(|e| e.to_string())),
            Err(error) => (error.id(), Some(error.to_string())),
        };
        (self.names.get(&id).copied().unwrap_or("unnamed"), why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn until(stop: CancellationToken) -> Result<(), TaskError> {
        stop.cancelled().await;
        Ok(())
    }

    async fn failure(task: impl Future<Output = Result<(), TaskError>> + Send + 'static) -> String {
        let mut tasks = Tasks::default();
        tasks.spawn("steady", until);
        tasks.spawn("other", |_| task);
        let error = tasks.failed().await.to_string();
        tasks.stop().await;
        error
    }

    #[tokio::test]
    async fn an_error_a_panic_and_an_early_end_are_told_with_the_name() {
        let error = failure(async { Err("no disk".into()) }).await;
        assert_eq!(error, "the background task other failed: no disk");
        let error = failure(async { Ok(()) }).await;
        assert_eq!(
            error,
            "the background task other failed: it ended by itself"
        );
        let error = failure(async { panic!("by a test") }).await;
        assert!(
            error.contains("other") && error.contains("panicked"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn tasks_end_when_they_are_told() {
        let mut tasks = Tasks::default();
        tasks.spawn("steady", until);
        tasks.stop().await;
    }
}
