//! The clocks of one connection: when it must have spoken, when it is told to go, when it is cut.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    connection::Stop,
    stall::{Backlog, Spoken},
};
use crate::{config::Connections, grpc::connection_end::ConnectionEnd};

/// What happens to a connection besides what its peer does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It is told to go: GOAWAY, and it ends with its last call.
    GoAway,
    /// It is cut, for this cause.
    Cut(&'static str),
    /// It is cut because the server stops, and time is up or there is nothing to wait for.
    Stopped,
}

/// The clocks of one connection. There is one timer for all of them, since this is polled whenever the connection is.
#[derive(Debug)]
pub(super) struct Life<'a> {
    stop: &'a Stop,
    spoken: Arc<Spoken>,
    backlog: Arc<Backlog>,
    /// When the connection is told to go, if its age is limited.
    end: Option<ConnectionEnd>,
    /// Whether it was told to go.
    leaving: bool,
    /// When the peer must have spoken, until that is known.
    handshake: Option<Instant>,
    /// When it is told to go, until it was.
    age: Option<Instant>,
    /// When it is cut after that.
    cut: Option<Instant>,
    /// When to look next whether the peer still reads.
    check: Instant,
    check_period: Duration,
}

impl<'a> Life<'a> {
    pub(super) fn new(
        settings: &Connections,
        stop: &'a Stop,
        spoken: &Arc<Spoken>,
        backlog: &Arc<Backlog>,
    ) -> Self {
        let now = Instant::now();
        let end = settings.age.map(|age| ConnectionEnd {
            at: now + jittered(age),
            grace: settings.age_grace,
        });
        Self {
            stop,
            spoken: Arc::clone(spoken),
            backlog: Arc::clone(backlog),
            end,
            leaving: false,
            handshake: Some(now + settings.handshake_timeout),
            age: end.map(|end| end.at),
            cut: None,
            check: now + settings.stall_timeout,
            check_period: settings.stall_timeout,
        }
    }

    /// When the connection is told to go, if its age is limited.
    pub(super) fn end(&self) -> Option<ConnectionEnd> {
        self.end
    }

    /// Waits for the next event.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            let times = [self.handshake, self.age, self.cut];
            let alarm = times.into_iter().flatten().fold(self.check, Instant::min);
            tokio::select! {
                biased;
                () = self.stop.cut.cancelled() => return Event::Stopped,
                () = self.stop.drain.cancelled(), if !self.leaving => {
                    self.leaving = true;
                    // hyper would wait for the preface of a peer that may never speak.
                    return if self.spoken.yet() { Event::GoAway } else { Event::Stopped };
                }
                () = sleep_until(alarm) => {
                    if let Some(event) = self.due(Instant::now()) {
                        return event;
                    }
                }
            }
        }
    }

    /// What is due at `now`, one thing at a time.
    fn due(&mut self, now: Instant) -> Option<Event> {
        let over = |time: Option<Instant>| time.is_some_and(|t| t <= now);
        if over(self.cut) {
            return Some(Event::Cut("its grace time is over"));
        }
        if over(self.handshake) {
            self.handshake = None;
            if !self.spoken.yet() {
                return Some(Event::Cut("the peer never spoke HTTP/2"));
            }
        }
        if self.check <= now {
            // From now, not from when it was due: each check has to see a whole period.
            self.check = now + self.check_period;
            if self.backlog.stuck() {
                return Some(Event::Cut("the peer stopped reading"));
            }
        }
        if over(self.age) {
            self.age = None;
            self.cut = self.end.map(|end| now + end.grace);
            if !self.leaving {
                self.leaving = true;
                return Some(Event::GoAway);
            }
        }
        None
    }
}

/// Give or take 10 %, so that connections that came together do not go together.
fn jittered(time: Duration) -> Duration {
    // Without randomness all come at the same moment, which is no reason to refuse them.
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    time.mul_f64(0.9 + 0.2 * f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> Connections {
        Connections {
            handshake_timeout: 5 * SECOND,
            stall_timeout: 3600 * SECOND,
            age: Some(100 * SECOND),
            age_grace: 20 * SECOND,
            ..Connections::default()
        }
    }

    fn spoken() -> Arc<Spoken> {
        let spoken = Spoken::default();
        spoken.begin();
        Arc::new(spoken)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_cut_after_the_handshake_time() {
        let (stop, start) = (Stop::default(), Instant::now());
        let mut life = Life::new(&settings(), &stop, &Arc::default(), &Arc::default());
        assert_eq!(life.next().await, Event::Cut("the peer never spoke HTTP/2"));
        assert_eq!(start.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_connection_is_told_to_go_and_then_cut() {
        let (stop, start) = (Stop::default(), Instant::now());
        let mut life = Life::new(&settings(), &stop, &spoken(), &Arc::default());
        assert_eq!(life.next().await, Event::GoAway);
        let told = start.elapsed();
        assert!((90 * SECOND..=110 * SECOND).contains(&told), "{told:?}");
        assert_eq!(life.next().await, Event::Cut("its grace time is over"));
        assert_eq!((start.elapsed() - told).as_secs(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_is_told_once_and_the_silent_are_not_waited_for() {
        let stop = Stop::default();
        stop.drain.cancel();
        let mut silent = Life::new(&settings(), &stop, &Arc::default(), &Arc::default());
        assert_eq!(silent.next().await, Event::Stopped);

        let (mut life, start) = (
            Life::new(&settings(), &stop, &spoken(), &Arc::default()),
            Instant::now(),
        );
        assert_eq!(life.next().await, Event::GoAway);
        // The age passes without a second GOAWAY, and its grace still counts.
        assert_eq!(life.next().await, Event::Cut("its grace time is over"));
        assert!(start.elapsed() >= 110 * SECOND);
        stop.cut.cancel();
        assert_eq!(life.next().await, Event::Stopped);
    }

    #[test]
    fn jitter_spreads_by_a_tenth_both_ways() {
        let times: Vec<_> = (0..1000).map(|_| jittered(1000 * SECOND)).collect();
        let (min, max) = (times.iter().min(), times.iter().max());
        assert!(
            min >= Some(&(900 * SECOND)) && min < Some(&(920 * SECOND)),
            "{min:?}"
        );
        assert!(
            max <= Some(&(1100 * SECOND)) && max > Some(&(1080 * SECOND)),
            "{max:?}"
        );
    }
}
