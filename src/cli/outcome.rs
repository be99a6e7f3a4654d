//! Telling an outcome: the answer on stdout, anything else by its exit code and on stderr.

use std::io::IsTerminal;

use super::{
    exit::{self, Failure},
    output::{self, clean},
};
use crate::client::{Outcome, Verdict};

/// Prints the answer byte for byte; any other outcome is a failure with an exit code of its own.
pub(super) fn tell(outcome: Outcome) -> Result<(), Failure> {
    let text = describe(&outcome.verdict);
    let code = match outcome.verdict {
        Verdict::Resolved { payload_json } => return answer(&payload_json),
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

fn answer(payload_json: &str) -> Result<(), Failure> {
    if std::io::stdout().is_terminal() {
        output::stdout(for_terminal(payload_json).as_bytes())?;
    } else {
        output::stdout(payload_json.as_bytes())?;
    }
    // Nothing but the answer goes to stdout; on a terminal the prompt still begins on a line of its own.
    if std::io::stdout().is_terminal() && std::io::stderr().is_terminal() {
        output::note("");
    }
    Ok(())
}

/// The same JSON without characters that could rewrite the screen or the order of what is read: JSON may hold them as they are, and as
/// escapes.
fn for_terminal(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
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
