//! Waits and outcomes, as programs read them: one JSON object each.
//!
//! JSON that others wrote stays text in a field whose name ends in `_json`, so that it is theirs byte for byte.

use std::collections::BTreeMap;

use serde::Serialize;

use super::time::rfc3339;
use crate::client::{ExpiryCause, OpenedWait, Outcome, Verdict, WaitInfo};

/// What `open --json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Opened<'a> {
    token: &'a str,
    wait_id: &'a str,
    expire_time: String,
    timeout_seconds: f64,
    timeout_source: &'static str,
    /// Whether it was opened before.
    resumed: bool,
    /// Whether its token had been handed on before.
    asked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Ended<'a>>,
}

impl<'a> Opened<'a> {
    pub(super) fn new(wait: &'a OpenedWait) -> Self {
        let opened = &wait.opened;
        Self {
            token: opened.token.expose(),
            wait_id: &opened.wait_id,
            expire_time: rfc3339(opened.expire_time),
            timeout_seconds: opened.timeout.as_secs_f64(),
            timeout_source: opened.timeout_source.name(),
            resumed: opened.resumed,
            asked: opened.asked,
            outcome: wait.outcome.as_ref().map(Ended::new),
        }
    }
}

/// An outcome: only what belongs to its state is there.
#[derive(Debug, Serialize)]
pub(super) struct Ended<'a> {
    state: &'static str,
    settle_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_json: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details_json: Option<&'a str>,
}

impl<'a> Ended<'a> {
    pub(super) fn new(outcome: &'a Outcome) -> Self {
        let mut ended = Self {
            state: outcome.state().name(),
            settle_time: rfc3339(outcome.settle_time),
            payload_json: None,
            cause: None,
            reason: None,
            error_type: None,
            details_json: None,
        };
        match &outcome.verdict {
            Verdict::Resolved { payload_json, .. } => ended.payload_json = Some(payload_json),
            Verdict::Failed {
                reason,
                error_type,
                details_json,
            } => {
                ended.reason = Some(reason);
                ended.error_type = error_type.as_deref();
                ended.details_json = details_json.as_deref();
            }
            Verdict::Expired { cause, reason } => {
                ended.reason = Some(reason);
                ended.cause = Some(cause_name(*cause));
            }
            Verdict::Cancelled { reason } => ended.reason = Some(reason),
        }
        ended
    }
}

pub(super) fn cause_name(cause: ExpiryCause) -> &'static str {
    match cause {
        ExpiryCause::Timeout => "timeout",
        ExpiryCause::Heartbeat => "heartbeat",
        _ => "other",
    }
}

/// A wait: what is not there is left out.
#[derive(Debug, Serialize)]
pub(super) struct Wait<'a> {
    wait_id: &'a str,
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    labels: &'a BTreeMap<String, String>,
    state: &'static str,
    create_time: String,
    expire_time: String,
    timeout_seconds: f64,
    timeout_source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ask_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_timeout_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_expire_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settle_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question_json: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Ended<'a>>,
}

impl<'a> Wait<'a> {
    pub(super) fn new(wait: &'a WaitInfo) -> Self {
        Self {
            wait_id: &wait.wait_id,
            namespace: &wait.namespace,
            name: &wait.name,
            key: wait.key.as_deref(),
            labels: &wait.labels,
            state: wait.state.name(),
            create_time: rfc3339(wait.create_time),
            expire_time: rfc3339(wait.expire_time),
            timeout_seconds: wait.timeout.as_secs_f64(),
            timeout_source: wait.timeout_source.name(),
            ask_time: wait.ask_time.map(rfc3339),
            heartbeat_timeout_seconds: wait.heartbeat_timeout.map(|t| t.as_secs_f64()),
            heartbeat_expire_time: wait.heartbeat_expire_time.map(rfc3339),
            settle_time: wait.settle_time.map(rfc3339),
            question_json: wait.question_json(),
            outcome: wait.outcome.as_ref().map(Ended::new),
        }
    }
}
