//! Waits and outcomes, as programs read them: one JSON object each.
//!
//! JSON that others wrote stays text in a field whose name ends in `_json`, so that it is theirs byte for byte.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{progress, time::rfc3339};
use crate::client::{
    self, Approval, CallResult, Decided, DeferredToolRequests, DeferredToolResults, ExpiryCause,
    OpenedWait, Outcome, Question, Verdict, WaitInfo,
};

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
    answered_by: Option<&'a str>,
    /// Of tool calls, however it ended: the same as `payload_json` where that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    results_json: Option<&'a str>,
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
            answered_by: None,
            results_json: outcome.results_json(),
            cause: None,
            reason: None,
            error_type: None,
            details_json: None,
        };
        match &outcome.verdict {
            Verdict::Resolved {
                payload_json,
                answered_by,
            } => {
                ended.payload_json = Some(payload_json);
                ended.answered_by = answered_by.as_deref();
            }
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
    deferred: Option<Deferred<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<Form<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Ended<'a>>,
}

impl<'a> Wait<'a> {
    /// A wait in a list or a watch: neither question nor outcome, and of progress the two numbers alone.
    pub(super) fn listed(wait: &'a WaitInfo) -> Self {
        Self {
            question_json: None,
            deferred: None,
            form: None,
            progress: wait.decided.as_ref().map(Progress::counts),
            outcome: None,
            ..Self::new(wait)
        }
    }

    pub(super) fn new(wait: &'a WaitInfo) -> Self {
        let requests = match &wait.question {
            Some(Question::Deferred(requests)) => Some(requests),
            _ => None,
        };
        let form = match &wait.question {
            Some(Question::Form(form)) => Some(form),
            _ => None,
        };
        let results = match &wait.outcome {
            Some(outcome) => outcome.results.as_ref(),
            None => wait.decisions.as_ref(),
        };
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
            deferred: requests.map(Deferred::new),
            form: form.map(Form::new),
            progress: (wait.decided.as_ref())
                .map(|decided| Progress::new(decided, requests, results)),
            outcome: wait.outcome.as_ref().map(Ended::new),
        }
    }
}

/// The tool calls that a wait asks about.
#[derive(Debug, Serialize)]
struct Deferred<'a> {
    calls: Vec<Call<'a>>,
    may_leave_pending: bool,
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    tool_call_id: &'a str,
    tool_name: &'a str,
    /// `approval`, `external` or `question`.
    kind: &'static str,
    args_json: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_json: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
}

impl<'a> Deferred<'a> {
    fn new(requests: &'a DeferredToolRequests) -> Self {
        let calls = requests.calls.iter().map(|call| Call {
            tool_call_id: &call.tool_call_id,
            tool_name: &call.tool_name,
            kind: call.kind.name(),
            args_json: &call.args_json,
            metadata_json: call.metadata_json.as_deref(),
            description: &call.description,
        });
        Self {
            calls: calls.collect(),
            may_leave_pending: requests.may_leave_pending,
        }
    }
}

/// The form that a wait asks to fill in.
#[derive(Debug, Serialize)]
struct Form<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_json: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_schema_json: Option<&'a str>,
}

impl<'a> Form<'a> {
    fn new(form: &'a client::Form) -> Self {
        Self {
            message: &form.message,
            payload_json: form.payload_json.as_deref(),
            response_schema_json: form.response_schema_json.as_deref(),
        }
    }
}

/// Which tool calls are decided so far.
#[derive(Debug, Serialize)]
pub(super) struct Progress<'a> {
    decided_calls: u32,
    pending_calls: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<Vec<CallDecision<'a>>>,
    /// The ids of those that are not, where it is known what was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<Vec<&'a str>>,
}

#[derive(Debug, Serialize)]
struct CallDecision<'a> {
    tool_call_id: &'a str,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<&'a str>,
    decide_time: String,
    #[serde(flatten)]
    sent: Sent<'a>,
}

/// What came with a decision.
#[derive(Debug, Default, Serialize)]
struct Sent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    override_args_json: Option<&'a str>,
    /// What the model is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_value_json: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_json: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_metadata_json: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tools: &'a [String],
    /// What the tool is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_json: Option<&'a str>,
}

impl<'a> Sent<'a> {
    fn of(id: &str, results: &'a DeferredToolResults) -> Self {
        let mut sent = Self {
            metadata_json: results.metadata_json.get(id).map(String::as_str),
            ..Self::default()
        };
        match results.approvals.get(id) {
            Some(Approval::Approved { override_args_json }) => {
                sent.override_args_json = override_args_json.as_deref();
            }
            Some(Approval::Denied { message }) => sent.message = message.as_deref(),
            _ => {}
        }
        match results.calls.get(id) {
            Some(CallResult::Value(json)) => sent.return_value_json = Some(json),
            Some(CallResult::Return(value)) => {
                sent.return_value_json = Some(&value.return_value_json);
                sent.content_json = value.content_json.as_deref();
                sent.return_metadata_json = value.metadata_json.as_deref();
                sent.tools = &value.tools;
            }
            Some(CallResult::Failed(message) | CallResult::Retry(message)) => {
                sent.message = Some(message);
            }
            _ => {}
        }
        sent
    }
}

impl<'a> Progress<'a> {
    fn counts(decided: &'a Decided) -> Self {
        Self {
            decided_calls: decided.decided_calls,
            pending_calls: decided.pending_calls,
            decided: None,
            pending: None,
        }
    }

    /// `results`: what came with the decisions, where that is known.
    fn new(
        decided: &'a Decided,
        requests: Option<&'a DeferredToolRequests>,
        results: Option<&'a DeferredToolResults>,
    ) -> Self {
        let decisions = decided.decisions.iter().map(|decision| CallDecision {
            tool_call_id: &decision.tool_call_id,
            decision: decision.decision.name(),
            answered_by: decision.answered_by.as_deref(),
            decide_time: rfc3339(decision.decide_time),
            sent: results.map_or_else(Sent::default, |results| {
                Sent::of(&decision.tool_call_id, results)
            }),
        });
        Self {
            decided: Some(decisions.collect()),
            pending: requests.map(|requests| progress::pending(requests, decided)),
            ..Self::counts(decided)
        }
    }
}

/// What an answer, or a failure, did.
#[derive(Debug, Serialize)]
pub(super) struct Settled<'a> {
    wait_id: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    settle_time: Option<String>,
    replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress<'a>>,
}

impl<'a> Settled<'a> {
    /// `requests` is what was asked, where that is known.
    pub(super) fn new(
        settled: &'a client::Settled,
        requests: Option<&'a DeferredToolRequests>,
    ) -> Self {
        Self {
            wait_id: &settled.wait_id,
            state: settled.state.name(),
            settle_time: settled.settle_time.map(rfc3339),
            replayed: settled.replayed,
            answered_by: settled.answered_by.as_deref(),
            progress: (settled.decided.as_ref())
                .map(|decided| Progress::new(decided, requests, None)),
        }
    }
}
