//! `serve`: runs the broker.

use super::exit::{self, Failure};
use crate::config::ServeArgs;

pub(super) fn run(_args: ServeArgs) -> Result<(), Failure> {
    Err(Failure::new(
        exit::OS,
        "error: the broker is not in this build",
    ))
}
