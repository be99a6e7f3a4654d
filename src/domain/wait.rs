//! The wait: the record, and what is always true of it.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    limits::{Key, Labels, Name, Namespace, RequestId},
    outcome::{Outcome, State},
    question::Question,
    results::Decided,
    time::{Timestamp, to_micros},
};

/// The public name of a wait: a UUIDv7, so that ids sort by the time they were made. Not a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitId(Uuid);

impl WaitId {
    /// Makes an id from the present time and ten random bytes (RFC 9562, section 5.7; the microseconds within the
    /// millisecond stand in the twelve bits behind the version, method 3 of section 6.2).
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        let micros = u64::try_from(now.as_micros()).unwrap_or(0);
        let (millis, rest) = (micros / 1000, micros % 1000);
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        // 1000 microseconds spread over 4096 steps.
        let fraction = (rest * 4096 / 1000) as u16;
        bytes[6..8].copy_from_slice(&(0x7000 | fraction).to_be_bytes());
        bytes[8..].copy_from_slice(&random[..8]);
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(Uuid::from_bytes(bytes))
    }

    /// From the bytes that [`WaitId::as_bytes`] gave.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The sixteen bytes, in the order in which ids sort.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// When the id was made, to the millisecond.
    pub fn create_time(&self) -> Timestamp {
        let mut millis = [0; 8];
        millis[2..].copy_from_slice(&self.0.as_bytes()[..6]);
        // 48 bits of milliseconds are 58 bits of microseconds: they fit.
        Timestamp::from_micros((u64::from_be_bytes(millis) * 1000) as i64)
    }
}

impl fmt::Display for WaitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for WaitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for WaitId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::from_str(text).map(Self)
    }
}

/// Where the timeout of a wait came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutSource {
    /// The worker gave it.
    Timeout,
    /// The gRPC deadline of the call that opened the wait.
    Deadline,
    /// The server's maximum.
    ServerMaximum,
}

/// How a wait is named and found. Immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The namespace that `key` is unique in.
    pub namespace: Namespace,
    /// What kind of wait it is. Not unique.
    pub name: Name,
    /// The worker's own name for it.
    pub key: Option<Key>,
    /// Labels to find it by.
    pub labels: Labels,
}

/// What the rules decide upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The public name.
    pub id: WaitId,
    /// When it was opened.
    pub create_time: Timestamp,
    /// The timeout as it was given.
    pub timeout: Duration,
    /// Who gave it.
    pub timeout_source: TimeoutSource,
    /// When the wait is over, whether or not a timer fired.
    pub expire_time: Timestamp,
    /// How long the answering side may stay silent once asked.
    pub heartbeat_timeout: Option<Duration>,
    /// What is asked, if the broker was told.
    pub question: Option<Question>,
    /// Whether the worker opened it with the promise to set the question later.
    pub question_later: bool,
    /// When question and token were handed on.
    pub ask_time: Option<Timestamp>,
    /// The answering side's last sign of life: the ask, or a heartbeat after it, or the grace after a restart.
    pub heartbeat_time: Option<Timestamp>,
    /// When something was last recorded of this wait. Time never runs backwards from here.
    pub last_time: Timestamp,
    /// What partial answers have decided so far. Once there is an outcome it stands there.
    pub decided: Option<Arc<Decided>>,
    /// The outcome. While there is none the wait is pending.
    pub outcome: Option<Outcome>,
}

impl Record {
    /// What is decided of its tool calls, whether or not it is settled.
    pub fn decided(&self) -> Option<&Arc<Decided>> {
        match &self.outcome {
            Some(outcome) => outcome.decided.as_ref(),
            None => self.decided.as_ref(),
        }
    }

    /// How many of its tool calls are decided and how many are not, while it is open and asks about any.
    pub fn progress(&self) -> Option<Progress> {
        let calls = self.question.as_ref()?.requests()?.calls().len();
        if calls == 0 {
            return None;
        }
        let decided = self.decided.as_ref().map_or(0, |d| d.entries().len());
        self.outcome.is_none().then(|| Progress {
            decided,
            pending: calls.saturating_sub(decided),
        })
    }

    /// What has become of the wait.
    pub fn state(&self) -> State {
        self.outcome.as_ref().map_or(State::Pending, Outcome::state)
    }

    /// Whether a promised question is still missing.
    pub fn question_pending(&self) -> bool {
        self.question_later && self.question.is_none()
    }

    /// When the heartbeat timeout runs out, if one is demanded and the wait was asked.
    pub fn heartbeat_expire_time(&self) -> Option<Timestamp> {
        Some(self.heartbeat_time?.after(self.heartbeat_timeout?))
    }

    /// When the record itself says that time is up: what stores index. The rules may grant more after a restart, see
    /// [`super::transition::Moment::ready`].
    pub fn due_time(&self) -> Timestamp {
        self.heartbeat_expire_time()
            .map_or(self.expire_time, |t| t.min(self.expire_time))
    }
}

/// How far the decisions on a wait's tool calls are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many calls are decided.
    pub decided: usize,
    /// How many are not.
    pub pending: usize,
}

/// A wait, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How it is named and found.
    pub spec: Spec,
    /// The number of the token key that made its token.
    pub token_key: u8,
    /// What the rules decide upon.
    pub record: Record,
}

/// A wait without question and payload: what lists and watches show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How it is named and found.
    pub spec: Spec,
    /// The record, without its question and its outcome.
    pub record: Record,
    /// How the wait was settled and when, if it was.
    pub settled: Option<(State, Timestamp)>,
    /// How far the decisions are, while it is open and asks about tool calls.
    pub progress: Option<Progress>,
}

impl Summary {
    /// What has become of the wait.
    pub fn state(&self) -> State {
        self.settled.map_or(State::Pending, |(state, _)| state)
    }

    /// About how many bytes it takes to tell.
    pub fn size(&self) -> usize {
        let spec = &self.spec;
        let labels = spec.labels.as_map().iter();
        let key = spec.key.as_ref().map_or(0, |key| key.as_str().len());
        let names = spec.name.as_str().len() + spec.namespace.as_str().len() + key;
        // What is fixed in length, and the frame around each label.
        256 + names + labels.map(|(k, v)| 8 + k.len() + v.len()).sum::<usize>()
    }
}

impl From<Wait> for Summary {
    fn from(wait: Wait) -> Self {
        let settled = (wait.record.outcome.as_ref()).map(|o| (o.state(), o.settle_time));
        let progress = wait.record.progress();
        Self {
            progress,
            spec: wait.spec,
            record: Record {
                question: None,
                decided: None,
                outcome: None,
                ..wait.record
            },
            settled,
        }
    }
}

/// A wait that is about to be opened. The store gives it its create time.
#[derive(Clone, Debug)]
pub struct NewWait {
    /// The id it gets if it does not exist yet.
    pub id: WaitId,
    /// The number of the token key that makes its token.
    pub token_key: u8,
    /// How it is named and found.
    pub spec: Spec,
    /// The timeout as it was given.
    pub timeout: Duration,
    /// Who gave it.
    pub timeout_source: TimeoutSource,
    /// How long after its creation it expires: `timeout`, or a little less where that is a deadline.
    pub lifetime: Duration,
    /// How long the answering side may stay silent once asked.
    pub heartbeat_timeout: Option<Duration>,
    /// What is asked.
    pub question: Option<Question>,
    /// Whether the question comes later.
    pub question_later: bool,
    /// The worker's id for this request. Ignored beside a key.
    pub request_id: Option<RequestId>,
}

impl NewWait {
    /// The wait that this opens at `now`.
    pub fn create(&self, now: Timestamp) -> Wait {
        Wait {
            spec: self.spec.clone(),
            token_key: self.token_key,
            record: Record {
                id: self.id,
                create_time: now,
                timeout: whole_micros(self.timeout),
                timeout_source: self.timeout_source,
                expire_time: now.after(self.lifetime),
                heartbeat_timeout: self.heartbeat_timeout.map(whole_micros),
                question: self.question.clone(),
                question_later: self.question_later,
                ask_time: None,
                heartbeat_time: None,
                last_time: now,
                decided: None,
                outcome: None,
            },
        }
    }

    /// The `request_id` by which a store must find this open again: none beside a key.
    pub fn idempotency_id(&self) -> Option<&RequestId> {
        match self.spec.key {
            Some(_) => None,
            None => self.request_id.as_ref(),
        }
    }
}

/// Cuts a length to what stores keep, so that a wait reads the same before and after it was stored.
fn whole_micros(length: Duration) -> Duration {
    // Never negative.
    Duration::from_micros(to_micros(length).unsigned_abs())
}
