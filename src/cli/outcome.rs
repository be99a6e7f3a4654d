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
        Verdict::Resolved { payload_json, .. } => return answer(&payload_json),
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

/// The same JSON with what could rewrite the screen as escapes. White space between its tokens stays.
fn for_terminal(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if output::is_unsafe(c) && !c.is_ascii_whitespace() {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_the_same_value_and_no_control() {
        let json = "{\n  \"a\": \"\u{9b}31m\u{7f}\u{202e}\u{2028}é\"\n}";
        let safe = for_terminal(json);
        assert_eq!(safe, "{\n  \"a\": \"\\u009b31m\\u007f\\u202e\\u2028é\"\n}");
        let value = |text| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(json), value(&safe));
    }
}
