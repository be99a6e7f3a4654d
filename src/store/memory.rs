//! The reference store.
