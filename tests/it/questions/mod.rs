//! Questions that the broker understands, and what answers them.

pub mod ask;
mod vectors;
