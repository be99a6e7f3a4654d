//! What is asked, one file for each kind of question.
//!
//! `deferred` holds tool calls that wait, and `requests_json` reads them from the JSON form of Pydantic AI; `form` a question whose
//! answer must fit a JSON Schema. Free JSON needs no file: any JSON answers it.

mod deferred;
mod form;
mod requests_json;

pub use deferred::{Call, CallKind, Requests, Section};
pub use form::Form;
pub use requests_json::read as read_requests;

use super::json::JsonText;

/// What is asked. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Any JSON, kept byte for byte. Any JSON answers it.
    FreeJson(JsonText),
    /// Tool calls that wait for a decision each.
    Deferred(Requests),
    /// A question whose answer must fit a schema.
    Form(Form),
}

impl Question {
    /// Whether two questions are the same. Free and form: the same JSON values, numbers by their text, objects unordered; tool
    /// calls: see [`Requests::same`].
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::FreeJson(a), Self::FreeJson(b)) => a.same_value(b),
            (Self::Deferred(a), Self::Deferred(b)) => a.same(b),
            (Self::Form(a), Self::Form(b)) => a.same(b),
            _ => false,
        }
    }

    /// The tool calls it asks about, if it does.
    pub fn requests(&self) -> Option<&Requests> {
        match self {
            Self::Deferred(requests) => Some(requests),
            Self::FreeJson(_) | Self::Form(_) => None,
        }
    }

    /// How many bytes its texts have.
    pub fn bytes(&self) -> usize {
        match self {
            Self::FreeJson(json) => json.as_str().len(),
            Self::Deferred(requests) => requests.bytes(),
            Self::Form(form) => form.bytes(),
        }
    }
}
