//! Waiting for decisions on an agent's tool calls.

use std::error::Error as StdError;

use super::{
    calls::Client,
    error::{Error, WaitError},
    external::{Ask, Ticket},
    options::OpenOptions,
    outcome::Outcome,
    question::ToolRequests,
    results::DeferredToolResults,
};

/// What a run goes on with after its tool calls waited, whatever became of the wait.
///
/// Acting on it must be idempotent by wait id, as for any [`Outcome`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolResults {
    /// The wait's public name.
    pub wait_id: String,
    /// The decisions. Where the wait ended without an answer, the calls that were decided keep their decision, and every other is
    /// denied (an approval) or failed (an external call, a question) with the message
    /// `No decision on this tool call arrived: <reason>`.
    pub results: DeferredToolResults,
    /// The same in the JSON form of Pydantic AI's `DeferredToolResults`. Each value, override and metadata in it is byte for byte
    /// its sender's.
    pub results_json: String,
    /// Why there was no answer: [`WaitError::Failed`], [`WaitError::Expired`] or [`WaitError::Cancelled`]. `None` if the wait was
    /// answered.
    pub unanswered: Option<WaitError>,
}

impl Outcome {
    /// What a run whose tool calls waited goes on with, however the wait ended.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the outcome carries no results: the wait did not ask about tool calls, or its broker is older than
    /// this client. Never taken for an approval.
    pub fn into_tool_results(mut self) -> Result<ToolResults, Error> {
        let (Some(results_json), Some(results)) =
            (self.results_json().map(str::to_owned), self.results.take())
        else {
            let state = self.state();
            return Err(Error::protocol(format!(
                "the wait is {state}, and its outcome carries no results for tool calls"
            )));
        };
        Ok(ToolResults {
            wait_id: self.wait_id.clone(),
            results,
            results_json,
            unanswered: self.into_answer().err(),
        })
    }
}

impl Client {
    /// Opens a wait for decisions on an agent's tool calls, asks, and returns the results that the run goes on with.
    ///
    /// `name` says what kind of wait this is. `requests` are the calls, typed or as text in the JSON form of Pydantic AI; they
    /// replace a question in `options`. `ask` is called as by [`Client::wait_for_external_event`]; one that can decide at once
    /// returns [`Ask::Results`], or [`Ask::Answer`] with the JSON form. What others decided meanwhile counts: such calls are left
    /// out of [`Ask::Results`].
    ///
    /// Every ending of the wait gives results: an answer gives its decisions, and a failure, an expiry or a cancellation gives
    /// ready-made denials, with the cause beside them as [`ToolResults::unanswered`].
    ///
    /// ```no_run
    /// # use abeyance::client::{Ask, Client, DeferredToolRequests, OpenOptions, WaitError};
    /// # async fn run(client: &Client) -> Result<(), WaitError> {
    /// let requests = DeferredToolRequests::new()
    ///     .approval("call_1", "issue_refund", r#"{"amount":500}"#);
    /// let ask = async |ticket: abeyance::client::Ticket| {
    ///     println!("abeyance resolve {} ...", ticket.token.expose());
    ///     Ok::<_, std::io::Error>(Ask::HandedOn)
    /// };
    /// let options = OpenOptions::new().key("run-17/step-3");
    /// let input = client.request_input("refund", requests, ask, options).await?;
    /// if input.results.approvals.get("call_1").is_some_and(|a| a.is_approved()) {
    ///     // Run the tool.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// [`WaitError::Ask`] if `ask` failed, [`WaitError::Client`] if its decisions were refused (`INVALID_ANSWER`, with each fault
    /// among [`Error::violations`]): a wait without a key is then cancelled, one with a key stays open and not asked.
    /// [`WaitError::Client`] if the wait could not be opened or followed, and if its outcome carries no results. Never the other
    /// arms: those are results here.
    ///
    /// # Cancel safety
    /// As for [`Client::wait_for_external_event`].
    pub async fn request_input<F, A, E>(
        &self,
        name: &str,
        requests: impl Into<ToolRequests>,
        ask: F,
        options: OpenOptions,
    ) -> Result<ToolResults, WaitError>
    where
        F: FnOnce(Ticket) -> A,
        A: Future<Output = Result<Ask, E>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let outcome = self.wait_asking(name, ask, options.calls(requests)).await?;
        Ok(outcome.into_tool_results()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::client::{Approval, ExpiryCause, Verdict};

    const DENIAL: &str =
        "No decision on this tool call arrived: No resolution arrived within 0:30:00.";

    fn outcome(verdict: Verdict, results: Option<DeferredToolResults>, json: &str) -> Outcome {
        Outcome {
            wait_id: "w".to_owned(),
            settle_time: SystemTime::UNIX_EPOCH,
            verdict,
            results,
            results_json: Some(json.to_owned()).filter(|j| !j.is_empty()),
        }
    }

    fn resolved(json: &str) -> Verdict {
        Verdict::Resolved {
            payload_json: json.to_owned(),
            answered_by: None,
        }
    }

    fn expired() -> Verdict {
        Verdict::Expired {
            cause: ExpiryCause::Timeout,
            reason: "No resolution arrived within 0:30:00.".to_owned(),
        }
    }

    #[test]
    fn an_answer_gives_its_decisions() {
        let decisions = DeferredToolResults::new().approve("a");
        let json = "{\"approvals\":{}}";
        let outcome = outcome(resolved(json), Some(decisions.clone()), json);
        assert_eq!(outcome.results_json(), Some("{\"approvals\":{}}"));
        let results = outcome.into_tool_results().unwrap();
        assert_eq!(results.results, decisions);
        assert_eq!(results.results_json, "{\"approvals\":{}}");
        assert!(results.unanswered.is_none());
    }

    #[test]
    fn another_end_gives_denials_and_its_cause() {
        let denials = DeferredToolResults::new().deny("a", DENIAL);
        let outcome = outcome(expired(), Some(denials), "{}");
        let results = outcome.into_tool_results().unwrap();
        let message = Some(DENIAL.to_owned());
        assert_eq!(results.results.approvals["a"], Approval::Denied { message });
        assert_eq!(results.results_json, "{}");
        assert!(matches!(
            results.unanswered,
            Some(WaitError::Expired { .. })
        ));
    }

    #[test]
    fn an_outcome_without_results_is_an_error() {
        let results = || Some(DeferredToolResults::new().approve("a"));
        for (verdict, results, json) in [
            (resolved("{\"approvals\":{\"a\":true}}"), None, ""),
            (expired(), None, ""),
            (expired(), None, "{}"),
            (expired(), results(), ""),
        ] {
            let outcome = outcome(verdict, results, json);
            let error = outcome.into_tool_results().unwrap_err();
            assert!(matches!(error, Error::Protocol(_)), "{error}");
        }
    }
}
