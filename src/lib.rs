//! Abeyance holds a *wait* until somebody elsewhere answers it.
#![warn(missing_docs)]

pub mod proto;

#[cfg(feature = "server")]
pub mod broker;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "server")]
pub mod domain;
#[cfg(feature = "server")]
pub mod grpc;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
pub mod telemetry;
