//! Questions that the broker understands, and what answers them.

pub mod ask;
mod opening;
mod sizes;
mod values;
mod vectors;
