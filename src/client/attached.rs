//! One wait, followed through all the streams it takes until its outcome.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};
use tonic::{Code, Request, Status, Streaming};

use super::{
    calls::{Client, LONGEST_RETRY_DELAY, MESSAGE_BYTES},
    convert,
    decided::Decided,
    error::{Error, Refusal},
    line::Hold,
    outcome::Outcome,
    token::Token,
    types::Opened,
};
use crate::proto::v1::{
    self, attach_request::Target, wait_event::Event, wait_service_client::WaitServiceClient,
};

/// The period of `alive` events where a broker does not name it.
const ALIVE_INTERVAL: Duration = Duration::from_secs(25);
/// How long the end of a stream may take after its last event. It comes with that event, unless a proxy holds it back.
const END_OF_STREAM: Duration = Duration::from_secs(1);
/// A stream that lived for this long makes the next cut a first one. Shorter ones are a broker, or a proxy, in trouble.
const HEALTHY: Duration = Duration::from_secs(5);
/// The longest that a stream is held before it is attached to anew, and how much earlier that may be. No timer is longer, so that none
/// outlives what stands between client and broker, and streams that began in one moment do not end in one.
const WINDOW: Duration = Duration::from_secs(3600);
const WINDOW_SPREAD: Duration = Duration::from_secs(360);

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
    hold: Hold,
    /// When its deadline passes.
    window_ends: Instant,
}

/// Why a stream gave no outcome.
enum Cut {
    /// It was cut; the broker may have asked for a delay.
    Lost(Hold, Refusal),
    /// It ended as planned, at the end of the client's window or of the lifetime that the broker grants: there is no trouble to back
    /// off from, and a delay only if the broker named one.
    Planned(Duration),
}

/// Why a stream did not begin.
enum Unbegun {
    /// The transport's or the broker's word.
    Lost(Hold, Refusal),
    /// Beyond repair.
    Broken(Error),
}

impl Client {
    /// Begins a stream: one try, which ends when `opened` has arrived.
    ///
    /// # Errors
    /// What came instead.
    async fn begin(&self, beginning: &Beginning) -> Result<Stream, Unbegun> {
        let mut hold = self.waits.hold();
        let window = window();
        let window_ends = Instant::now() + window;
        let first = async |channel| {
            let client = WaitServiceClient::new(channel);
            let mut client = client.max_decoding_message_size(MESSAGE_BYTES);
            let mut events = match beginning.clone() {
                Beginning::Wait(request) => {
                    let request = within(window, *request);
                    Events::Wait(client.wait(request).await?.into_inner())
                }
                Beginning::Attach(target) => {
                    let target = Some(target);
                    let request = within(window, v1::AttachRequest { target });
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
        let (first, events) = match self.bounded(&mut hold, first).await {
            Ok(begun) => begun,
            Err(refusal) => return Err(Unbegun::Lost(hold, refusal)),
        };
        match first {
            Some(Event::Opened(opened)) => {
                let alive_interval = convert::length(opened.alive_interval);
                Ok(Stream {
                    opened: convert::opened(opened).map_err(Unbegun::Broken)?,
                    events,
                    alive_interval: if alive_interval.is_zero() {
                        ALIVE_INTERVAL
                    } else {
                        alive_interval
                    },
                    hold,
                    window_ends,
                })
            }
            Some(Event::Detached(detached)) => {
                events.finish().await;
                Err(Unbegun::Lost(hold, let_go(&detached)))
            }
            Some(_) => Err(Unbegun::Broken(Error::protocol(
                "a stream that does not begin with opened",
            ))),
            None => Err(Unbegun::Lost(hold, ended())),
        }
    }

    /// Begins a stream, with patience.
    pub(super) async fn begin_patiently(&self, beginning: &Beginning) -> Result<Stream, Error> {
        let begun = Instant::now();
        let mut attempt = 0;
        loop {
            let (hold, refusal) = match self.begin(beginning).await {
                Ok(stream) => return Ok(stream),
                Err(Unbegun::Lost(hold, refusal)) => (hold, refusal),
                Err(Unbegun::Broken(error)) => return Err(error),
            };
            let patience = Some(self.settings.patience);
            let delay = self.next_try(&hold, refusal, &mut attempt, begun, patience)?;
            tokio::time::sleep(delay).await;
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
        let mut healthy = begun.elapsed() >= HEALTHY;
        stream = loop {
            let delay = delay(client, cut, &mut attempt, healthy, &wait_id)?;
            tokio::time::sleep(delay).await;
            cut = match client.begin(&attach).await {
                Ok(stream) => break stream,
                Err(Unbegun::Lost(hold, refusal)) => Cut::Lost(hold, refusal),
                Err(Unbegun::Broken(error)) => return Err(error),
            };
            healthy = false;
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
        hold,
        window_ends,
        ..
    } = stream;
    let begun = Instant::now();
    // The broker ends the stream at its deadline; one that does not is let go of a little later.
    let overdue = window_ends + END_OF_STREAM;
    loop {
        let silent = Instant::now() + 2 * alive_interval;
        let event = match timeout_at(silent.min(overdue), events.next()).await {
            Ok(Ok(Some(event))) => event,
            Ok(Ok(None)) => return Ok(Err(Cut::Lost(hold, ended()))),
            Ok(Err(status)) => return Ok(Err(cut_by(status, hold, window_ends))),
            Err(_) if overdue <= silent => return Ok(Err(Cut::Planned(Duration::ZERO))),
            Err(_) => {
                hold.went_silent();
                let silence = "no sign of life on the stream";
                let refusal = Refusal::local(Code::Unavailable, silence);
                return Ok(Err(Cut::Lost(hold, refusal)));
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
                    // A broker that plans short streams must not be called as fast as it can answer.
                    v1::detached::Reason::Lifetime if begun.elapsed() >= HEALTHY => {
                        Cut::Planned(convert::length(detached.retry_delay))
                    }
                    _ => Cut::Lost(hold, let_go(&detached)),
                }));
            }
            Some(Event::Opened(_)) | None => {}
        }
    }
}

/// What a status says that ended a stream: at the end of its window it is the deadline that we set.
fn cut_by(status: Status, hold: Hold, window_ends: Instant) -> Cut {
    if status.code() == Code::DeadlineExceeded && Instant::now() + END_OF_STREAM >= window_ends {
        return Cut::Planned(Duration::ZERO);
    }
    Cut::Lost(hold, status.into())
}

/// How long to wait after a cut; the error, if it was a clear refusal. A cut of a stream that was healthy is a first one.
fn delay(
    client: &Client,
    cut: Cut,
    attempt: &mut u32,
    healthy: bool,
    wait_id: &str,
) -> Result<Duration, Error> {
    let (hold, refusal) = match cut {
        Cut::Planned(delay) => {
            tracing::debug!(wait_id, "the stream ended as planned");
            *attempt = 0;
            return Ok(delay.min(LONGEST_RETRY_DELAY));
        }
        Cut::Lost(hold, refusal) if refusal.is_passing() => (hold, refusal),
        Cut::Lost(_, refusal) => return Err(Error::Refused(Box::new(refusal))),
    };
    let delay = client.delay(&hold, &refusal, attempt, healthy);
    tracing::debug!(wait_id, cause = %refusal, ?delay, "the stream was cut; attaching again");
    Ok(delay)
}

/// How long the next stream is held.
fn window() -> Duration {
    let random = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    WINDOW - WINDOW_SPREAD.mul_f64(random)
}

/// A request whose stream ends by itself after `window`. It is no wait's timeout: a wait that is opened always says its own.
fn within<T>(window: Duration, request: T) -> Request<T> {
    let mut request = Request::new(request);
    request.set_timeout(window);
    request
}

fn ended() -> Refusal {
    Refusal::local(Code::Unavailable, "the stream ended without an outcome")
}

fn let_go(detached: &v1::Detached) -> Refusal {
    let mut refusal = Refusal::local(Code::Unavailable, "the broker let go of the stream");
    refusal.retry_delay = detached.retry_delay.map(|d| convert::length(Some(d)));
    refusal
}
