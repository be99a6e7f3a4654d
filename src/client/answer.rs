//! What a resolver sends.

use std::fmt;

use super::{results::DeferredToolResults, token::Token};
use crate::proto::v1::{self, resolve_request::Answer as Wire};

/// An answer to a wait: JSON text, or decisions on tool calls. Text is turned into one by itself, and so are decisions.
///
/// ```
/// use abeyance::client::{Answer, DeferredToolResults};
///
/// let answer = Answer::json(r#"{"approved":true}"#).by("alice");
/// let decision = Answer::from(DeferredToolResults::new().approve("call_1"))
///     .by("alice")
///     .partial();
/// # let _ = (answer, decision);
/// ```
///
/// `Debug` shows nothing of what was answered.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    body: Body,
    partial: bool,
    answered_by: Option<String>,
    request_id: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
enum Body {
    Json(String),
    Results(DeferredToolResults),
}

impl Answer {
    /// An answer in JSON, delivered byte for byte. Tool calls are answered with the JSON form of [`DeferredToolResults`].
    pub fn json(text: impl Into<String>) -> Self {
        Self::new(Body::Json(text.into()))
    }

    fn new(body: Body) -> Self {
        Self {
            body,
            partial: false,
            answered_by: None,
            request_id: None,
        }
    }

    /// Decides only those tool calls that the answer names, all of them or none, and leaves the wait open until the last one is
    /// decided. Refused for questions that are not about tool calls. Default: the answer must decide every call that is not
    /// decided yet.
    pub fn partial(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Says who answers: up to 256 characters. For tool calls it stands for each call that the answer decides and names nobody
    /// for. Not part of the answer: an equal answer by somebody else is a repeat. Default: not said.
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.answered_by = Some(who.into());
        self
    }

    /// The resolver's own id for this answer: 1 to 128 characters. The broker refuses the same id with another answer. Not needed
    /// for a safe repeat, since an equal answer is one. Default: none.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Takes out a call that somebody else decided. False if the answer does not name it, as far as this client can read it.
    pub(super) fn forget(&mut self, tool_call_id: &str) -> bool {
        match &mut self.body {
            Body::Json(_) => false,
            Body::Results(results) => results.forget(tool_call_id),
        }
    }

    pub(super) fn request(self, token: &Token) -> v1::ResolveRequest {
        let answer = match self.body {
            Body::Json(json) => Wire::PayloadJson(json),
            Body::Results(results) => Wire::Results(results.into_wire()),
        };
        v1::ResolveRequest {
            token: token.expose().to_owned(),
            answer: Some(answer),
            request_id: self.request_id.unwrap_or_default(),
            partial: self.partial,
            answered_by: self.answered_by.unwrap_or_default(),
        }
    }
}

impl From<String> for Answer {
    fn from(json: String) -> Self {
        Self::json(json)
    }
}

impl From<&String> for Answer {
    fn from(json: &String) -> Self {
        Self::json(json)
    }
}

impl From<&str> for Answer {
    fn from(json: &str) -> Self {
        Self::json(json)
    }
}

impl From<DeferredToolResults> for Answer {
    fn from(results: DeferredToolResults) -> Self {
        Self::new(Body::Results(results))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("partial", &self.partial)
            .field("answered_by", &self.answered_by)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_sent_byte_for_byte_and_nothing_beside_it() {
        let token = Token::new("t");
        let request = Answer::from("{ \"n\": 1.0 }").request(&token);
        let expected = v1::ResolveRequest {
            token: "t".to_owned(),
            answer: Some(Wire::PayloadJson("{ \"n\": 1.0 }".to_owned())),
            ..v1::ResolveRequest::default()
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn decisions_go_typed_with_all_that_was_said() {
        let results = DeferredToolResults::new().approve("a");
        let request = Answer::from(results.clone())
            .partial()
            .by("alice")
            .request_id("r")
            .request(&Token::new("t"));
        assert_eq!(request.answer, Some(Wire::Results(results.into_wire())));
        assert!(request.partial);
        assert_eq!(
            (&*request.answered_by, &*request.request_id),
            ("alice", "r")
        );
    }

    #[test]
    fn debug_shows_nothing_of_the_answer() {
        for answer in [
            Answer::json("secret"),
            DeferredToolResults::new().value("a", "secret").into(),
        ] {
            assert!(!format!("{answer:?}").contains("secret"));
        }
    }

    #[test]
    fn what_others_decided_is_taken_out() {
        let mut answer = Answer::from(DeferredToolResults::new().approve("a").value("b", "1"));
        assert!(!answer.forget("c"));
        assert!(answer.forget("a") && !answer.forget("a"));
        let rest = DeferredToolResults::new().value("b", "1");
        assert_eq!(answer, Answer::from(rest));
        assert!(!Answer::json("{}").forget("a"));
    }
}
