//! What a wait asks: free JSON, tool calls, or a form.

use clap::Args;

use super::{exit::Failure, input::JsonSource, refusal};
use crate::client::{DeferredToolRequestsJson, Error, Form, Question};

/// What is asked: at most one of the three.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is asked")]
pub(super) struct Asked {
    /// A question that any JSON answers: JSON text, `@FILE`, or `-` for stdin
    #[arg(
        long,
        value_name = "JSON|@FILE|-",
        allow_hyphen_values = true,
        group = "kind"
    )]
    question: Option<JsonSource>,
    /// Tool calls that need a decision each: what `TypeAdapter(DeferredToolRequests).dump_json` of Pydantic AI writes, an object with
    /// `approvals` (calls that need one) and `calls` (external ones, whose result is made elsewhere; a question, where `_kinds` says so):
    /// arrays of tool calls with `tool_call_id`, `tool_name` and `args`. Decided by `approve`, `deny`, `answer`, or all at once by
    /// `resolve`. `wait` prints DeferredToolResults, however it ends
    #[arg(long, value_name = "JSON|@FILE|-", group = "kind")]
    calls: Option<JsonSource>,
    /// Let one answer of `resolve` leave tool calls undecided and still end the wait
    #[arg(long, requires = "calls")]
    may_leave_pending: bool,
    /// A form: the JSON Schema that the answer must fit. `true` fits anything
    #[arg(long, value_name = "JSON|@FILE|-", group = "kind")]
    form: Option<JsonSource>,
    /// What the form asks, in words; only with --form
    #[arg(long, value_name = "TEXT", requires = "form")]
    message: Option<String>,
    /// What the form is about, as JSON; only with --form
    #[arg(
        long,
        value_name = "JSON|@FILE|-",
        allow_hyphen_values = true,
        requires = "form"
    )]
    payload: Option<JsonSource>,
}

impl Asked {
    /// Whether anything is asked.
    pub(super) fn is_given(&self) -> bool {
        self.question.is_some() || self.asks_calls() || self.form.is_some()
    }

    /// Whether tool calls are.
    pub(super) fn asks_calls(&self) -> bool {
        self.calls.is_some()
    }

    /// Whether a form is.
    pub(super) fn asks_form(&self) -> bool {
        self.form.is_some()
    }

    /// Reads the question, if it is elsewhere.
    pub(super) fn read(&self) -> Result<Option<Question>, Failure> {
        if let Some(question) = &self.question {
            return Ok(Some(question.read()?.into()));
        }
        if let Some(calls) = &self.calls {
            let mut requests = DeferredToolRequestsJson::new(calls.read()?);
            if self.may_leave_pending {
                requests = requests.may_leave_pending();
            }
            return Ok(Some(requests.into()));
        }
        let Some(schema) = &self.form else {
            return Ok(None);
        };
        if *schema == JsonSource::Stdin && self.payload == Some(JsonSource::Stdin) {
            return Err(Failure::usage(
                "--form and --payload cannot both come from stdin",
            ));
        }
        let mut form = Form::new(self.message.clone().unwrap_or_default()).schema(schema.read()?);
        if let Some(payload) = &self.payload {
            form = form.payload(payload.read()?);
        }
        Ok(Some(form.into()))
    }
    /// Adds to a failure what to do about the JSON that the broker refused, if that can be guessed.
    pub(super) fn explain(&self, failure: Failure, error: &Error) -> Failure {
        let Some(fault) = error.violations().first() else {
            return failure;
        };
        let place = refusal::place(&fault.field, error.reason().unwrap_or_default());
        let source = match &*place {
            "--question" => &self.question,
            "--calls" => &self.calls,
            "--form" => &self.form,
            "--payload" => &self.payload,
            _ => &None,
        };
        match source {
            Some(source) => source.explain(failure, error),
            None => failure,
        }
    }
}
