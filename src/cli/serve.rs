//! `serve`: runs the broker.

use clap::Args;

use super::exit::{self, Failure};

/// Run the broker
#[derive(Debug, Args)]
pub(super) struct ServeArgs {}

pub(super) fn run(_args: ServeArgs) -> Result<(), Failure> {
    Err(Failure::new(
        exit::OS,
        "error: the broker is not in this build",
    ))
}
