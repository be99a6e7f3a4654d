//! One wait, followed through all the streams it takes until its outcome.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tonic::{Code, Status, Streaming};

use super::{
    calls::Client,
    convert,
    decided::Decided,
    error::{Error, Refusal},
    outcome::Outcome,
    token::Token,
    types::Opened,
};
use crate::proto::v1::{self, attach_request::Target, wait_event::Event};

/// The period of `alive` events where a broker does not name it.
const ALIVE_INTERVAL: Duration = Duration::from_secs(25);
/// How long the end of a stream may take after its last event. It comes with that event, unless a proxy holds it back.
const END_OF_STREAM: Duration = Duration::from_secs(1);
/// A stream that lived for this long makes the next cut a first one. Shorter ones are a broker, or a proxy, in trouble.
const HEALTHY: Duration = Duration::from_secs(5);
/// The longest time that a broker may keep a client from attaching again.
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(600);

/// How the following of a wait is going.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Whether a stream is attached now.
    pub attached: bool,
    /// How many times the wait was attached to again after a cut.
    pub reattached: u64,
    /// The time left until the wait expires, as the broker told it last, and when it told it. `None` before it did.
    pub time_left: Option<(Duration, Instant)>,
    /// How it ended.
    pub(super) result: Option<Result<Outcome, Error>>,
}

impl Progress {
    /// A wait that was just attached to.
    pub(super) fn new() -> Self {
        Self {
            attached: true,
            reattached: 0,
            time_left: None,
            result: None,
        }
    }
}

/// Where the follower of a wait tells what it learns. Each is a state, so whoever looks late misses nothing.
pub(super) struct Told {
    pub(super) progress: watch::Sender<Progress>,
    pub(super) decided: watch::Sender<Option<Decided>>,
}

impl Told {
    /// Tells which calls are decided. A stream that was just attached to may know less than the one before: that is no news.
    fn decided(&self, decided: v1::Progress) {
        match Decided::from_wire(decided) {
            Ok(decided) => {
                self.decided.send_if_modified(|known| {
                    let news = decided.is_news_after(known.as_ref());
                    if news {
                        *known = Some(decided);
                    }
                    news
                });
            }
            // The outcome is what counts, and it does not depend on this.
            Err(error) => {
                tracing::debug!(%error, "an event that tells what is decided is left out")
            }
        }
    }
}

/// How to begin: open and stay, or attach to what is there.
#[derive(Clone)]
pub(super) enum Beginning {
    Wait(Box<v1::WaitRequest>),
    Attach(Target),
}

/// The events of a stream, of either rpc.
pub(super) enum Events {
    Wait(Streaming<v1::WaitResponse>),
    Attach(Streaming<v1::AttachResponse>),
}

impl Events {
    /// The next event. `Some(None)` is one that this client does not know.
    async fn next(&mut self) -> Result<Option<Option<Event>>, Status> {
        let event = match self {
            Self::Wait(stream) => stream.message().await?.map(|m| m.event),
            Self::Attach(stream) => stream.message().await?.map(|m| m.event),
        };
        Ok(event.map(|e| e.and_then(|e| e.event)))
    }

    /// Reads the stream to its end. Dropping it before its trailers would send a reset, and many resets cost the connection.
    async fn finish(mut self) {
        let end = async { while let Ok(Some(_)) = self.next().await {} };
        if timeout(END_OF_STREAM, end).await.is_err() {
            tracing::debug!("a stream did not end after its last event");
        }
    }
}

/// A stream that has begun.
pub(super) struct Stream {
    pub(super) opened: Opened,
    pub(super) events: Events,
    alive_interval: Duration,
}

/// Why a stream gave no outcome.
enum Cut {
    /// It was cut; the broker may have asked for a delay.
    Lost(Refusal),
    /// The broker let go of it as planned, since it reached its lifetime: there is no trouble to back off from.
    Lifetime(Duration),
}

impl Client {
    /// Begins a stream: one try, which ends when `opened` has arrived.
    ///
    /// # Errors
    /// What came instead. `Err(Ok(_))` is the transport's or the broker's word, `Err(Err(_))` is beyond repair.
    async fn begin(&self, beginning: &Beginning) -> Result<Stream, Result<Refusal, Error>> {
        let mut client = self.waits.clone();
        let first = async {
            let mut events = match beginning.clone() {
                Beginning::Wait(request) => Events::Wait(client.wait(*request).await?.into_inner()),
                Beginning::Attach(target) => {
                    let request = v1::AttachRequest {
                        target: Some(target),
                    };
                    Events::Attach(client.attach(request).await?.into_inner())
                }
            };
            let first = loop {
                match events.next().await? {
                    Some(Some(event)) => break Some(event),
                    Some(None) => {}
                    None => break None,
                }
            };
            Ok((first, events))
        };
        let (first, events) = self.bounded(first).await.map_err(Ok)?;
        match first {
            Some(Event::Opened(opened)) => {
                let alive_interval = convert::length(opened.alive_interval);
                Ok(Stream {
                    opened: convert::opened(opened).map_err(Err)?,
                    events,
                    alive_interval: if alive_interval.is_zero() {
                        ALIVE_INTERVAL
                    } else {
                        alive_interval
                    },
                })
            }
            Some(Event::Detached(detached)) => {
                events.finish().await;
                Err(Ok(let_go(&detached)))
            }
            Some(_) => Err(Err(Error::protocol(
                "a stream that does not begin with opened",
            ))),
            None => Err(Ok(ended())),
        }
    }

    /// Begins a stream, with patience.
    pub(super) async fn begin_patiently(&self, beginning: &Beginning) -> Result<Stream, Error> {
        let begun = Instant::now();
        let mut attempt = 0;
        loop {
            let refusal = match self.begin(beginning).await {
                Ok(stream) => return Ok(stream),
                Err(refusal) => refusal?,
            };
            let delay = self.next_try(refusal, attempt, begun, Some(self.settings.patience))?;
            tokio::time::sleep(delay).await;
            attempt += 1;
        }
    }
}

/// Follows a wait until its outcome and tells how that is going. The one reader of its streams.
pub(super) async fn follow(client: Client, stream: Stream, told: Told) {
    let token = stream.opened.token.clone();
    let result = follow_to_outcome(&client, token, stream, &told).await;
    told.progress.send_modify(|p| {
        p.attached = false;
        p.result = Some(result);
    });
}

async fn follow_to_outcome(
    client: &Client,
    token: Token,
    mut stream: Stream,
    told: &Told,
) -> Result<Outcome, Error> {
    let wait_id = stream.opened.wait_id.clone();
    let attach = Beginning::Attach(Target::Token(token.expose().to_owned()));
    let mut attempt = 0;
    loop {
        let begun = Instant::now();
        let mut cut = match read(stream, told).await? {
            Ok(outcome) => return Ok(outcome),
            Err(cut) => cut,
        };
        told.progress.send_modify(|p| p.attached = false);
        if begun.elapsed() >= HEALTHY && !is_scolding(&cut) {
            attempt = 0;
        }
        stream = loop {
            tokio::time::sleep(delay(client, cut, &mut attempt, &wait_id)?).await;
            match client.begin(&attach).await {
                Ok(stream) => break stream,
                Err(refusal) => cut = Cut::Lost(refusal?),
            }
        };
        told.progress.send_modify(|p| {
            p.attached = true;
            p.reattached += 1;
        });
    }
}

/// Reads one stream to its end.
async fn read(stream: Stream, told: &Told) -> Result<Result<Outcome, Cut>, Error> {
    let Stream {
        mut events,
        alive_interval,
        ..
    } = stream;
    loop {
        let event = match timeout(2 * alive_interval, events.next()).await {
            Ok(Ok(Some(event))) => event,
            Ok(Ok(None)) => return Ok(Err(Cut::Lost(ended()))),
            Ok(Err(status)) => return Ok(Err(Cut::Lost(status.into()))),
            Err(_) => {
                let silence = "no sign of life on the stream";
                return Ok(Err(Cut::Lost(Refusal::local(Code::Unavailable, silence))));
            }
        };
        match event {
            Some(Event::Outcome(outcome)) => {
                events.finish().await;
                return convert::outcome(outcome).map(Ok);
            }
            Some(Event::Alive(alive)) => told.progress.send_modify(|p| {
                p.time_left = Some((convert::length(alive.time_left), Instant::now()));
            }),
            Some(Event::Progress(decided)) => told.decided(decided),
            Some(Event::Detached(detached)) => {
                events.finish().await;
                return Ok(Err(match detached.reason() {
                    v1::detached::Reason::Lifetime => {
                        Cut::Lifetime(convert::length(detached.retry_delay))
                    }
                    _ => Cut::Lost(let_go(&detached)),
                }));
            }
            Some(Event::Opened(_)) | None => {}
        }
    }
}

/// How long to wait after a cut; the error, if it was a clear refusal.
fn delay(client: &Client, cut: Cut, attempt: &mut u32, wait_id: &str) -> Result<Duration, Error> {
    let refusal = match cut {
        Cut::Lifetime(delay) => {
            tracing::debug!(wait_id, "the stream reached its lifetime");
            return Ok(delay.min(LONGEST_RETRY_DELAY));
        }
        Cut::Lost(refusal) if refusal.is_passing() => refusal,
        Cut::Lost(refusal) => return Err(Error::Refused(Box::new(refusal))),
    };
    if refusal.code == Code::ResourceExhausted && *attempt == 0 {
        tracing::warn!(wait_id, cause = %refusal, "the broker, or a proxy, asks for restraint");
    }
    let asked_for = refusal.retry_delay.unwrap_or_default();
    let delay = client.settings.backoff.jittered(*attempt) + asked_for.min(LONGEST_RETRY_DELAY);
    tracing::debug!(wait_id, cause = %refusal, ?delay, "the stream was cut; attaching again");
    *attempt += 1;
    Ok(delay)
}

/// Whether a cut says that we do too much: then a stream that lived for a while does not take the backoff back.
fn is_scolding(cut: &Cut) -> bool {
    matches!(cut, Cut::Lost(refusal) if refusal.code == Code::ResourceExhausted)
}

fn ended() -> Refusal {
    Refusal::local(Code::Unavailable, "the stream ended without an outcome")
}

fn let_go(detached: &v1::Detached) -> Refusal {
    let mut refusal = Refusal::local(Code::Unavailable, "the broker let go of the stream");
    refusal.retry_delay = detached.retry_delay.map(|d| convert::length(Some(d)));
    refusal
}
