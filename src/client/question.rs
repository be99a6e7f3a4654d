//! What a wait asks.

use super::{
    convert::{filled, given},
    requests::DeferredToolRequests,
};
use crate::proto::v1::{self, question::Kind as Wire};

/// What a wait asks, and so what answers it. The broker checks each answer against it before anything is recorded.
///
/// Text is a question in free JSON: `"[1]".into()` is `Question::Json("[1]".to_owned())`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// Any JSON, as text, shown to whoever answers and kept byte for byte. Any JSON answers it.
    Json(String),
    /// Tool calls that wait for a decision each. Answered by
    /// [`DeferredToolResults`](super::DeferredToolResults). The broker always shows such a question in
    /// this form, however it was opened.
    Deferred(DeferredToolRequests),
    /// The same in the JSON form of Pydantic AI. The broker reads it, and never sends it.
    DeferredJson(DeferredToolRequestsJson),
    /// A question whose answer must fit a JSON Schema.
    Form(Form),
    /// A question of a kind that this version of the client does not know. Refused where it is sent.
    Other,
}

impl From<String> for Question {
    fn from(json: String) -> Self {
        Self::Json(json)
    }
}

impl From<&String> for Question {
    fn from(json: &String) -> Self {
        Self::Json(json.clone())
    }
}

impl From<&str> for Question {
    fn from(json: &str) -> Self {
        Self::Json(json.to_owned())
    }
}

impl From<DeferredToolRequests> for Question {
    fn from(requests: DeferredToolRequests) -> Self {
        Self::Deferred(requests)
    }
}

impl From<DeferredToolRequestsJson> for Question {
    fn from(requests: DeferredToolRequestsJson) -> Self {
        Self::DeferredJson(requests)
    }
}

impl From<ToolRequests> for Question {
    fn from(requests: ToolRequests) -> Self {
        requests.0
    }
}

impl From<Form> for Question {
    fn from(form: Form) -> Self {
        Self::Form(form)
    }
}

impl Question {
    pub(super) fn into_wire(self) -> v1::Question {
        let kind = match self {
            Self::Json(json) => Some(Wire::FreeJson(json)),
            Self::Deferred(requests) => Some(Wire::Deferred(requests.into_wire())),
            Self::DeferredJson(requests) => {
                Some(Wire::DeferredJson(v1::DeferredToolRequestsJson {
                    requests_json: requests.requests_json,
                    may_leave_pending: requests.may_leave_pending,
                }))
            }
            Self::Form(form) => Some(Wire::Form(v1::Form {
                message: form.message,
                payload_json: given(form.payload_json),
                response_schema_json: given(form.response_schema_json),
            })),
            Self::Other => None,
        };
        v1::Question { kind }
    }

    pub(super) fn from_wire(wire: v1::Question) -> Self {
        match wire.kind {
            Some(Wire::FreeJson(json)) => Self::Json(json),
            Some(Wire::Deferred(requests)) => {
                Self::Deferred(DeferredToolRequests::from_wire(requests))
            }
            Some(Wire::DeferredJson(requests)) => Self::DeferredJson(DeferredToolRequestsJson {
                requests_json: requests.requests_json,
                may_leave_pending: requests.may_leave_pending,
            }),
            Some(Wire::Form(form)) => Self::Form(Form {
                message: form.message,
                payload_json: filled(form.payload_json),
                response_schema_json: filled(form.response_schema_json),
            }),
            None => Self::Other,
        }
    }
}

/// Tool calls that wait, in the JSON form of Pydantic AI: what `TypeAdapter(DeferredToolRequests).dump_json` writes. The broker
/// reads it; this client does not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferredToolRequestsJson {
    /// The JSON text.
    pub requests_json: String,
    /// As [`DeferredToolRequests::may_leave_pending`].
    pub may_leave_pending: bool,
}

impl DeferredToolRequestsJson {
    /// Takes the JSON text.
    pub fn new(requests_json: impl Into<String>) -> Self {
        Self {
            requests_json: requests_json.into(),
            may_leave_pending: false,
        }
    }

    /// Lets one answer leave calls undecided and still settle the wait. For runs that can go on with calls left pending.
    pub fn may_leave_pending(mut self) -> Self {
        self.may_leave_pending = true;
        self
    }
}

/// Tool calls that wait, in either form: [`DeferredToolRequests`], [`DeferredToolRequestsJson`], or text in the JSON form.
///
/// Unlike in [`Question`], text is here never a question in free JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRequests(Question);

impl From<DeferredToolRequests> for ToolRequests {
    fn from(requests: DeferredToolRequests) -> Self {
        Self(requests.into())
    }
}

impl From<DeferredToolRequestsJson> for ToolRequests {
    fn from(requests: DeferredToolRequestsJson) -> Self {
        Self(requests.into())
    }
}

impl From<String> for ToolRequests {
    fn from(requests_json: String) -> Self {
        DeferredToolRequestsJson::new(requests_json).into()
    }
}

impl From<&str> for ToolRequests {
    fn from(requests_json: &str) -> Self {
        DeferredToolRequestsJson::new(requests_json).into()
    }
}

/// A question whose answer must fit a JSON Schema: what `RequestInput` of Google ADK asks.
///
/// ```
/// use abeyance::client::Form;
///
/// let form = Form::new("How many nights?").schema(r#"{"type":"integer","minimum":1}"#);
/// # assert!(form.payload_json.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Form {
    /// What is asked, for people: up to 4096 characters. May be empty.
    pub message: String,
    /// What the answer is about: JSON text, kept byte for byte.
    pub payload_json: Option<String>,
    /// The JSON Schema that an answer must fit: JSON text, kept byte for byte. `None`: any JSON fits.
    pub response_schema_json: Option<String>,
}

impl Form {
    /// A question in words, which any JSON answers.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    /// What the answer is about, as JSON text. Default: nothing.
    pub fn payload(mut self, json: impl Into<String>) -> Self {
        self.payload_json = Some(json.into());
        self
    }

    /// The JSON Schema that an answer must fit, as JSON text. Draft 2020-12 unless its `$schema` names an older one. A schema that
    /// the broker cannot check within bounds opens no wait. Default: any JSON fits.
    pub fn schema(mut self, json: impl Into<String>) -> Self {
        self.response_schema_json = Some(json.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(question: impl Into<Question>) -> Question {
        Question::from_wire(question.into().into_wire())
    }

    #[test]
    fn questions_survive_the_wire() {
        let deferred = DeferredToolRequests::new().approval("a", "t", "{}");
        let json = DeferredToolRequestsJson::new("{}").may_leave_pending();
        let form = Form::new("How many?").payload("[1.0]");
        for question in [
            Question::from("{ \"n\": 1.0 }"),
            deferred.into(),
            json.into(),
            form.clone().into(),
            form.schema("true").into(),
            Question::Other,
        ] {
            assert_eq!(there_and_back(question.clone()), question);
        }
    }

    #[test]
    fn text_is_free_json_in_a_question_and_the_json_form_among_tool_calls() {
        assert_eq!(Question::from("1"), Question::Json("1".to_owned()));
        let calls = Question::from(ToolRequests::from("1"));
        assert_eq!(calls, DeferredToolRequestsJson::new("1").into());
    }
}
