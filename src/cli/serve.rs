//! `serve`: runs the broker.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{
    exit::{self, Failure},
    output,
};
use crate::{
    config::{Config, Store, flags},
    server::{Error, Server, Signals},
    telemetry,
};

/// Run the broker
///
/// Prints the address it listens on and the directory of its data once it serves, and then only logs, to stderr. SIGTERM and Ctrl-C
/// stop it in order: streams are told to attach again, calls in flight finish.
#[derive(Debug, Args)]
// Its group would have the name of that of the flags within.
#[group(skip)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    flags: flags::ServeArgs,
}

pub(super) fn run(args: ServeArgs) -> Result<(), Failure> {
    let flags = args.flags;
    let config = (flags.config(&flags::ProcessEnvironment)).map_err(|e| Failure::usage(&e))?;
    telemetry::init(&flags.telemetry())
        .map_err(|e| Failure::new(exit::OS, format!("error: {e}")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(flags.worker_threads.count())
        .enable_all()
        .build()
        .map_err(|e| Failure::os("cannot start", &e))?;
    runtime.block_on(serve(config)).map_err(|error| {
        let code = match &error {
            Error::Config(_) => exit::USAGE,
            _ => exit::OS,
        };
        Failure::new(code, format!("error: {error}"))
    })
}

async fn serve(config: Config) -> Result<(), Error> {
    let data = match &config.store {
        Store::Memory => "in memory: nothing is kept beyond this process".to_owned(),
        Store::Sqlite(options) => format!("in {}", absolute(&options.dir).display()),
    };
    let server = Server::bind(config).await?;
    let signals = Signals::new()?;
    // Nobody may be reading, and the broker serves all the same.
    let _ = output::line(&format!("listening on {}", server.local_addr()));
    let _ = output::line(&format!("data {data}"));
    server.run_until_signal(signals).await
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
