//! Telling an outcome: the answer, or the results of tool calls, on stdout; anything else by its exit code and on stderr.

use std::io::IsTerminal;

use super::{
    exit::{self, Failure},
    output::{self, clean},
};
use crate::client::{Outcome, Verdict};

/// Prints the answer byte for byte; any other outcome is a failure with an exit code of its own. Tool calls have results however the
/// wait ended, so they are printed in any case.
pub(super) fn tell(outcome: Outcome) -> Result<(), Failure> {
    let text = describe(&outcome.verdict);
    if !matches!(outcome.verdict, Verdict::Resolved { .. })
        && let Some(denials) = outcome.results_json()
    {
        print(denials)?;
    }
    let code = match outcome.verdict {
        Verdict::Resolved { payload_json, .. } => return print(&payload_json),
        Verdict::Failed {
            details_json: Some(details),
            ..
        } => {
            let details = format!("details: {}", clean(&details));
            return Err(Failure::new(exit::FAILED, text).and(details));
        }
        Verdict::Failed { .. } => exit::FAILED,
        Verdict::Expired { .. } => exit::EXPIRED,
        Verdict::Cancelled { .. } => exit::CANCELLED,
    };
    Err(Failure::new(code, text))
}

fn print(json: &str) -> Result<(), Failure> {
    if std::io::stdout().is_terminal() {
        output::stdout(output::for_terminal(json).as_bytes())?;
    } else {
        output::stdout(json.as_bytes())?;
    }
    // Nothing but the answer goes to stdout; on a terminal the prompt still begins on a line of its own.
    if std::io::stdout().is_terminal() && std::io::stderr().is_terminal() {
        output::note("");
    }
    Ok(())
}

/// An outcome that is no answer, in words.
pub(super) fn describe(verdict: &Verdict) -> String {
    let with_reason = |what: &str, reason: &str| match reason {
        "" => what.to_owned(),
        _ => format!("{what}: {}", clean(reason)),
    };
    match verdict {
        Verdict::Resolved { .. } => "resolved".to_owned(),
        Verdict::Failed {
            reason,
            error_type: Some(error_type),
            ..
        } => with_reason(&format!("failed ({})", clean(error_type)), reason),
        Verdict::Failed { reason, .. } => with_reason("failed", reason),
        Verdict::Expired { reason, .. } => with_reason("expired", reason),
        Verdict::Cancelled { reason } => with_reason("cancelled", reason),
    }
}
