//! What the load sends. Templates are encoded once; a call costs one copy.

use abeyance::proto::v1;
use bytes::{Bytes, BytesMut};
use prost::Message as _;
use uuid::Uuid;

use crate::{Result, wire::frame};

/// The size of an encoded `OpenWaitRequest`, in bytes.
const OPEN_BYTES: usize = 340;

/// The size of an answer's JSON, in bytes.
pub const PAYLOAD_BYTES: usize = 200;

/// Stands where the `request_id` goes. As long as one, and nowhere else in the message.
const PLACEHOLDER: &str = "????????-????-????-????-????????????";

/// The framed request of an open, and where its `request_id` stands.
///
/// `WaitRequest` and `OpenWaitRequest` have the same fields under the same numbers, so it serves both.
pub struct OpenTemplate {
    framed: Bytes,
    request_id_at: usize,
}

impl OpenTemplate {
    pub fn new() -> Self {
        let bare = open_request(free(0)).encoded_len();
        // Beyond 127 bytes the length of a field takes two bytes, which three lengths here do.
        Self::asking(free(OPEN_BYTES - bare - 3))
    }

    /// One that asks this.
    pub fn asking(question: v1::Question) -> Self {
        let framed = frame(&open_request(question));
        let request_id_at = framed
            .windows(PLACEHOLDER.len())
            .position(|window| window == PLACEHOLDER.as_bytes())
            .expect("the request has a request_id");
        Self {
            framed,
            request_id_at,
        }
    }

    /// A request of its own: with a `request_id` that was never used before.
    pub fn fresh(&self) -> Bytes {
        let mut framed = BytesMut::from(&self.framed[..]);
        let place = &mut framed[self.request_id_at..][..PLACEHOLDER.len()];
        Uuid::now_v7().as_hyphenated().encode_lower(place);
        framed.freeze()
    }
}

fn free(padding: usize) -> v1::Question {
    let question = format!(
        r#"{{"tool":"refund","amount":120,"currency":"EUR","why":"{}"}}"#,
        "x".repeat(padding)
    );
    v1::Question {
        kind: Some(v1::question::Kind::FreeJson(question)),
    }
}

fn open_request(question: v1::Question) -> v1::OpenWaitRequest {
    let labels = [("customer", "c-20481"), ("team", "payments")];
    v1::OpenWaitRequest {
        spec: Some(v1::WaitSpec {
            name: "refund.approval".to_owned(),
            expiry: Some(v1::wait_spec::Expiry::Timeout(prost_types::Duration {
                seconds: 24 * 3600,
                nanos: 0,
            })),
            question: Some(question),
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..v1::WaitSpec::default()
        }),
        request_id: PLACEHOLDER.to_owned(),
    }
}

/// The framed request that answers the wait of `token`.
pub fn resolve(token: String, json: &str) -> Bytes {
    frame(&v1::ResolveRequest {
        token,
        answer: Some(v1::resolve_request::Answer::PayloadJson(json.to_owned())),
        ..v1::ResolveRequest::default()
    })
}

/// An answer to a free question.
pub fn payload() -> String {
    let frame = r#"{"approved":true,"note":""}"#.len();
    let note = "y".repeat(PAYLOAD_BYTES - frame);
    format!(r#"{{"approved":true,"note":"{note}"}}"#)
}

/// The token in an undecoded `OpenWaitResponse`.
pub fn opened_token(response: Bytes) -> Result<String> {
    let response = v1::OpenWaitResponse::decode(response)?;
    Ok(response.opened.ok_or("no `opened` came")?.token)
}

/// The event in an undecoded `WaitResponse`.
pub fn event(response: Bytes) -> Result<v1::wait_event::Event> {
    let response = v1::WaitResponse::decode(response)?;
    let event = response.event.and_then(|event| event.event);
    Ok(event.ok_or("an empty event came")?)
}

/// The token in the first event of a stream.
pub fn started(first: v1::wait_event::Event) -> Result<String> {
    match first {
        v1::wait_event::Event::Opened(opened) => Ok(opened.token),
        other => Err(format!("a stream began with {other:?}").into()),
    }
}

/// The answer that an event delivers, if it is the outcome.
pub fn answer(event: v1::wait_event::Event) -> Result<Option<String>> {
    use v1::{outcome::Result as R, wait_event::Event};
    match event {
        Event::Outcome(v1::Outcome {
            result: Some(R::Resolved(resolved)),
            ..
        }) => Ok(Some(resolved.payload_json)),
        Event::Alive(_) => Ok(None),
        other => Err(format!("something else than an answer came: {other:?}").into()),
    }
}
