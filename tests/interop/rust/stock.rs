//! Waits that the generated stub holds alone, on a channel with settings of the runner's choice: no attaching again, no client.

use std::time::Duration;

use abeyance::proto::v1::{self, wait_event::Event, wait_service_client::WaitServiceClient};
use serde_json::{Value, json};
use tonic::{Request, Status, Streaming, transport::Endpoint};

use crate::forms::{Failure, text};

/// A stream that has begun.
pub struct Held {
    pub opened: v1::Opened,
    events: Streaming<v1::WaitResponse>,
}

impl Held {
    /// Opens a wait whose timeout is the deadline of this call.
    pub async fn by_deadline(request: &Value) -> Result<Self, Failure> {
        let deadline = Duration::from_millis(request["deadline_ms"].as_u64().unwrap_or_default());
        let mut wait = Request::new(wait(request, None)?);
        wait.set_timeout(deadline);
        Self::begin(endpoint(request)?, wait).await
    }

    /// Opens a wait on a connection that is pinged as often as the runner says, also without calls.
    pub async fn with_keepalive(request: &Value) -> Result<Self, Failure> {
        let milliseconds = |field: &str| {
            let n = request[field].as_u64();
            n.map(Duration::from_millis)
                .ok_or_else(|| Failure::client(format!("{field} is missing")))
        };
        let wait = Request::new(wait(request, Some(milliseconds("timeout_ms")?))?);
        let endpoint = endpoint(request)?
            .http2_keep_alive_interval(milliseconds("keepalive_ms")?)
            .keep_alive_while_idle(true);
        Self::begin(endpoint, wait).await
    }

    async fn begin(endpoint: Endpoint, wait: Request<v1::WaitRequest>) -> Result<Self, Failure> {
        let channel = endpoint.connect().await.map_err(Failure::client)?;
        let mut events = WaitServiceClient::new(channel)
            .wait(wait)
            .await
            .map_err(refused)?
            .into_inner();
        match next(&mut events).await? {
            Event::Opened(opened) => Ok(Self { opened, events }),
            other => Err(Failure::client(format!("{other:?} came before opened"))),
        }
    }

    /// How the stream ends: with an outcome, or as an error.
    pub async fn outcome(mut self) -> Result<Value, Failure> {
        loop {
            match next(&mut self.events).await? {
                Event::Outcome(outcome) => return Ok(told(&outcome)),
                Event::Detached(_) => {
                    return Err(Failure::client("the broker let go of the stream"));
                }
                _ => {}
            }
        }
    }
}

async fn next(events: &mut Streaming<v1::WaitResponse>) -> Result<Event, Failure> {
    loop {
        let Some(message) = events.message().await.map_err(refused)? else {
            return Err(Failure::client("the stream ended without an outcome"));
        };
        if let Some(event) = message.event.and_then(|e| e.event) {
            return Ok(event);
        }
    }
}

fn told(outcome: &v1::Outcome) -> Value {
    use v1::outcome::Result as End;
    let state = outcome.state().as_str_name();
    let mut answer = json!({"state": state.trim_start_matches("STATE_"), "reattached": 0});
    match &outcome.result {
        Some(End::Resolved(resolved)) => answer["payload_json"] = json!(resolved.payload_json),
        Some(End::Expired(expired)) => {
            let cause = expired.cause().as_str_name();
            answer["cause"] = json!(cause.trim_start_matches("CAUSE_"));
            answer["reason"] = json!(expired.reason);
        }
        Some(End::Failed(failed)) => answer["reason"] = json!(failed.reason),
        Some(End::Cancelled(cancelled)) => answer["reason"] = json!(cancelled.reason),
        None => {}
    }
    answer
}

fn wait(request: &Value, timeout: Option<Duration>) -> Result<v1::WaitRequest, Failure> {
    let expiry = timeout
        .map(prost_types::Duration::try_from)
        .transpose()
        .map_err(Failure::client)?
        .map(v1::wait_spec::Expiry::Timeout);
    let spec = v1::WaitSpec {
        name: text(request, "name")?.to_owned(),
        expiry,
        ..v1::WaitSpec::default()
    };
    Ok(v1::WaitRequest {
        spec: Some(spec),
        ..v1::WaitRequest::default()
    })
}

fn endpoint(request: &Value) -> Result<Endpoint, Failure> {
    let target = text(request, "target")?;
    Endpoint::from_shared(format!("http://{target}")).map_err(Failure::client)
}

fn refused(status: Status) -> Failure {
    Failure::status(status.code(), status.message())
}
