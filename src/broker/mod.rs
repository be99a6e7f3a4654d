//! Who is waiting here.
mod error;
pub use error::Error;
