//! The integration tests: one binary, so that linking happens once.

mod architecture;
mod cases;
mod client_ask;
mod client_calls;
mod client_fake;
mod client_streams;
mod errors;
mod harness;
mod model;
mod power_loss;
mod races;
mod rules;
mod scale;
mod server_connections;
mod server_deadlines;
mod server_drain;
mod server_frames;
mod server_harness;
mod store_conformance;
mod store_fixture;
mod store_keys;
mod store_sqlite;
mod streams;
mod torture;
