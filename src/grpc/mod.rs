//! The gRPC door.
//!
//! May import: `proto`, `domain`, `broker`.

pub mod bare;
pub mod connection_end;
pub mod deadline;
pub mod status;
