//! Many waits.
