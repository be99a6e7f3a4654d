//! One of the client's connections: replaced when it froze, and left alone for a while when its server asks for that.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use super::{
    error::Refusal,
    overheard::{Connector, Over, Scoldings},
};

/// Each scolding doubles the time between two pings, up to this.
const LONGEST_KEEP_ALIVE: Duration = Duration::from_secs(3600);
/// For how long a failure to connect is told to whoever needs the connection too, before it is tried again.
const FAILED: Duration = Duration::from_millis(100);
/// How long a cause that was reported is not reported again.
const REPORTED: Duration = Duration::from_secs(3600);

/// A connection that many calls share. Clones are the same line.
///
/// It connects once for all who need it, and tells all of them if that fails: a thousand waits that lost their connection must not
/// become a thousand connections, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Line(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// How to connect. `None` for a channel that was made elsewhere, which stays.
    endpoint: Option<Endpoint>,
    scoldings: Arc<Scoldings>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    state: State,
    /// Which connection this is. It counts up as they are given up.
    number: u64,
    keep_alive_interval: Duration,
    reported: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Idle,
    /// Those who need the connection wait for it here: `Some` once it is there or failed.
    Connecting(watch::Receiver<Option<Result<(), Refusal>>>),
    /// And since when.
    Connected(Channel, Over, Instant),
    Failed(Refusal, Instant),
}

/// The line as one try found it.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    line: Line,
    /// Of the connection that the try was made on.
    number: Option<u64>,
    scoldings: u64,
}

impl Line {
    /// A line that connects when it is first used.
    pub(super) fn new(endpoint: Endpoint, keep_alive_interval: Duration) -> Self {
        Self::of(Some(endpoint), State::Idle, keep_alive_interval)
    }

    /// A channel that was made elsewhere.
    pub(super) fn fixed(channel: Channel) -> Self {
        let state = State::Connected(channel, Over::default(), Instant::now());
        Self::of(None, state, Duration::ZERO)
    }

    fn of(endpoint: Option<Endpoint>, state: State, keep_alive_interval: Duration) -> Self {
        let current = Current {
            state,
            number: 0,
            keep_alive_interval,
            reported: None,
        };
        Self(Arc::new(Shared {
            endpoint,
            scoldings: Arc::default(),
            current: Mutex::new(current),
        }))
    }

    /// The line for one try.
    pub(super) fn hold(&self) -> Hold {
        Hold {
            line: self.clone(),
            number: None,
            scoldings: self.0.scoldings.count(),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        let lock = self.0.current.lock();
        // Nothing in here can be left half done.
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection and its number, made if need be.
    async fn channel(&self) -> Result<(Channel, u64), Refusal> {
        loop {
            let mut connecting = {
                let mut current = self.current();
                match &current.state {
                    State::Connected(channel, over, _) if !over.is_set() => {
                        return Ok((channel.clone(), current.number));
                    }
                    // So does a proxy whose broker is down.
                    State::Connected(_, _, since) if since.elapsed() < FAILED => {
                        let closed = "the connection was closed as soon as it was made";
                        return Err(Refusal::local(Code::Unavailable, closed));
                    }
                    State::Failed(refusal, at) if at.elapsed() < FAILED => {
                        return Err(refusal.clone());
                    }
                    State::Connecting(connecting) if connecting.has_changed().is_ok() => {
                        connecting.clone()
                    }
                    _ => self.connect(&mut current),
                }
            };
            match connecting.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(Err(refusal))) => return Err(refusal.clone()),
                Ok(_) => {}
                // Its runtime was shut down.
                Err(_) => {
                    let stopped = "the connection was given up while it was made";
                    return Err(Refusal::local(Code::Unavailable, stopped));
                }
            }
        }
    }

    /// Begins to connect, in a task of its own: whoever needed it first may be cancelled, and others wait too.
    fn connect(&self, current: &mut Current) -> watch::Receiver<Option<Result<(), Refusal>>> {
        let (tell, connecting) = watch::channel(None);
        current.state = State::Connecting(connecting.clone());
        current.number += 1;
        let (line, number) = (self.clone(), current.number);
        let over = Over::default();
        let connector = Connector::new(self.0.scoldings.clone(), over.clone());
        let endpoint = self.0.endpoint.clone();
        let keep_alive_interval = current.keep_alive_interval;
        tokio::spawn(async move {
            let Some(endpoint) = endpoint else { return };
            let endpoint = endpoint.http2_keep_alive_interval(keep_alive_interval);
            let made = endpoint.connect_with_connector(connector).await;
            let (state, result) = match made {
                Ok(channel) => (State::Connected(channel, over, Instant::now()), Ok(())),
                Err(error) => {
                    let mut refusal = Refusal::from(Status::from_error(Box::new(error)));
                    refusal.code = Code::Unavailable;
                    (State::Failed(refusal.clone(), Instant::now()), Err(refusal))
                }
            };
            let mut current = line.current();
            if current.number == number {
                current.state = state;
            }
            // Nobody may be waiting any more.
            let _ = tell.send(Some(result));
        });
        connecting
    }

    /// Leaves a connection to what goes on with it, and connects anew for all tries to come, unless another try saw to that already.
    fn leave(&self, number: Option<u64>, lengthen: u32) {
        let mut current = self.current();
        if self.0.endpoint.is_some() && Some(current.number) == number {
            let longer = current.keep_alive_interval.saturating_mul(lengthen);
            // One that was set longer than that stays.
            current.keep_alive_interval =
                longer.min(LONGEST_KEEP_ALIVE.max(current.keep_alive_interval));
            current.state = State::Idle;
            current.number += 1;
        }
    }

    /// Tells people why the client holds back, once.
    fn report(&self, cause: &str) {
        let mut current = self.current();
        if current.reported.is_none_or(|at| at.elapsed() >= REPORTED) {
            current.reported = Some(Instant::now());
            tracing::warn!(
                cause,
                "the broker, or a proxy, asks for restraint; trying less often"
            );
        }
    }
}

impl Hold {
    /// The connection for this try.
    ///
    /// # Errors
    /// It could not be made, now or a moment ago.
    pub(super) async fn channel(&mut self) -> Result<Channel, Refusal> {
        let (channel, number) = self.line.channel().await?;
        self.number = Some(number);
        Ok(channel)
    }

    /// Nothing arrived for so long that the connection must be taken for dead. The next try is made on another.
    pub(super) fn went_silent(&self) {
        self.line.leave(self.number, 1);
    }

    /// Whether `refusal`, the end of this try, says that the client does too much.
    pub(super) fn is_scolded(&self, refusal: &Refusal) -> bool {
        if self.line.0.scoldings.count() > self.scoldings {
            let text = self.line.0.scoldings.text();
            self.line
                .report(&format!("GOAWAY ENHANCE_YOUR_CALM {text:?}"));
            self.line.leave(self.number, 2);
            return true;
        }
        if refusal.code == Code::ResourceExhausted {
            self.line.report(&refusal.to_string());
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use tokio::{net::TcpListener, task::JoinSet};

    use super::*;

    const PING: Duration = Duration::from_secs(300);

    /// A server that accepts connections and says nothing, and a line to it.
    async fn line() -> (TcpListener, Line) {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        (server, Line::new(endpoint, PING))
    }

    async fn on(line: &Line) -> Hold {
        let mut hold = line.hold();
        hold.channel().await.expect("connects");
        hold
    }

    fn passing() -> Refusal {
        Refusal::local(Code::Unknown, "a broken pipe")
    }

    fn scold(line: &Line) {
        let goaway = b"\0\0\0\0\0\0\0\x0btoo_many_pings";
        line.0.scoldings.hear(goaway);
    }

    #[tokio::test]
    async fn all_who_need_a_connection_share_one() {
        let (server, line) = line().await;
        let mut holds = JoinSet::new();
        for _ in 0..100 {
            let line = line.clone();
            holds.spawn(async move { on(&line).await.number });
        }
        let numbers = holds.join_all().await;
        assert!(numbers.iter().all(|n| *n == numbers[0]), "{numbers:?}");
        let (connection, _) = server.accept().await.unwrap();
        // What the server closes is not used again, and what it closes at once is not made again for a moment.
        drop(connection);
        while !connected_since(&line, Instant::now()) {
            tokio::task::yield_now().await;
        }
        let closed = line.hold().channel().await.expect_err("closed at once");
        assert_eq!(closed.code, Code::Unavailable);
        connected_since(&line, Instant::now() - FAILED);
        let again = on(&line).await.number;
        assert_ne!(again, numbers[0]);
        assert_eq!(on(&line).await.number, again);
    }

    /// Puts another time of its making on the connection, and says whether it is over.
    fn connected_since(line: &Line, time: Instant) -> bool {
        match &mut line.current().state {
            State::Connected(_, over, since) => {
                *since = time;
                over.is_set()
            }
            other => panic!("not connected: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_and_then_tried_again() {
        let (server, line) = line().await;
        let address = server.local_addr().unwrap();
        drop(server);
        let mut holds = JoinSet::new();
        for _ in 0..100 {
            let line = line.clone();
            holds.spawn(async move { line.hold().channel().await.map(drop) });
        }
        for failed in holds.join_all().await {
            let refusal = failed.expect_err("nobody listens");
            assert_eq!(refusal.code, Code::Unavailable);
            assert!(refusal.message.contains("refused"), "{refusal}");
        }
        assert_eq!(line.current().number, 1, "one connection for all of them");
        let _server = TcpListener::bind(address).await.unwrap();
        tokio::time::sleep(FAILED).await;
        on(&line).await;
    }

    #[tokio::test]
    async fn a_frozen_connection_is_left_once_by_whoever_notices_first() {
        let (_server, line) = line().await;
        let (one, two) = (on(&line).await, on(&line).await);
        one.went_silent();
        let new = on(&line).await.number;
        assert_ne!(new, one.number);
        two.went_silent();
        assert_eq!(on(&line).await.number, new);
        assert_eq!(line.current().keep_alive_interval, PING);
    }

    #[tokio::test]
    async fn c12_a_scolding_is_met_by_all_who_were_on_the_line_and_lengthens_the_pings() {
        let (_server, line) = line().await;
        let (one, two) = (on(&line).await, on(&line).await);
        assert!(!one.is_scolded(&passing()));
        scold(&line);
        assert!(one.is_scolded(&passing()) && two.is_scolded(&passing()));
        assert_eq!(line.current().keep_alive_interval, 2 * PING);
        assert!(line.current().reported.is_some());
        // The next try begins with a clean slate.
        assert!(!on(&line).await.is_scolded(&passing()));
        for _ in 0..10 {
            let hold = on(&line).await;
            scold(&line);
            assert!(hold.is_scolded(&passing()));
        }
        assert_eq!(line.current().keep_alive_interval, LONGEST_KEEP_ALIVE);
    }

    #[tokio::test]
    async fn c12_restraint_begins_with_long_delays_and_a_healthy_stream_does_not_end_it() {
        let client = crate::client::Client::connect("http://127.0.0.1:1").unwrap();
        let hold = client.waits.hold();
        let exhausted = Refusal::local(Code::ResourceExhausted, "less");
        let mut attempt = 0;
        client.delay(&hold, &exhausted, &mut attempt, true);
        assert_eq!(attempt, 6);
        client.delay(&hold, &exhausted, &mut attempt, true);
        assert_eq!(attempt, 7);
        client.delay(&hold, &passing(), &mut attempt, false);
        assert_eq!(attempt, 8);
        client.delay(&hold, &passing(), &mut attempt, true);
        assert_eq!(attempt, 1);
    }

    #[tokio::test]
    async fn a_channel_that_was_made_elsewhere_stays() {
        let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        let line = Line::fixed(channel);
        let before = on(&line).await;
        before.went_silent();
        assert_eq!(on(&line).await.number, before.number);
    }
}
