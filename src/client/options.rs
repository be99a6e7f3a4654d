//! What a worker may say when it opens a wait.

use std::{collections::BTreeMap, time::Duration};

use super::{
    convert,
    question::{Form, Question, ToolRequests},
};
use crate::proto::v1::{self, wait_spec::Expiry};

/// What a worker may say when it opens a wait; nothing of it is required.
///
/// The broker checks all of it: a value beyond its limits is refused with the field's name.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    key: Option<String>,
    namespace: Option<String>,
    expiry: Option<Expiry>,
    heartbeat_timeout: Option<Duration>,
    question: Option<Question>,
    question_later: bool,
    labels: BTreeMap<String, String>,
}

impl OpenOptions {
    /// Nothing said: no key, the namespace `default`, the broker's longest timeout, no question.
    pub fn new() -> Self {
        Self::default()
    }

    /// The worker's own name for the wait, unique in its namespace, 1 to 512 characters. Opening again with the same key, name
    /// and question gives the same wait with the same token, whatever has become of it. A wait with a key outlives the task
    /// that opened it.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The namespace. Default: `default`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Expire the wait after this time. Default: the broker's maximum, 366 days unless it is set otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.expiry = Some(Expiry::Timeout(convert::to_wire(timeout)));
        self
    }

    /// Wait as long as the broker allows, and say so. Replaces a timeout.
    pub fn no_timeout(mut self) -> Self {
        self.expiry = Some(Expiry::NoTimeout(true));
        self
    }

    /// Expire the wait when the answering side, once asked, sends no heartbeat for this long. Default: none is demanded.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.heartbeat_timeout = Some(timeout);
        self
    }

    /// What is asked: JSON text, which any JSON answers, or any other [`Question`]. Shown to whoever answers. Default: nothing.
    pub fn question(mut self, question: impl Into<Question>) -> Self {
        self.question = Some(question.into());
        self
    }

    /// Tool calls that wait for a decision each, typed or as text in the JSON form of Pydantic AI. Replaces the question.
    pub fn calls(self, requests: impl Into<ToolRequests>) -> Self {
        self.question(requests.into())
    }

    /// A question whose answer must fit a JSON Schema. Replaces the question.
    pub fn form(self, form: Form) -> Self {
        self.question(form)
    }

    /// The question comes later, by [`Client::set_question`](super::Client::set_question); until then answers are refused.
    pub fn question_later(mut self) -> Self {
        self.question_later = true;
        self
    }

    /// Adds a label to find the wait by.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds labels to find the wait by.
    pub fn labels(mut self, labels: impl IntoIterator<Item = (String, String)>) -> Self {
        self.labels.extend(labels);
        self
    }

    /// Whether a key was given.
    pub fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    /// The request, with an id that makes it safe to repeat.
    pub(super) fn request(self, name: &str) -> v1::WaitRequest {
        let spec = v1::WaitSpec {
            name: name.to_owned(),
            key: self.key.unwrap_or_default(),
            namespace: self.namespace.unwrap_or_default(),
            // Never left out: the deadline of the stream would be taken for it.
            expiry: Some(self.expiry.unwrap_or(Expiry::NoTimeout(true))),
            heartbeat_timeout: self.heartbeat_timeout.map(convert::to_wire),
            question: self.question.map(Question::into_wire),
            question_later: self.question_later,
            labels: self.labels,
        };
        v1::WaitRequest {
            spec: Some(spec),
            request_id: uuid::Uuid::now_v7().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_open_has_its_own_request_id() {
        let options = OpenOptions::new().key("k").timeout(Duration::from_secs(60));
        let (one, two) = (options.clone().request("n"), options.request("n"));
        assert_ne!(one.request_id, two.request_id);
        assert_eq!(one.spec, two.spec);
    }

    #[test]
    fn c16_sixty_days_stay_sixty_days() {
        let sixty_days = Duration::from_secs(60 * 86_400);
        let spec = OpenOptions::new()
            .timeout(sixty_days)
            .request("n")
            .spec
            .unwrap();
        let Some(Expiry::Timeout(timeout)) = spec.expiry else {
            panic!("no timeout");
        };
        assert_eq!(convert::length(Some(timeout)), sixty_days);
    }
}
