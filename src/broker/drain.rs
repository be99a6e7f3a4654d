//! The sign that the broker stops.

use tokio_util::sync::CancellationToken;

/// Tells everybody that the broker lets go of its streams. Cheap to clone; once begun it stays so.
#[derive(Clone, Debug, Default)]
pub struct Drain(CancellationToken);

impl Drain {
    pub(super) fn begin(&self) {
        self.0.cancel();
    }

    /// Whether the drain has begun.
    pub fn begun(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the drain begins.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn wait(&self) {
        self.0.cancelled().await;
    }
}
