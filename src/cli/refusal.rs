//! What the broker refused, in the words of the command line: flags instead of fields, commands instead of calls.

use std::borrow::Cow;

use tonic::Code;

use super::{
    exit::{self, Failure},
    output::clean,
};
use crate::client::{Error, Violation};

/// The fields of requests that the command line fills, and the flags that fill them. A field stands before those that it begins.
const FLAGS: [(&str, &str); 27] = [
    ("spec.question.deferred_json.requests_json", "--calls"),
    ("spec.question.form.response_schema_json", "--form"),
    ("spec.question.form.payload_json", "--payload"),
    ("spec.question.form.message", "--message"),
    ("spec.question.form", "--form"),
    ("spec.question.free_json", "--question"),
    ("spec.question", "what is asked"),
    ("spec.name", "--name"),
    ("spec.key", "--key"),
    ("spec.namespace", "--namespace"),
    ("spec.timeout", "--timeout"),
    ("spec.heartbeat_timeout", "--heartbeat-timeout"),
    ("spec.labels", "--label"),
    ("filter.namespace", "--namespace"),
    ("filter.name", "--name"),
    ("filter.labels", "--label"),
    ("filter.min_age", "--older-than"),
    ("filter.max_age", "--newer-than"),
    ("key.namespace", "--namespace"),
    ("key.key", "--key"),
    ("details_json", "--details"),
    ("error_type", "--type"),
    ("answered_by", "--by"),
    ("partial", "--partial"),
    (ANSWER, "the answer"),
    ("reason", "the reason"),
    ("token", "the token"),
];

/// The field of an answer.
const ANSWER: &str = "payload_json";

/// Tells an error of a call. `show` is the command that shows the wait, as far as it is known.
pub(super) fn failure(server: &str, error: Error, show: &str) -> Failure {
    if let Error::Unavailable(refusal) = &error {
        let line = format!(
            "error: the broker at {server} cannot be reached: {}",
            clean(&refusal.message)
        );
        let failure = Failure::new(exit::UNAVAILABLE, line);
        if refusal.reason.is_some() {
            // It was reached, and says itself why it cannot serve.
            return failure;
        }
        return failure.and(
            "hint: is it running? `abeyance serve` starts one; --server or ABEYANCE_SERVER names another",
        );
    }
    let code = match &error {
        Error::InvalidUrl { .. } => exit::USAGE,
        Error::Refused(refusal) if refusal.code != Code::Unimplemented => exit::REFUSED,
        _ => exit::PROTOCOL,
    };
    let for_people = |text: &str| clean(&with_commands(text, show)).into_owned();
    let reason = error.reason().unwrap_or("INVALID");
    let fault = |violation: &Violation| {
        let description = for_people(&violation.description);
        match place(&violation.field, reason) {
            place if place.is_empty() => description,
            place => format!("{}: {description}", clean(&place)),
        }
    };
    let headline = match (reason, error.violations()) {
        ("INVALID_ANSWER", [_, ..]) => {
            "the answer does not fit what is asked, and nothing was recorded"
        }
        // What is wrong with a request is told line by line, or at once where it is one thing.
        (_, [only]) => {
            return Failure::new(code, format!("error: {} ({reason})", fault(only)));
        }
        (_, [_, ..]) => "the request is refused for these faults",
        (_, []) => {
            return Failure::new(code, format!("error: {}", for_people(&error.to_string())));
        }
    };
    let failure = Failure::new(code, format!("error: {headline} ({reason})"));
    let faults = error.violations().iter();
    faults.fold(failure, |failure, violation| {
        failure.and(format!("  {}", fault(violation)))
    })
}

/// The broker points to its calls by their names, which are not those of the commands.
fn with_commands(text: &str, show: &str) -> String {
    text.replace("DescribeWait", &format!("`{show}`"))
}

/// Where a fault is, as whoever typed the command knows the place: `--calls: approvals[0].tool_name`.
pub(super) fn place<'a>(field: &'a str, reason: &str) -> Cow<'a, str> {
    // Faults of an answer have places within it, which may be called anything.
    if reason == "INVALID_ANSWER" && field != ANSWER {
        return field.into();
    }
    let found = FLAGS.iter().find_map(|(name, flag)| {
        let rest = field.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with(['.', '[', '/'])).then_some((flag, rest))
    });
    match found {
        None => field.into(),
        Some((flag, "")) => (*flag).into(),
        Some((flag, rest)) => format!("{flag}: {}", rest.trim_start_matches('.')).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_by_their_flags() {
        let field = "spec.question.deferred_json.requests_json.approvals[0].tool_name";
        for (field, told) in [
            (field, "--calls: approvals[0].tool_name"),
            ("spec.question.deferred_json.requests_json", "--calls"),
            (
                "spec.question.form.response_schema_json/type",
                "--form: /type",
            ),
            ("spec.question.form.payload_json", "--payload"),
            ("spec.question.free_json", "--question"),
            ("spec.labels[\"a\"]", "--label: [\"a\"]"),
            ("spec.namespace", "--namespace"),
            ("payload_json", "the answer"),
            ("reasonable", "reasonable"),
            ("", ""),
        ] {
            assert_eq!(place(field, "INVALID_FIELD"), told);
        }
    }

    #[test]
    fn places_within_an_answer_stay_as_they_are() {
        for field in ["reason", "answered_by[\"call_1\"]", "token", "payload_jso"] {
            assert_eq!(place(field, "INVALID_ANSWER"), field);
        }
        assert_eq!(place("payload_json", "INVALID_ANSWER"), "the answer");
    }

    #[test]
    fn calls_are_told_as_commands() {
        assert_eq!(
            with_commands("stays, DescribeWait shows it", "abeyance show TOKEN"),
            "stays, `abeyance show TOKEN` shows it"
        );
    }
}
