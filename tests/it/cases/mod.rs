//! Situations that broke other systems of this kind, each a test by its id (`c15_…`), and what the contract says beside them.
//!
//! All of it goes over gRPC, on a connection in memory, to a broker over a store and a clock of the test's choosing ([`stage`]). Where
//! timers matter the runtime's time is paused, and where only the wall clock does a clock stands still until it is told otherwise.
//! No test waits for real time to pass.

pub mod say;
pub mod stage;
pub mod stores;

mod answers;
mod asking;
mod deadlines;
mod expiry;
mod heartbeats;
mod inbox;
mod json;
mod limits;
mod lists;
mod logs;
mod opening;
mod questions;
mod races;
pub mod secrets;
mod tombstones;
mod watches;
