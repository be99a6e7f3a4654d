//! The background tasks: named, joined, and none of them goes unnoticed.

use std::{collections::HashMap, future::Future};

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Error;
use crate::telemetry::names;

/// The background tasks of a server. Dropping it aborts them.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    set: JoinSet<()>,
    names: HashMap<Id, &'static str>,
    stop: CancellationToken,
}

impl Tasks {
    /// Spawns a task that runs until the server stops. It is dropped then, wherever it is.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        let handle = self.set.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
        self.names.insert(handle.id(), name);
    }

    /// Waits until a task ends that should not have.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn failed(&mut self) -> Error {
        match self.set.join_next_with_id().await {
            Some(ended) => {
                let (name, panic) = self.told(ended);
                Error::Task {
                    name,
                    why: panic.unwrap_or_else(|| "it ended by itself".to_owned()),
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Stops all tasks and waits for them.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.set.join_next_with_id().await {
            if let (task, Some(panic)) = self.told(ended) {
                tracing::error!(
                    { names::TASK } = task,
                    { names::ERROR } = panic,
                    "task failed"
                );
            }
        }
    }

    /// Which task ended, and how it panicked if it did.
    fn told(&self, ended: Result<(Id, ()), JoinError>) -> (&'static str, Option<String>) {
        let (id, panic) = match ended {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error.to_string())),
        };
        (self.names.get(&id).copied().unwrap_or("unnamed"), panic)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    async fn failure(task: impl Future<Output = ()> + Send + 'static) -> String {
        let mut tasks = Tasks::default();
        tasks.spawn("steady", pending());
        tasks.spawn("other", task);
        let error = tasks.failed().await.to_string();
        tasks.stop().await;
        error
    }

    #[tokio::test]
    async fn a_panic_and_an_early_end_are_told_with_the_name() {
        let error = failure(async {}).await;
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
        tasks.spawn("steady", pending());
        tasks.stop().await;
    }
}
