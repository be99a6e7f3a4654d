//! The task that deletes what was kept long enough.

use std::{sync::Arc, time::Duration};

use crate::store::{self, Purged, Store};

/// How many rows go in one transaction: few enough not to delay an answer.
const PAGE: usize = 200;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(60);

/// Between two pages of one look, so that deleting never takes the store for itself.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Retention {
    pub(super) store: Arc<dyn Store>,
    pub(super) retention: Duration,
    pub(super) tombstones: Duration,
}

impl Retention {
    /// Runs until it is dropped.
    pub(super) async fn run(self) {
        loop {
            match self.page().await {
                Ok(purged) if purged.waits == PAGE || purged.tombstones == PAGE => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "could not purge settled waits, trying again"),
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn page(&self) -> Result<Purged, store::Error> {
        self.store
            .purge(self.retention, self.tombstones, PAGE)
            .await
    }
}
