//! All integration tests, in one binary.

mod model;
mod races;
mod rules;
mod store_conformance;
mod store_fixture;
mod store_keys;
mod store_sqlite;
