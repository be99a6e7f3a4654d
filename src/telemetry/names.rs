//! What everything is called in logs: one name for one thing, in every room.
//!
//! Used as `tracing::info!({ names::PEER } = %address, "…")`. Never among the values: a token or any part of one, a payload.

/// The address of the other end of a connection.
pub const PEER: &str = "peer";

/// The public name of a wait. The only name that a wait has in logs.
pub const WAIT_ID: &str = "wait_id";

/// The name of a background task.
pub const TASK: &str = "task";

/// Why something failed.
pub const ERROR: &str = "error";
