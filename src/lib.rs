//! Abeyance holds a *wait* until somebody elsewhere answers it.
//!
//! A worker opens a wait over gRPC and gets a token; whoever holds the token answers with JSON; the worker's stream delivers the
//! outcome. The wait outlives the connection, the worker and the broker's own process. `README.md` tells how to use it; this page is the
//! map of the code.
//!
//! # The rooms
//!
//! | room | what lives there | may import |
//! | --- | --- | --- |
//! | `proto` | the generated contract | nothing of ours |
//! | `domain` | the rules: pure, no clock, no I/O, no async | nothing of ours |
//! | `store` | memory of record: SQLite, memory | `domain` |
//! | `broker` | who is waiting here | `store`, `domain` |
//! | `grpc` | the gRPC door | `proto`, `domain`, `broker` |
//! | `config` | checked settings, made of each room's options | the rooms' options |
//! | `server` | assembly, connections, the order of stopping | `config` and every room |
//! | `telemetry` | logs, and what anything in them is called | nothing of ours |
//! | `client` | the typed client | `proto` |
//! | `cli` | the command line | `client`, `config`, `server` |
//!
//! Never upward; `tests/it/architecture.rs` holds the code to it. All but `domain` may use `telemetry`.
//!
//! # One obvious place for each rule
//!
//! Who wins: [`domain::transition`]. When it is too late: [`domain::deadline`].
//! What a caller may send: [`domain::limits`]. What can be asked: [`domain::question`]. What answers tool calls, and how workers get it:
//! [`domain::results`]. What fits a form: [`domain::schema`]. What is atomic and durable: [`store::Store`].
//! Who gets woken: `broker/registry.rs`. What a stream says and when: `grpc/stream.rs`. Which code and reason:
//! [`grpc::status`]. In which order we stop: `server/shutdown.rs`.
//!
//! # What always holds
//!
//! - The first settle that commits wins, and the outcome never changes. There is one way to settle, whoever asks for it.
//! - What was acknowledged is durable, and it is what every worker gets.
//! - The store is the truth. Memory holds only who is attached.
//! - A stream takes its place in the registry before it reads the row, so no wake-up is lost.
//! - A commit wakes whoever waits from the store's own thread, so a caller's disconnect cannot come between.
//! - A bad answer never settles a wait.
//!
//! # Features
//!
//! `server` (default): everything. `client`: the client alone, without SQLite, the command line and the server.
#![cfg_attr(not(feature = "server"), allow(rustdoc::broken_intra_doc_links))]
#![warn(missing_docs)]

#[cfg(feature = "server")]
pub mod broker;
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "server")]
pub mod domain;
#[cfg(feature = "server")]
pub mod grpc;
pub mod proto;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
pub mod telemetry;
