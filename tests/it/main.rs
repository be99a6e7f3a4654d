//! The integration tests: one binary, so that linking happens once.

mod architecture;
mod model;
mod races;
mod rules;
mod store_conformance;
mod store_fixture;
mod store_keys;
mod store_sqlite;
