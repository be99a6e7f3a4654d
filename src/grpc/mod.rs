//! The gRPC door.
//!
//! May import: `proto`, `domain`, `broker`.

pub mod status;
