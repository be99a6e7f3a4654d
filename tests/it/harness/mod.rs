//! What the integration tests stand on: brokers to start, clients to call them with, and a network that misbehaves on demand.
//!
//! - [`TestServer`]: a broker in this process, on a free port, over either store.
//! - [`RealBroker`]: the binary, on a directory, to be killed, stopped and started again on the same port.
//! - [`Calls`]: the generated client with short names; [`raw`]: a client that writes HTTP/2 by hand.
//! - [`TcpProxy`]: knows of bytes alone. [`H2Proxy`]: knows of streams, as a mesh's sidecar does.
//! - [`Rig`]: makes a store slow, hold back, or fail.
//!
//! No test here sleeps and hopes: it waits for what must happen, within [`PATIENCE`], and for as long as it has to where
//! something must *not* happen.
// Not every helper has a user in every test.
#![allow(dead_code, unused_imports)]

mod calls;
mod h2_proxy;
pub mod raw;
mod real;
mod rig;
mod server;
mod tcp_proxy;

use std::{future::Future, time::Duration};

pub use calls::{Attached, Calls, code_and_reason, details_reason, payload, spec, spec_with_key};
pub use h2_proxy::{H2Proxy, Policy, Resend, Trailers};
pub use real::RealBroker;
pub use rig::{Rig, Rigged};
pub use server::{Kind, TestServer, memory_store, sqlite_store};
pub use tcp_proxy::{Mode, TcpProxy};

/// How long anything may take that must happen. Far more than it needs, so that a busy machine fails no test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A length of time in milliseconds.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits for what must happen.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("did not happen within {PATIENCE:?}: {what}"),
    }
}

/// Waits until something holds.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    soon(what, async {
        while !holds().await {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
}

/// How many rounds the races are run: `ABEYANCE_TEST_RACE_ROUNDS`, 1000 where it is not set.
pub fn race_rounds() -> usize {
    std::env::var("ABEYANCE_TEST_RACE_ROUNDS").map_or(1000, |rounds| {
        rounds
            .parse()
            .expect("ABEYANCE_TEST_RACE_ROUNDS is a number")
    })
}
