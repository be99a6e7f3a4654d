//! The integration tests: one binary, so that linking happens once.

mod architecture;
mod model;
mod power_loss;
mod races;
mod rules;
mod scale;
mod store_conformance;
mod store_fixture;
mod store_keys;
mod store_sqlite;
mod torture;
