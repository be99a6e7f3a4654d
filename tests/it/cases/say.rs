//! Short ways to say what is asked of a broker, and to read what it says.

use std::{collections::BTreeMap, future::Future, pin::Pin, time::Duration};

use abeyance::{
    domain::Timestamp,
    proto::{
        ERROR_DOMAIN,
        v1::{
            self, attach_request::Target, outcome::Result as Ended, question::Kind,
            resolve_request::Answer, wait::State, wait_event::Event, wait_spec::Expiry,
        },
    },
};
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use super::stage::Stage;

pub const SECOND: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);

/// A wait of an hour.
pub fn spec(name: &str) -> v1::WaitSpec {
    v1::WaitSpec {
        name: name.to_owned(),
        expiry: timeout(HOUR),
        ..Default::default()
    }
}

/// The same with a key.
pub fn keyed(name: &str, key: &str) -> v1::WaitSpec {
    v1::WaitSpec {
        key: key.to_owned(),
        ..spec(name)
    }
}

pub fn timeout(length: Duration) -> Option<Expiry> {
    Some(Expiry::Timeout(duration(length)))
}

pub fn duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).expect("short"),
        nanos: i32::try_from(length.subsec_nanos()).expect("below a second"),
    }
}

pub fn free(json: &str) -> Option<v1::Question> {
    Some(v1::Question {
        kind: Some(Kind::FreeJson(json.to_owned())),
    })
}

pub fn resolve(token: &str, json: &str) -> v1::ResolveRequest {
    v1::ResolveRequest {
        token: token.to_owned(),
        answer: Some(Answer::PayloadJson(json.to_owned())),
        request_id: String::new(),
        ..Default::default()
    }
}

pub fn fail(token: &str, reason: &str) -> v1::FailRequest {
    v1::FailRequest {
        token: token.to_owned(),
        reason: reason.to_owned(),
        ..Default::default()
    }
}

pub fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

/// A point in time as a message has it.
pub fn at(time: Timestamp) -> Option<prost_types::Timestamp> {
    let micros = time.as_micros();
    Some(prost_types::Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: i32::try_from(micros.rem_euclid(1_000_000) * 1000).expect("below a second"),
    })
}

/// The calls that nearly every test makes.
impl Stage {
    pub async fn try_open(&self, spec: v1::WaitSpec) -> Result<v1::OpenWaitResponse, Status> {
        self.try_open_as(spec, "").await
    }

    pub async fn try_open_as(
        &self,
        spec: v1::WaitSpec,
        request_id: &str,
    ) -> Result<v1::OpenWaitResponse, Status> {
        let request = v1::OpenWaitRequest {
            spec: Some(spec),
            request_id: request_id.to_owned(),
        };
        Ok(self.worker().open_wait(request).await?.into_inner())
    }

    pub async fn open(&self, spec: v1::WaitSpec) -> v1::Opened {
        let response = self.try_open(spec).await.expect("opens");
        response.opened.expect("opened")
    }

    pub async fn resolve(&self, token: &str, json: &str) -> Result<v1::ResolveResponse, Status> {
        let response = self.resolver().resolve(resolve(token, json)).await?;
        Ok(response.into_inner())
    }

    pub async fn fail(&self, token: &str, reason: &str) -> Result<v1::FailResponse, Status> {
        let response = self.resolver().fail(fail(token, reason)).await?;
        Ok(response.into_inner())
    }

    pub async fn cancel(&self, token: &str, reason: &str) -> Result<v1::Outcome, Status> {
        let request = v1::CancelWaitRequest {
            token: token.to_owned(),
            reason: reason.to_owned(),
        };
        let response = self.worker().cancel_wait(request).await?.into_inner();
        Ok(response.outcome.expect("an outcome"))
    }

    pub async fn mark_asked(&self, token: &str) -> Result<v1::MarkAskedResponse, Status> {
        let token = token.to_owned();
        let request = v1::MarkAskedRequest { token };
        Ok(self.worker().mark_asked(request).await?.into_inner())
    }

    pub async fn try_describe(&self, token: &str) -> Result<v1::Wait, Status> {
        let token = token.to_owned();
        let request = v1::DescribeWaitRequest { token };
        let response = self.resolver().describe_wait(request).await?.into_inner();
        Ok(response.wait.expect("a wait"))
    }

    pub async fn describe(&self, token: &str) -> v1::Wait {
        self.try_describe(token).await.expect("described")
    }

    pub async fn attach(&self, token: &str) -> Result<Events, Status> {
        let request = v1::AttachRequest {
            target: Some(Target::Token(token.to_owned())),
        };
        self.attach_to(request).await
    }

    pub async fn attach_to(
        &self,
        request: impl tonic::IntoRequest<v1::AttachRequest>,
    ) -> Result<Events, Status> {
        let stream = self.worker().attach(request).await?.into_inner();
        Ok(Events(Box::pin(stream.map(|m| {
            m.map(|m| m.event.and_then(|e| e.event).expect("an event"))
        }))))
    }

    pub async fn wait(&self, request: Request<v1::WaitRequest>) -> Result<Events, Status> {
        let stream = self.worker().wait(request).await?.into_inner();
        Ok(Events(Box::pin(stream.map(|m| {
            m.map(|m| m.event.and_then(|e| e.event).expect("an event"))
        }))))
    }

    /// What every later worker and the record's own reader are told: the outcome by an attach and by `DescribeWait`, the same.
    pub async fn outcome(&self, token: &str) -> v1::Outcome {
        let mut events = self.attach(token).await.expect("attaches");
        events.opened().await;
        let outcome = events.outcome().await;
        assert_eq!(self.describe(token).await.outcome.as_ref(), Some(&outcome));
        outcome
    }

    /// Asserts that nothing has become of a wait.
    pub async fn assert_pending(&self, token: &str) {
        let wait = self.describe(token).await;
        assert_eq!((wait.state(), wait.outcome), (State::Pending, None));
    }
}

/// A request for a `Wait` stream.
pub fn wait(spec: v1::WaitSpec) -> Request<v1::WaitRequest> {
    Request::new(v1::WaitRequest {
        spec: Some(spec),
        request_id: String::new(),
    })
}

/// The events of a stream.
pub struct Events(Pin<Box<dyn Stream<Item = Result<Event, Status>> + Send>>);

impl Events {
    /// The next event that is no sign of life.
    pub async fn next(&mut self) -> Option<Result<Event, Status>> {
        loop {
            match self.0.next().await {
                Some(Ok(Event::Alive(_))) => {}
                other => return other,
            }
        }
    }

    pub async fn opened(&mut self) -> v1::Opened {
        match self.next().await {
            Some(Ok(Event::Opened(opened))) => opened,
            other => panic!("not opened: {other:?}"),
        }
    }

    /// The outcome, which must be the last event.
    pub async fn outcome(&mut self) -> v1::Outcome {
        match self.next().await {
            Some(Ok(Event::Outcome(outcome))) => {
                assert!(self.next().await.is_none(), "something after the outcome");
                outcome
            }
            other => panic!("no outcome: {other:?}"),
        }
    }
}

/// The payload of an outcome that must be an answer.
pub fn payload(outcome: &v1::Outcome) -> &str {
    match &outcome.result {
        Some(Ended::Resolved(resolved)) => &resolved.payload_json,
        other => panic!("not resolved: {other:?}"),
    }
}

/// The cause and the reason of an outcome that must be an expiry.
pub fn expired(outcome: &v1::Outcome) -> (v1::expired::Cause, &str) {
    match &outcome.result {
        Some(Ended::Expired(expired)) => (expired.cause(), &expired.reason),
        other => panic!("not expired: {other:?}"),
    }
}

/// A refusal, read.
#[derive(Debug)]
pub struct Refused {
    pub code: Code,
    pub reason: String,
    pub metadata: BTreeMap<String, String>,
    /// Of `BadRequest`: fields and what is wrong with them.
    pub fields: Vec<(String, String)>,
    pub retry: Option<Duration>,
    pub message: String,
}

impl Refused {
    pub fn is(&self, code: Code, reason: &str) -> bool {
        (self.code, self.reason.as_str()) == (code, reason)
    }

    /// The names of the fields at fault.
    pub fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|(field, _)| &**field).collect()
    }

    #[track_caller]
    pub fn assert(self, code: Code, reason: &str) -> Self {
        assert!(self.is(code, reason), "not {reason}: {self:?}");
        self
    }
}

/// Reads the refusal that a call must have met.
#[track_caller]
pub fn refused<T>(result: Result<T, Status>) -> Refused {
    let status = match result {
        Ok(_) => panic!("not refused"),
        Err(status) => status,
    };
    let details = status.get_error_details();
    let info = details.error_info();
    let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, ERROR_DOMAIN);
    let fields = details.bad_request().map(|b| b.field_violations.clone());
    Refused {
        code: status.code(),
        reason: info.reason.clone(),
        metadata: info.metadata.clone().into_iter().collect(),
        fields: (fields.into_iter().flatten())
            .map(|v| (v.field, v.description))
            .collect(),
        retry: details.retry_info().and_then(|r| r.retry_delay),
        message: status.message().to_owned(),
    }
}

/// Plays `count` rounds, `width` of them at once.
pub async fn rounds<F>(count: usize, width: usize, round: impl Fn(usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut playing = JoinSet::new();
    for number in 0..count {
        if playing.len() >= width {
            playing.join_next().await.expect("one plays").expect("won");
        }
        playing.spawn(round(number));
    }
    while let Some(round) = playing.join_next().await {
        round.expect("won");
    }
}
