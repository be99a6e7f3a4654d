//! The generated client, with short names.

use std::{collections::BTreeMap, pin::Pin};

use abeyance::proto::v1::{
    self, attach_request::Target, inbox_service_client::InboxServiceClient, outcome,
    resolve_request::Answer, resolve_service_client::ResolveServiceClient, wait_event::Event,
    wait_service_client::WaitServiceClient, wait_spec::Expiry,
};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Code, Request, Status, Streaming, transport::Channel};
use tonic_types::StatusExt as _;

use super::soon;

/// The three services of a broker, over one connection. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub struct Calls {
    pub waits: WaitServiceClient<Channel>,
    pub resolves: ResolveServiceClient<Channel>,
    pub inbox: InboxServiceClient<Channel>,
}

/// What to open: a wait of an hour.
pub fn spec(name: &str) -> v1::WaitSpec {
    v1::WaitSpec {
        name: name.to_owned(),
        expiry: Some(Expiry::Timeout(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        })),
        labels: BTreeMap::new(),
        ..v1::WaitSpec::default()
    }
}

/// The same, with a key.
pub fn spec_with_key(name: &str, key: &str) -> v1::WaitSpec {
    v1::WaitSpec {
        key: key.to_owned(),
        ..spec(name)
    }
}

impl Calls {
    /// Connects.
    pub async fn connect(url: &str) -> Self {
        let endpoint = Channel::from_shared(url.to_owned()).expect("a URL");
        Self::over(soon("connect", endpoint.connect()).await.expect("connects"))
    }

    /// Over a channel that was made elsewhere.
    pub fn over(channel: Channel) -> Self {
        Self {
            waits: WaitServiceClient::new(channel.clone()),
            resolves: ResolveServiceClient::new(channel.clone()),
            inbox: InboxServiceClient::new(channel),
        }
    }

    /// `OpenWait`.
    pub async fn open(&self, spec: v1::WaitSpec) -> Result<v1::OpenWaitResponse, Status> {
        let request = v1::OpenWaitRequest {
            spec: Some(spec),
            request_id: String::new(),
        };
        let response = self.waits.clone().open_wait(request).await?;
        Ok(response.into_inner())
    }

    /// `OpenWait`, which must succeed; its token.
    pub async fn token(&self, spec: v1::WaitSpec) -> String {
        let response = soon("open", self.open(spec)).await.expect("opens");
        response.opened.expect("opened").token
    }

    /// `Wait`.
    pub async fn wait(&self, spec: v1::WaitSpec) -> Result<Attached, Status> {
        let request = v1::WaitRequest {
            spec: Some(spec),
            request_id: String::new(),
        };
        let response = self.waits.clone().wait(request).await?;
        Attached::new(response.into_inner(), |m| m.event).await
    }

    /// `Attach` by token.
    pub async fn attach(&self, token: &str) -> Result<Attached, Status> {
        self.attach_to(Target::Token(token.to_owned())).await
    }

    /// `Attach` by key, in the default namespace.
    pub async fn attach_by_key(&self, key: &str) -> Result<Attached, Status> {
        self.attach_to(Target::Key(v1::WaitKey {
            namespace: String::new(),
            key: key.to_owned(),
        }))
        .await
    }

    async fn attach_to(&self, target: Target) -> Result<Attached, Status> {
        self.attach_request(Request::new(v1::AttachRequest {
            target: Some(target),
        }))
        .await
    }

    /// `Attach`, with whatever the request carries.
    pub async fn attach_request(
        &self,
        request: Request<v1::AttachRequest>,
    ) -> Result<Attached, Status> {
        let response = self.waits.clone().attach(request).await?;
        Attached::new(response.into_inner(), |m| m.event).await
    }

    /// `Resolve`.
    pub async fn resolve(&self, token: &str, json: &str) -> Result<v1::ResolveResponse, Status> {
        let request = v1::ResolveRequest {
            token: token.to_owned(),
            answer: Some(Answer::PayloadJson(json.to_owned())),
            request_id: String::new(),
            ..Default::default()
        };
        let response = self.resolves.clone().resolve(request).await?;
        Ok(response.into_inner())
    }

    /// `Fail`.
    pub async fn fail(&self, token: &str, reason: &str) -> Result<v1::FailResponse, Status> {
        let request = v1::FailRequest {
            token: token.to_owned(),
            reason: reason.to_owned(),
            ..v1::FailRequest::default()
        };
        Ok(self.resolves.clone().fail(request).await?.into_inner())
    }

    /// `CancelWait`; the outcome that is recorded.
    pub async fn cancel(&self, token: &str, reason: &str) -> Result<v1::Outcome, Status> {
        let request = v1::CancelWaitRequest {
            token: token.to_owned(),
            reason: reason.to_owned(),
        };
        let response = self.waits.clone().cancel_wait(request).await?;
        Ok(response.into_inner().outcome.expect("an outcome"))
    }

    /// `DescribeWait`.
    pub async fn describe(&self, token: &str) -> Result<v1::Wait, Status> {
        let request = v1::DescribeWaitRequest {
            token: token.to_owned(),
        };
        let response = self.resolves.clone().describe_wait(request).await?;
        Ok(response.into_inner().wait.expect("a wait"))
    }

    /// The state of a wait, which must be there.
    pub async fn state(&self, token: &str) -> v1::wait::State {
        let wait = soon("describe", self.describe(token)).await;
        wait.expect("is there").state()
    }
}

/// A stream that is attached to a wait, of either rpc. Its first event was `opened`.
pub struct Attached {
    /// The first event.
    pub opened: v1::Opened,
    events: Pin<Box<dyn Stream<Item = Result<Event, Status>> + Send>>,
}

impl Attached {
    async fn new<M: Send + 'static>(
        stream: Streaming<M>,
        event: fn(M) -> Option<v1::WaitEvent>,
    ) -> Result<Self, Status> {
        let mut events = Box::pin(stream.map(move |message| {
            let event = event(message?).and_then(|e| e.event);
            Ok(event.expect("an event that is known"))
        }));
        match events.next().await {
            Some(Ok(Event::Opened(opened))) => Ok(Self { opened, events }),
            Some(Err(status)) => Err(status),
            other => panic!("a stream must begin with opened: {other:?}"),
        }
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.opened.token
    }

    /// The next event, signs of life included; `None` at the end, if it was OK.
    pub async fn event(&mut self) -> Result<Option<Event>, Status> {
        soon("an event", self.events.next()).await.transpose()
    }

    /// The last event, and how the stream ended behind it.
    pub async fn last(&mut self) -> (Option<Event>, Result<(), Status>) {
        let mut last = None;
        loop {
            match self.event().await {
                Ok(Some(Event::Alive(_))) => {}
                Ok(Some(event)) => {
                    assert!(last.is_none(), "{event:?} behind the last event {last:?}");
                    last = Some(event);
                }
                Ok(None) => return (last, Ok(())),
                Err(status) => return (last, Err(status)),
            }
        }
    }

    /// The outcome, which must come, and the stream end with OK behind it.
    pub async fn outcome(&mut self) -> v1::Outcome {
        match self.last().await {
            (Some(Event::Outcome(outcome)), Ok(())) => outcome,
            other => panic!("no outcome: {other:?}"),
        }
    }

    /// The answer, which must come.
    pub async fn answer(&mut self) -> String {
        payload(&self.outcome().await).to_owned()
    }
}

/// The answer of a resolved wait.
pub fn payload(outcome: &v1::Outcome) -> &str {
    match &outcome.result {
        Some(outcome::Result::Resolved(_)) if outcome.results.is_some() => &outcome.results_json,
        Some(outcome::Result::Resolved(resolved)) => &resolved.payload_json,
        other => panic!("not resolved: {other:?}"),
    }
}

/// The reason in a refusal's `ErrorInfo`; empty if there is none.
pub fn details_reason(status: &Status) -> String {
    status
        .get_details_error_info()
        .map_or_else(String::new, |info| info.reason)
}

/// Code and reason of a refusal.
pub fn code_and_reason(status: &Status) -> (Code, String) {
    (status.code(), details_reason(status))
}
