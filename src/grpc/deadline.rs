//! stub
use std::time::Duration;
/// d
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// t
    pub timeout: Duration,
    /// at
    pub at: tokio::time::Instant,
}
