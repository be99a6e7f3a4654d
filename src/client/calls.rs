//! The client, and those of its calls that have one answer.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tonic::{Code, Request, Response, Status, transport::Channel};

use super::{
    answer::Answer,
    convert,
    error::{Error, Refusal},
    line::{Hold, Line},
    options::OpenOptions,
    outcome::Outcome,
    question::Question,
    settings::Settings,
    token::Token,
    types::{Opened, Settled, WaitInfo},
};
use crate::proto::v1::{
    self, inbox_service_client::InboxServiceClient, resolve_service_client::ResolveServiceClient,
    wait_service_client::WaitServiceClient,
};

/// The longest message that the client takes. Payloads are 1 MiB unless the broker is set otherwise; a page of a list is a
/// thousand waits with their labels.
pub(super) const MESSAGE_BYTES: usize = 64 << 20;
/// The longest time that a broker may keep a client from trying again.
pub(super) const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(600);
/// Who is asked for restraint goes on as if so many tries had failed already.
const RESTRAINT: u32 = 5;

/// A client of one broker. Cheap to clone; clones share their connections.
///
/// Waits travel on a connection of their own, so that no number of them keeps another call from its turn.
///
/// Every call is safe to repeat, so every call is repeated by itself while the broker cannot be reached, for as long as
/// [`Settings::patience`] says, with full jitter. A clear refusal is never repeated. All calls are cancel safe: a call that is
/// dropped may have been carried out or not, and may be made again.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) waits: Line,
    pub(super) watches: Line,
    pub(super) settings: Settings,
    calls: Line,
}

/// A wait that was opened without staying attached.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenedWait {
    /// The wait as it was then, with its token.
    pub opened: Opened,
    /// Its outcome, if it was opened before and is settled.
    pub outcome: Option<Outcome>,
}

/// Makes one call of a unary rpc and repeats it: `call!(self, Service.rpc, request)`, and `with` another patience than the client's.
macro_rules! call {
    ($this:ident, $service:ident . $rpc:ident, $request:expr) => {
        call!($this, $service.$rpc, $request, with Some($this.settings.patience))
    };
    ($this:ident, $service:ident . $rpc:ident, $request:expr, with $patience:expr) => {{
        let request = $request;
        $this
            .repeat($patience, |channel| {
                let mut client = $service::new(channel).max_decoding_message_size(MESSAGE_BYTES);
                let mut request = Request::new(request.clone());
                request.set_timeout($this.settings.attempt_timeout);
                async move { client.$rpc(request).await }
            })
            .await
    }};
}

impl Client {
    /// Makes a client for the broker at `url`, `http://host:port` or `host:port`, with the default [`Settings`]. Connects when the
    /// first call needs it. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`].
    pub fn connect(url: &str) -> Result<Self, Error> {
        Settings::new().connect(url)
    }

    pub(super) fn with_lines(waits: Line, calls: Line, watches: Line, settings: Settings) -> Self {
        Self {
            waits,
            watches,
            settings,
            calls,
        }
    }

    /// Opens a wait, or re-opens it by its key, without staying attached. Durable when it returns.
    ///
    /// `name` says what kind of wait this is, 1 to 256 characters.
    ///
    /// # Errors
    /// [`Error::Refused`], for example with the reason `INVALID_FIELD` or `KEY_CONFLICT`; [`Error::Unavailable`].
    pub async fn open(&self, name: &str, options: OpenOptions) -> Result<OpenedWait, Error> {
        self.open_request(options.request(name)).await
    }

    pub(super) async fn open_request(&self, wait: v1::WaitRequest) -> Result<OpenedWait, Error> {
        let request = v1::OpenWaitRequest {
            spec: wait.spec,
            request_id: wait.request_id,
        };
        let response = call!(self, WaitServiceClient.open_wait, request)?;
        let opened = response
            .opened
            .ok_or_else(|| Error::protocol("an open without its wait"))?;
        Ok(OpenedWait {
            opened: convert::opened(opened)?,
            outcome: response.outcome.map(convert::outcome).transpose()?,
        })
    }

    /// Answers a wait: with JSON text, which is delivered byte for byte, or with decisions on tool calls. When it returns, the
    /// answer is durable and is what every worker gets.
    ///
    /// # Errors
    /// [`Error::Refused`], which leaves the wait as it was:
    /// - `INVALID_JSON` with the position; `INVALID_ANSWER` for what does not fit the question, each fault among
    ///   [`Error::violations`] by its path in the answer. Mend the answer and send it again.
    /// - `ALREADY_SETTLED` for a wait with another outcome; the same answer again is OK.
    /// - `ALREADY_DECIDED` for a tool call that was decided otherwise: [`Error::metadata`] names the first as `tool_call_id`.
    ///   Look at the wait with [`Client::describe`], and answer without such calls.
    /// - `TOKEN_UNKNOWN`, `WAIT_PURGED`; `QUESTION_NOT_SET` with a retry delay.
    ///
    /// [`Error::Unavailable`].
    pub async fn resolve(
        &self,
        token: &Token,
        answer: impl Into<Answer>,
    ) -> Result<Settled, Error> {
        let request = answer.into().request(token);
        convert::resolved(call!(self, ResolveServiceClient.resolve, request)?)
    }

    /// Decides some of a wait's tool calls, all that are named or none, and leaves it open until the last one is decided: what the
    /// button of a chat message or a page calls. The same as [`Client::resolve`] with a [partial](Answer::partial) answer.
    ///
    /// ```no_run
    /// # use abeyance::client::{Answer, Client, DeferredToolResults, Error, Token};
    /// # async fn clicked(client: &Client, token: &Token) -> Result<(), Error> {
    /// let click = Answer::from(DeferredToolResults::new().approve("call_1")).by("alice");
    /// let settled = client.decide(token, click).await?;
    /// let left = settled.decided.map_or(0, |d| d.pending_calls);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A click that comes twice is OK, and [`Settled::decided`] then names who was first.
    ///
    /// # Errors
    /// As for [`Client::resolve`].
    pub async fn decide(
        &self,
        token: &Token,
        decisions: impl Into<Answer>,
    ) -> Result<Settled, Error> {
        self.resolve(token, decisions.into().partial()).await
    }

    /// Ends a wait without an answer: the worker gets the reason, as data.
    ///
    /// `reason` is for people, at most 4096 characters; `error_type` is a name that programs may branch on; `details_json` is
    /// more about it, as JSON text.
    ///
    /// # Errors
    /// As for [`Client::resolve`], except that a question that is not set does not matter.
    pub async fn fail(
        &self,
        token: &Token,
        reason: &str,
        error_type: Option<&str>,
        details_json: Option<&str>,
    ) -> Result<Settled, Error> {
        let request = v1::FailRequest {
            token: token.expose().to_owned(),
            reason: reason.to_owned(),
            error_type: error_type.unwrap_or_default().to_owned(),
            details_json: details_json.unwrap_or_default().to_owned(),
            request_id: String::new(),
        };
        let r = call!(self, ResolveServiceClient.fail, request)?;
        convert::settled(r.wait_id, r.state, r.settle_time, r.replayed)
    }

    /// Withdraws a wait whose answer is no longer needed, and returns what is recorded: cancelled, or the outcome that came
    /// before. `reason` is for people, at most 4096 characters.
    ///
    /// # Errors
    /// [`Error::Refused`] with `TOKEN_UNKNOWN` or `WAIT_PURGED`; [`Error::Unavailable`].
    pub async fn cancel(&self, token: &Token, reason: &str) -> Result<Outcome, Error> {
        let request = v1::CancelWaitRequest {
            token: token.expose().to_owned(),
            reason: reason.to_owned(),
        };
        let response = call!(self, WaitServiceClient.cancel_wait, request)?;
        let outcome = response
            .outcome
            .ok_or_else(|| Error::protocol("a cancel without its outcome"))?;
        convert::outcome(outcome)
    }

    /// Says that the answering side is alive, and returns when the heartbeat timeout now runs out: `None` where no heartbeat is
    /// demanded and before the wait is asked.
    ///
    /// # Errors
    /// [`Error::Refused`] with `ALREADY_SETTLED`: stop working on it. [`Error::Unavailable`].
    pub async fn heartbeat(&self, token: &Token) -> Result<Option<SystemTime>, Error> {
        let request = v1::HeartbeatRequest {
            token: token.expose().to_owned(),
        };
        let response = call!(self, ResolveServiceClient.heartbeat, request)?;
        Ok(convert::optional_time(response.heartbeat_expire_time))
    }

    /// Records that question and token were handed on, so that a worker that runs again does not ask again. Starts the heartbeat
    /// clock. Idempotent: returns when it was first marked, `None` if the wait was settled before anybody marked it.
    ///
    /// # Errors
    /// [`Error::Refused`] with `TOKEN_UNKNOWN` or `WAIT_PURGED`; [`Error::Unavailable`].
    pub async fn mark_asked(&self, token: &Token) -> Result<Option<SystemTime>, Error> {
        let response = call!(self, WaitServiceClient.mark_asked, mark_asked(token))?;
        Ok(convert::optional_time(response.ask_time))
    }

    /// As [`Client::mark_asked`], for as long as it takes: what was handed on cannot be taken back.
    pub(super) async fn mark_asked_at_last(&self, token: &Token) -> Result<(), Error> {
        call!(self, WaitServiceClient.mark_asked, mark_asked(token), with None).map(drop)
    }

    /// Sets the question, JSON text or any other [`Question`], of a wait that was opened with
    /// [`question_later`](OpenOptions::question_later). The same question again is OK.
    ///
    /// # Errors
    /// [`Error::Refused`] with `QUESTION_CONFLICT`, `ALREADY_SETTLED`, `INVALID_JSON` or `INVALID_FIELD`; [`Error::Unavailable`].
    pub async fn set_question(
        &self,
        token: &Token,
        question: impl Into<Question>,
    ) -> Result<(), Error> {
        let request = v1::SetQuestionRequest {
            token: token.expose().to_owned(),
            question: Some(question.into().into_wire()),
        };
        call!(self, WaitServiceClient.set_question, request).map(drop)
    }

    /// Shows a wait by its token: what is asked, until when, and the outcome if there is one.
    ///
    /// # Errors
    /// [`Error::Refused`] with `TOKEN_UNKNOWN` or `WAIT_PURGED`; [`Error::Unavailable`].
    pub async fn describe(&self, token: &Token) -> Result<WaitInfo, Error> {
        let request = v1::DescribeWaitRequest {
            token: token.expose().to_owned(),
        };
        convert::info(call!(self, ResolveServiceClient.describe_wait, request)?.wait)
    }

    /// Shows a wait by its public name, for people's tools.
    ///
    /// # Errors
    /// [`Error::Refused`] with `WAIT_UNKNOWN`; [`Error::Unavailable`].
    pub async fn get(&self, wait_id: &str) -> Result<WaitInfo, Error> {
        let request = v1::GetWaitRequest {
            wait_id: wait_id.to_owned(),
        };
        convert::info(call!(self, InboxServiceClient.get_wait, request)?.wait)
    }

    pub(super) async fn list_page(
        &self,
        request: v1::ListWaitsRequest,
    ) -> Result<v1::ListWaitsResponse, Error> {
        call!(self, InboxServiceClient.list_waits, request)
    }

    /// Makes a call until it succeeds, is refused, or `patience` has passed at the end of a try; `None` for ever.
    async fn repeat<T, F>(
        &self,
        patience: Option<Duration>,
        mut call: impl FnMut(Channel) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let begun = Instant::now();
        let mut attempt = 0;
        loop {
            let mut hold = self.calls.hold();
            let refusal = match self.bounded(&mut hold, &mut call).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(refusal) => refusal,
            };
            let delay = self.next_try(&hold, refusal, &mut attempt, begun, patience)?;
            tokio::time::sleep(delay).await;
        }
    }

    /// Bounds one try. The deadline went to the broker as well, but a broker that cannot be reached does not read it.
    pub(super) async fn bounded<T, F>(
        &self,
        hold: &mut Hold,
        call: impl FnOnce(Channel) -> F,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let bound = self.settings.attempt_timeout;
        let begun = Instant::now();
        let attempt = async {
            let channel = hold.channel().await?;
            call(channel).await.map_err(Refusal::from)
        };
        let refusal = match tokio::time::timeout(bound, attempt).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(refusal)) => refusal,
            Err(_) => Refusal::local(
                Code::DeadlineExceeded,
                format!("no answer within {} s", bound.as_secs_f32()),
            ),
        };
        // tonic keeps the same time, and may be the first to say so.
        if begun.elapsed() >= bound {
            hold.went_silent();
        }
        Err(refusal)
    }

    /// When to try again after `refusal`; the error, if there is no use in that.
    pub(super) fn next_try(
        &self,
        hold: &Hold,
        refusal: Refusal,
        attempt: &mut u32,
        begun: Instant,
        patience: Option<Duration>,
    ) -> Result<Duration, Error> {
        if !refusal.is_passing() {
            return Err(Error::Refused(Box::new(refusal)));
        }
        let mut delay = self.delay(hold, &refusal, attempt, false);
        if let Some(patience) = patience {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(Error::Unavailable(Box::new(refusal)));
            }
            // The last try is made when patience ends, not given up because its delay would be longer.
            delay = delay.min(left);
        }
        tracing::debug!(code = ?refusal.code, ?delay, "trying a call again");
        Ok(delay)
    }

    /// How long to hold back after a try that `refusal` ended, and one more to the number of tries. A try that was `healthy` for a while
    /// makes this a first one, except where restraint is asked for.
    pub(super) fn delay(
        &self,
        hold: &Hold,
        refusal: &Refusal,
        attempt: &mut u32,
        healthy: bool,
    ) -> Duration {
        if hold.is_scolded(refusal) {
            *attempt = (*attempt).max(RESTRAINT);
        } else if healthy {
            *attempt = 0;
        }
        let asked_for = refusal.retry_delay.unwrap_or_default();
        let delay = self.settings.backoff.jittered(*attempt) + asked_for.min(LONGEST_RETRY_DELAY);
        *attempt += 1;
        delay
    }
}

fn mark_asked(token: &Token) -> v1::MarkAskedRequest {
    v1::MarkAskedRequest {
        token: token.expose().to_owned(),
    }
}
