//! One rpc on one wait, and what was seen of it written into the history.

use std::{
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abeyance::proto::{
    ERROR_DOMAIN,
    v1::{
        self, attach_request::Target, resolve_request::Answer,
        resolve_service_client::ResolveServiceClient, wait::State,
        wait_service_client::WaitServiceClient,
    },
};
use tokio::{sync::Notify, time::timeout};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use super::{
    history::{Began, History, Said, Seen, Told, micros},
    process::BOUND,
};

/// A wait as its worker and its resolvers know it.
#[derive(Debug)]
pub struct Case {
    /// The test's own number of it.
    pub number: u32,
    pub spec: v1::WaitSpec,
    pub request_id: String,
    /// Told once a holder that opened it has handed the token on.
    pub handed_on: Notify,
    token: OnceLock<String>,
    settled: AtomicBool,
}

impl Case {
    pub fn new(number: u32, spec: v1::WaitSpec, request_id: String) -> Arc<Self> {
        Arc::new(Self {
            number,
            spec,
            request_id,
            handed_on: Notify::new(),
            token: OnceLock::new(),
            settled: AtomicBool::new(false),
        })
    }

    /// The token that the first acknowledged open gave. What others give is the judge's business.
    pub fn token(&self) -> Option<&str> {
        self.token.get().map(String::as_str)
    }

    /// Whether somebody was told an outcome.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }
}

/// How an rpc went that gave nothing to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The connection broke, or the broker could not take it: not acknowledged, to be tried again.
    Cut,
    /// The broker answered, and the answer is in the history.
    Answered,
}

/// A connection and the history that it writes.
#[derive(Clone)]
pub struct Line {
    pub waits: WaitServiceClient<Channel>,
    pub resolver: ResolveServiceClient<Channel>,
    pub history: Arc<History>,
}

impl Line {
    /// A connection that is made when it is needed, and again after each cut.
    pub fn new(url: &str, history: Arc<History>) -> Self {
        let channel = Endpoint::from_shared(url.to_owned())
            .expect("it is a URL")
            .connect_timeout(Duration::from_secs(10))
            .initial_connection_window_size(8 << 20)
            .connect_lazy();
        Self::over(channel, history)
    }

    /// The same over a channel of the test's own.
    pub fn over(channel: Channel, history: Arc<History>) -> Self {
        Self {
            waits: WaitServiceClient::new(channel.clone()),
            resolver: ResolveServiceClient::new(channel),
            history,
        }
    }

    /// Opens or re-opens without staying attached.
    pub async fn open(&self, case: &Case) -> Result<(), Lost> {
        let mut client = self.waits.clone();
        let request = v1::OpenWaitRequest {
            spec: Some(case.spec.clone()),
            request_id: case.request_id.clone(),
        };
        let (began, response) = self.call(case, client.open_wait(request)).await?;
        let Some(opened) = &response.opened else {
            return Err(self.unexpected(case, began, "an open without `opened`"));
        };
        self.opened(case, began, opened);
        match &response.outcome {
            Some(outcome) => self.told(case, began, outcome),
            None => self.history.saw(case.number, began, Seen::Pending),
        }
        Ok(())
    }

    pub async fn mark_asked(&self, case: &Case) -> Result<(), Lost> {
        let mut client = self.waits.clone();
        let token = token_of(case);
        let request = v1::MarkAskedRequest { token };
        let (began, response) = self.call(case, client.mark_asked(request)).await?;
        if response.ask_time.is_some() {
            self.history.saw(case.number, began, Seen::Asked);
        }
        Ok(())
    }

    /// Withdraws it.
    pub async fn cancel(&self, case: &Case, reason: &str) -> Result<(), Lost> {
        self.trying(case, &Said::Cancel(reason.to_owned()));
        let mut client = self.waits.clone();
        let request = v1::CancelWaitRequest {
            token: token_of(case),
            reason: reason.to_owned(),
        };
        let (began, response) = self.call(case, client.cancel_wait(request)).await?;
        match &response.outcome {
            Some(outcome) => self.told(case, began, outcome),
            None => return Err(self.unexpected(case, began, "a withdrawal without an outcome")),
        }
        Ok(())
    }

    pub async fn describe(&self, case: &Case) -> Result<(), Lost> {
        let mut client = self.resolver.clone();
        let token = token_of(case);
        let request = v1::DescribeWaitRequest { token };
        let (began, response) = self.call(case, client.describe_wait(request)).await?;
        let wait = response.wait.unwrap_or_default();
        match (&wait.outcome, wait.state()) {
            (Some(outcome), _) => self.told(case, began, outcome),
            (None, State::Pending) => self.history.saw(case.number, began, Seen::Pending),
            (None, _) => return Err(self.unexpected(case, began, "settled without an outcome")),
        }
        Ok(())
    }

    pub async fn heartbeat(&self, case: &Case) -> Result<(), Lost> {
        let mut client = self.resolver.clone();
        let token = token_of(case);
        let request = v1::HeartbeatRequest { token };
        self.call(case, client.heartbeat(request)).await.map(drop)
    }

    /// Answers, or ends it without an answer.
    pub async fn say(&self, case: &Case, said: &Said, request_id: &str) -> Result<(), Lost> {
        self.trying(case, said);
        let mut client = self.resolver.clone();
        let (token, request_id) = (token_of(case), request_id.to_owned());
        let (began, replayed, settle_time) = match said {
            Said::Resolve(payload) => {
                let request = v1::ResolveRequest {
                    token,
                    answer: Some(Answer::PayloadJson(payload.clone())),
                    request_id,
                    ..Default::default()
                };
                let call = self.call_saying(case, Some(said), client.resolve(request));
                let (began, response) = call.await?;
                (began, response.replayed, response.settle_time)
            }
            Said::Fail(reason) => {
                let request = v1::FailRequest {
                    token,
                    reason: reason.clone(),
                    request_id,
                    ..Default::default()
                };
                let call = self.call_saying(case, Some(said), client.fail(request));
                let (began, response) = call.await?;
                (began, response.replayed, response.settle_time)
            }
            Said::Cancel(reason) => return self.cancel(case, reason).await,
        };
        let seen = Seen::Accepted {
            said: said.clone(),
            replayed,
            settle_micros: micros(settle_time.as_ref()),
        };
        case.settled.store(true, Ordering::Release);
        self.history.saw(case.number, began, seen);
        Ok(())
    }

    /// `opened` was told.
    pub fn opened(&self, case: &Case, began: Began, opened: &v1::Opened) {
        let seen = Seen::Opened {
            token: opened.token.clone(),
            wait_id: opened.wait_id.clone(),
            resumed: opened.resumed,
            asked: opened.asked,
            expire_micros: micros(opened.expire_time.as_ref()),
        };
        // Only the first is kept; the judge compares the others with it.
        let _ = case.token.set(opened.token.clone());
        self.history.saw(case.number, began, seen);
    }

    /// An outcome was told.
    pub fn told(&self, case: &Case, began: Began, outcome: &v1::Outcome) {
        case.settled.store(true, Ordering::Release);
        let told = Told::new(outcome);
        self.history.saw(case.number, began, Seen::Told(told));
    }

    pub fn unexpected(&self, case: &Case, began: Began, what: &str) -> Lost {
        let seen = Seen::Unexpected(what.to_owned());
        self.history.saw(case.number, began, seen);
        Lost::Answered
    }

    /// Where to attach, by token or by key.
    pub fn target(case: &Case, by_key: bool) -> v1::AttachRequest {
        let target = if by_key {
            Target::Key(v1::WaitKey {
                namespace: case.spec.namespace.clone(),
                key: case.spec.key.clone(),
            })
        } else {
            Target::Token(token_of(case))
        };
        v1::AttachRequest {
            target: Some(target),
        }
    }

    fn trying(&self, case: &Case, said: &Said) {
        let began = self.history.begin();
        let seen = Seen::Trying(said.clone());
        self.history.saw(case.number, began, seen);
    }

    /// A call that ends within the bound.
    pub async fn call<T>(
        &self,
        case: &Case,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<(Began, T), Lost> {
        self.call_saying(case, None, call).await
    }

    async fn call_saying<T>(
        &self,
        case: &Case,
        said: Option<&Said>,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<(Began, T), Lost> {
        let began = self.history.begin();
        match timeout(BOUND, call).await {
            Ok(Ok(response)) => Ok((began, response.into_inner())),
            Ok(Err(status)) => Err(self.judge(case, began, said, &status)),
            Err(_) => {
                let seen = Seen::Hung(format!("no answer to a call within {BOUND:?}"));
                self.history.saw(case.number, began, seen);
                Err(Lost::Answered)
            }
        }
    }

    /// Tells what a status means, and writes down what must be judged.
    pub fn judge(&self, case: &Case, began: Began, said: Option<&Said>, status: &Status) -> Lost {
        let info = status.get_details_error_info();
        let info = info.filter(|info| info.domain == ERROR_DOMAIN);
        let reason = info.as_ref().map_or("", |info| info.reason.as_str());
        let seen = match reason {
            // No word of the broker's own: the connection. Any of these was seen when one is cut.
            "" => match status.code() {
                Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled => {
                    return Lost::Cut;
                }
                _ => Seen::Unexpected(status.to_string()),
            },
            "SHUTTING_DOWN" | "STORE_UNAVAILABLE" | "OVERLOADED" => return Lost::Cut,
            "TOKEN_UNKNOWN" | "WAIT_UNKNOWN" | "RECORD_MISSING" | "WAIT_PURGED" => {
                Seen::Unknown(status.to_string())
            }
            "REQUEST_ID_REUSED" if said.is_some() => return Lost::Answered,
            "ALREADY_SETTLED" => {
                case.settled.store(true, Ordering::Release);
                let metadata = info.map(|info| info.metadata).unwrap_or_default();
                let field = |name| metadata.get(name).map_or("", String::as_str);
                match said {
                    None => return Lost::Answered,
                    Some(said) => Seen::Refused {
                        said: said.clone(),
                        state: State::from_str_name(&format!("STATE_{}", field("state")))
                            .unwrap_or(State::Unspecified),
                        settle_micros: field("settle_time")
                            .parse::<jiff::Timestamp>()
                            .map_or(0, |t| t.as_microsecond()),
                    },
                }
            }
            _ => Seen::Unexpected(status.to_string()),
        };
        self.history.saw(case.number, began, seen);
        Lost::Answered
    }
}

fn token_of(case: &Case) -> String {
    let token = case.token();
    token.expect("its open was acknowledged").to_owned()
}
