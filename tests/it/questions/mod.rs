//! Questions that the broker understands, and what answers them.

mod ask;
mod vectors;
