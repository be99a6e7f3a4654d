//! Exit codes, and how a failure is told.

use std::process::ExitCode;

use super::output::{self, without_secrets};

/// The wait was failed by the answering side.
pub(super) const FAILED: u8 = 3;
/// The wait expired.
pub(super) const EXPIRED: u8 = 4;
/// The wait was cancelled.
pub(super) const CANCELLED: u8 = 5;
/// The command line is wrong. `EX_USAGE` of sysexits.
pub(super) const USAGE: u8 = 64;
/// The request was refused, by the broker or for what the broker told. `EX_DATAERR`.
pub(super) const REFUSED: u8 = 65;
/// A file that was named cannot be read. `EX_NOINPUT`.
pub(super) const NO_INPUT: u8 = 66;
/// The broker cannot be reached. `EX_UNAVAILABLE`.
pub(super) const UNAVAILABLE: u8 = 69;
/// The command of `--ask` failed. `EX_SOFTWARE`.
pub(super) const ASK_FAILED: u8 = 70;
/// The operating system refused something. `EX_OSERR`.
pub(super) const OS: u8 = 71;
/// The output cannot be written. `EX_IOERR`.
pub(super) const OUTPUT: u8 = 74;
/// The broker and this program do not understand each other. `EX_PROTOCOL`.
pub(super) const PROTOCOL: u8 = 76;

/// What `--help` says of exit codes.
pub(super) const HELP: &str = "\
Exit codes:
  0   done; for `wait`: answered, and the answer is on stdout
  3   `wait`: the answering side failed the wait; the reason is on stderr
  4   `wait`: the wait expired
  5   `wait`: the wait was cancelled; also by Ctrl-C or SIGTERM, where it was opened without --key
      after 3, 4 and 5 of a wait about tool calls: the results to go on with are on stdout
  64  the command line is wrong
  65  refused: no such wait, settled already, not JSON, an answer that does not fit ...
  66  a file that was named cannot be read
  69  the broker cannot be reached
  70  `wait`: the command of --ask failed
  71  the operating system refused something
  74  the output cannot be written
  76  broker and program do not understand each other (different versions?)
  130, 143  interrupted by Ctrl-C or SIGTERM; a wait with a key goes on

Try it, with two terminals:
  abeyance serve
  abeyance wait --name lunch      # prints a token, and waits
  abeyance resolve TOKEN '\"soup\"'

The tool calls of an agent that need somebody's approval, as Pydantic AI writes them:
  abeyance wait --name refund --calls @requests.json
  abeyance show TOKEN             # what is to be approved
  abeyance approve TOKEN call_1   # or deny, or answer";

/// Why a command did not do what it should: the exit code, and what to tell.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    lines: Vec<String>,
}

impl Failure {
    pub(super) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            lines: vec![message.into()],
        }
    }

    /// A wrong command line, in clap's form.
    pub(super) fn usage(message: impl std::fmt::Display) -> Self {
        Self::new(
            USAGE,
            format!("error: {message}\n\nFor more information, try '--help'."),
        )
    }

    pub(super) fn os(what: &str, error: &std::io::Error) -> Self {
        Self::new(OS, format!("error: {what}: {error}"))
    }

    /// Whoever read our output has gone: there is nobody to tell.
    pub(super) fn quiet(code: u8) -> Self {
        Self {
            code,
            lines: Vec::new(),
        }
    }

    /// Adds a line, such as a hint.
    pub(super) fn and(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Whether there is nothing to tell: a reader has seen enough.
    pub(super) fn is_quiet(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn code(&self) -> u8 {
        self.code
    }

    /// Tells it on stderr, where no token may get to, and returns the exit code.
    pub(super) fn report(self) -> ExitCode {
        for line in &self.lines {
            output::note(without_secrets(line));
        }
        self.code.into()
    }
}
