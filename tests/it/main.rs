//! The integration tests: one binary, so that linking happens once.

mod architecture;
mod cli_commands;
mod cli_harness;
mod cli_wait;
mod client_ask;
mod client_calls;
mod client_fake;
mod client_streams;
mod model;
mod races;
mod rules;
mod store_conformance;
mod store_fixture;
mod store_keys;
mod store_sqlite;
