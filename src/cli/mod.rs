//! The command line: one binary for the broker and for everybody who talks to it.
//!
//! May import: `client`, and `config`, `server` and `telemetry` for `serve` alone. Knows nothing of the broker's rules.
//!
//! Invariants
//! - What a program may read goes to stdout and nothing else does; everything for people goes to stderr.
//! - A token is shown where the command's purpose is to show it (`open`, `wait` without `--ask`) and nowhere else.
//! - Every exit code means one thing; `exit` lists them.

mod args;
mod ask;
mod asked;
mod decide;
mod exit;
mod input;
mod json;
mod list;
mod live;
mod open;
mod outcome;
mod output;
mod progress;
mod record;
mod refusal;
mod serve;
mod settle;
mod show;
mod time;
mod undecided;
mod wait;
mod watch;
mod way;

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand, error::ErrorKind};

use exit::Failure;

/// Holds a wait until somebody answers it.
#[derive(Debug, Parser)]
#[command(
    name = "abeyance",
    version,
    about = "Holds a wait until somebody answers it",
    long_about = "Holds a wait until somebody answers it.\n\nA worker opens a wait and gets a token. Whoever gets the token \
                  handed can answer, from anywhere and at any time; the worker gets the answer, through disconnects and \
                  restarts.\n\nA wait may ask for anything in JSON, for a form to be filled in, or for the tool calls of an \
                  AI agent to be approved, each by whoever may.",
    after_help = "Try it, with two terminals:\n  abeyance serve\n  abeyance wait --name lunch      # prints a token, and waits\n  \
                  abeyance resolve TOKEN '\"soup\"'\n\nApprovals: abeyance wait --name refund --calls @requests.json; then show, \
                  approve, deny or answer",
    after_long_help = exit::HELP,
    max_term_width = 100,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Open(open::OpenArgs),
    Wait(wait::WaitArgs),
    Approve(decide::ApproveArgs),
    Deny(decide::DenyArgs),
    Answer(decide::AnswerArgs),
    Resolve(settle::ResolveArgs),
    Fail(settle::FailArgs),
    Heartbeat(settle::HeartbeatArgs),
    Cancel(settle::CancelArgs),
    Show(show::ShowArgs),
    List(list::ListArgs),
    Watch(watch::WatchArgs),
}

/// Parses the command line `args` (the first is the program's name), carries it out, and returns the exit code.
///
/// Takes over the process: it reads `ABEYANCE_…` from the environment, reads stdin where told to, writes to stdout and stderr,
/// and handles SIGINT and SIGTERM while it waits.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let result = match Cli::try_parse_from(args) {
        Ok(cli) => run(cli.command),
        Err(error) => {
            tell(&error);
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => exit::USAGE.into(),
            };
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Tells what clap has to say: help on stdout, a wrong command line on stderr. A token that stands where none belongs is not
/// repeated: stderr often ends in a log.
fn tell(error: &clap::Error) {
    let text = error.to_string();
    let shown = output::without_tokens(&text);
    if error.use_stderr() && shown != text {
        output::note(shown.trim_end());
    } else {
        // A reader that has gone is no reason to complain.
        let _ = error.print();
    }
}

fn run(command: Command) -> Result<(), Failure> {
    if let Command::Serve(args) = command {
        return serve::run(args);
    }
    // One command makes a handful of calls: one thread is enough, and starts fastest.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::os("cannot start", &e))?;
    let result = runtime.block_on(async {
        match command {
            Command::Serve(_) => Ok(()),
            Command::Open(args) => open::run(args).await,
            Command::Wait(args) => wait::run(args).await,
            Command::Approve(args) => decide::approve(args).await,
            Command::Deny(args) => decide::deny(args).await,
            Command::Answer(args) => decide::answer(args).await,
            Command::Resolve(args) => settle::resolve(args).await,
            Command::Fail(args) => settle::fail(args).await,
            Command::Heartbeat(args) => settle::heartbeat(args).await,
            Command::Cancel(args) => settle::cancel(args).await,
            Command::Show(args) => show::run(args).await,
            Command::List(args) => list::run(args).await,
            Command::Watch(args) => watch::run(args).await,
        }
    });
    // A read of stdin cannot be interrupted, and must not keep the process.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_fit_together() {
        Cli::command().debug_assert();
    }
}
