//! What was seen from outside: everything that the broker said, with when each question was put and answered.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use abeyance::proto::v1::{Outcome, expired, outcome, wait::State};
use tokio::sync::watch;

/// One thing that was seen.
#[derive(Clone, Debug)]
pub struct Event {
    /// Which wait, by the test's own number.
    pub wait: u32,
    /// When the question was put, on the history's own clock.
    pub began: u64,
    /// When it was answered.
    pub ended: u64,
    /// The wall clock when the question was put, in microseconds.
    pub began_micros: i64,
    /// What was seen.
    pub seen: Seen,
}

/// What was seen of a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// An open, a re-open or an attach was acknowledged.
    Opened {
        token: String,
        wait_id: String,
        resumed: bool,
        asked: bool,
        expire_micros: i64,
    },
    /// `MarkAsked` was acknowledged, and was recorded before the wait was settled.
    Asked,
    /// Somebody is about to say this. It counts whether or not it is acknowledged.
    Trying(Said),
    /// An answer, a failure or a withdrawal was acknowledged.
    Accepted {
        said: Said,
        replayed: bool,
        settle_micros: i64,
    },
    /// It was refused, since the wait had another outcome.
    Refused {
        said: Said,
        state: State,
        settle_micros: i64,
    },
    /// Somebody was told the outcome.
    Told(Told),
    /// Somebody was told that the wait is pending.
    Pending,
    /// The broker said that it does not know the wait.
    Unknown(String),
    /// The broker said something that has no place here.
    Unexpected(String),
    /// Somebody waited longer than the bound.
    Hung(String),
}

/// What a resolver or a worker says of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Resolve(String),
    Fail(String),
    Cancel(String),
}

/// An outcome as somebody was told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub state: State,
    /// The payload, the reason, or the cause.
    pub content: String,
    pub settle_micros: i64,
}

impl Told {
    /// From the message. One that contradicts itself is told by its text, so that it equals no other.
    pub fn new(outcome: &Outcome) -> Self {
        let state = State::try_from(outcome.state).unwrap_or(State::Unspecified);
        let content = match (&outcome.result, state) {
            (Some(outcome::Result::Resolved(r)), State::Resolved) => r.payload_json.clone(),
            (Some(outcome::Result::Failed(f)), State::Failed) => f.reason.clone(),
            (Some(outcome::Result::Cancelled(c)), State::Cancelled) => c.reason.clone(),
            (Some(outcome::Result::Expired(e)), State::Expired) => {
                format!("{:?}", expired::Cause::try_from(e.cause))
            }
            _ => format!("a broken outcome: {outcome:?}"),
        };
        Self {
            state,
            content,
            settle_micros: micros(outcome.settle_time.as_ref()),
        }
    }
}

/// A protobuf time in microseconds; 0 if it is absent.
pub fn micros(time: Option<&prost_types::Timestamp>) -> i64 {
    time.map_or(0, |t| t.seconds * 1_000_000 + i64::from(t.nanos / 1000))
}

/// When a question was put.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    tick: u64,
    micros: i64,
}

/// Everything that was seen, by everybody.
pub struct History {
    events: Mutex<Vec<Event>>,
    clock: AtomicU64,
    progress: watch::Sender<u64>,
}

impl History {
    pub fn new() -> Self {
        Self {
            events: Mutex::default(),
            clock: AtomicU64::new(1),
            progress: watch::Sender::new(0),
        }
    }

    /// A point on the history's own clock, later than all before it.
    pub fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A question is put now.
    pub fn begin(&self) -> Began {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Began {
            tick: self.tick(),
            micros: since.map_or(0, |s| i64::try_from(s.as_micros()).unwrap_or(i64::MAX)),
        }
    }

    /// It was answered now.
    pub fn saw(&self, wait: u32, began: Began, seen: Seen) {
        let is_news = !matches!(seen, Seen::Trying(_));
        let event = Event {
            wait,
            began: began.tick,
            ended: self.tick(),
            began_micros: began.micros,
            seen,
        };
        self.events().push(event);
        if is_news {
            self.progress.send_modify(|n| *n += 1);
        }
    }

    /// How much the broker said so far.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// What was seen so far.
    pub fn snapshot(&self) -> Vec<Event> {
        self.events().clone()
    }

    /// Whether anything like `is` was seen.
    pub fn any(&self, is: impl Fn(&Event) -> bool) -> bool {
        self.events().iter().any(is)
    }

    /// How much happened so far.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.events())
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub opens: usize,
    pub reopens: usize,
    pub answers: usize,
    pub repeats: usize,
    pub refusals: usize,
    pub outcomes: usize,
    pub expired: usize,
}

impl Summary {
    pub fn of(events: &[Event]) -> Self {
        let mut sum = Self::default();
        for event in events {
            match &event.seen {
                Seen::Opened { resumed: false, .. } => sum.opens += 1,
                Seen::Opened { .. } => sum.reopens += 1,
                Seen::Accepted { replayed: true, .. } => sum.repeats += 1,
                Seen::Accepted { .. } => sum.answers += 1,
                Seen::Refused { .. } => sum.refusals += 1,
                Seen::Told(told) => {
                    sum.outcomes += 1;
                    sum.expired += usize::from(told.state == State::Expired);
                }
                _ => {}
            }
        }
        sum
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} opens, {} re-opens and re-attaches, {} answers, {} repeats, {} refusals, {} outcomes told ({} expired)",
            self.opens,
            self.reopens,
            self.answers,
            self.repeats,
            self.refusals,
            self.outcomes,
            self.expired
        )
    }
}
