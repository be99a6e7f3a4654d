//! Abeyance holds a *wait* until somebody elsewhere answers it.
#![warn(missing_docs)]

#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
pub mod proto;

#[cfg(feature = "server")]
pub mod domain;
#[cfg(feature = "server")]
pub mod store;
