//! The judge: looks at what was seen and names everything that must not be. Pure, so that it can be judged itself.

use std::collections::BTreeMap;

use abeyance::proto::v1::wait::State;

use super::history::{Event, Said, Seen, Told};

/// One thing that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which wait, by the test's own number.
    pub wait: u32,
    /// What kind of fault.
    pub kind: Kind,
    /// What was seen.
    pub story: String,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Two opens of one wait were told that they made it: the first was lost, or there are two.
    OpenLost,
    /// A re-open or an attach gave another token or wait id.
    TokenChanged,
    /// Two outcomes were told.
    TwoOutcomes,
    /// Two answers were each told that they were the first.
    TwoWinners,
    /// An answer was told OK, and the outcome is another.
    OkNotKept,
    /// An answer equal to the outcome was refused.
    EqualRefused,
    /// An outcome that nobody asked for.
    Invented,
    /// The wait was told pending after its outcome had been told.
    AnswerLost,
    /// `asked` was acknowledged and then not told any more.
    AskedForgotten,
    /// It expired before its time, or was told pending after it.
    WrongTime,
    /// A genuine token or key was told unknown.
    Unknown,
    /// Somebody waited longer than the bound.
    Hung,
    /// Nobody was told the outcome after the last start.
    Silent,
    /// The broker said something that has no place here.
    Unexpected,
}

/// Finds the faults in what was seen. `last_start` is when the broker was started last, on the history's clock: everything that
/// was acknowledged must have been asked for once more since, and must have been told its outcome.
pub fn check(events: &[Event], last_start: u64) -> Vec<Fault> {
    let mut waits: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
    for event in events {
        waits.entry(event.wait).or_default().push(event);
    }
    let mut faults = Vec::new();
    for (wait, events) in waits {
        let mut judge = Judge {
            wait,
            events,
            faults: &mut faults,
        };
        judge.identity();
        judge.outcomes();
        judge.answers();
        judge.forgotten();
        judge.times();
        judge.plain(last_start);
    }
    faults
}

/// The faults of one wait.
struct Judge<'a> {
    wait: u32,
    events: Vec<&'a Event>,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Judge<'a> {
    fn fault(&mut self, kind: Kind, story: impl Into<String>) {
        self.faults.push(Fault {
            wait: self.wait,
            kind,
            story: story.into(),
        });
    }

    fn told(&self) -> impl Iterator<Item = (&'a Event, &'a Told)> + use<'a, '_> {
        self.events.iter().filter_map(|event| match &event.seen {
            Seen::Told(told) => Some((*event, told)),
            _ => None,
        })
    }

    fn first_told(&self) -> Option<&'a Told> {
        self.told().map(|(_, told)| told).next()
    }

    /// One wait has one token and one id, and is made once.
    fn identity(&mut self) {
        let mut made = 0;
        let mut first: Option<(&String, &String)> = None;
        for event in self.events.clone() {
            let Seen::Opened {
                token,
                wait_id,
                resumed,
                ..
            } = &event.seen
            else {
                continue;
            };
            made += usize::from(!resumed);
            match first {
                None => first = Some((token, wait_id)),
                Some(first) if first != (token, wait_id) => {
                    self.fault(Kind::TokenChanged, format!("{first:?}, then {event:?}"));
                }
                Some(_) => {}
            }
        }
        if made > 1 {
            self.fault(Kind::OpenLost, format!("made {made} times"));
        }
    }

    /// Whoever is told an outcome is told the same one.
    fn outcomes(&mut self) {
        let Some(first) = self.first_told() else {
            return;
        };
        for event in self.events.clone() {
            let (state, settle_micros) = match &event.seen {
                Seen::Told(told) if told != first => {
                    self.fault(Kind::TwoOutcomes, format!("{first:?}, then {told:?}"));
                    continue;
                }
                Seen::Refused {
                    state,
                    settle_micros,
                    ..
                } => (*state, *settle_micros),
                _ => continue,
            };
            if (state, settle_micros) != (first.state, first.settle_micros) {
                self.fault(
                    Kind::TwoOutcomes,
                    format!("{first:?}, but refused: {event:?}"),
                );
            }
        }
        let invented = match first.state {
            State::Expired => false,
            State::Unspecified | State::Pending => true,
            _ => !self
                .events
                .iter()
                .any(|e| matches!(&e.seen, Seen::Trying(said) if is_outcome_of(said, first, true))),
        };
        if invented {
            self.fault(Kind::Invented, format!("{first:?}"));
        }
    }

    /// What was told OK is the outcome; the first one byte for byte, and only one is the first.
    fn answers(&mut self) {
        let outcome = self.first_told();
        let mut winners = 0;
        for event in self.events.clone() {
            match (&event.seen, outcome) {
                (
                    Seen::Accepted {
                        said,
                        replayed,
                        settle_micros,
                    },
                    outcome,
                ) => {
                    winners += usize::from(!replayed);
                    let kept = outcome.is_none_or(|outcome| {
                        is_outcome_of(said, outcome, !replayed)
                            && outcome.settle_micros == *settle_micros
                    });
                    if !kept {
                        self.fault(Kind::OkNotKept, format!("{event:?}, but {outcome:?}"));
                    }
                }
                (Seen::Refused { said, .. }, Some(outcome))
                    if is_outcome_of(said, outcome, false) =>
                {
                    self.fault(Kind::EqualRefused, format!("{event:?}"));
                }
                _ => {}
            }
        }
        if winners > 1 {
            self.fault(
                Kind::TwoWinners,
                format!("{winners} answers were the first"),
            );
        }
    }

    /// What was told once is not taken back.
    fn forgotten(&mut self) {
        let settled_from = self.earliest(|seen| {
            matches!(
                seen,
                Seen::Told(_) | Seen::Accepted { .. } | Seen::Refused { .. }
            )
        });
        let asked_from =
            self.earliest(|seen| matches!(seen, Seen::Asked | Seen::Opened { asked: true, .. }));
        for event in self.events.clone() {
            match event.seen {
                Seen::Pending if event.began > settled_from => {
                    self.fault(
                        Kind::AnswerLost,
                        format!("settled at {settled_from}, then {event:?}"),
                    );
                }
                Seen::Opened { asked: false, .. } if event.began > asked_from => {
                    self.fault(
                        Kind::AskedForgotten,
                        format!("asked at {asked_from}, then {event:?}"),
                    );
                }
                _ => {}
            }
        }
    }

    fn earliest(&self, is: impl Fn(&Seen) -> bool) -> u64 {
        let ends = self.events.iter().filter(|e| is(&e.seen)).map(|e| e.ended);
        ends.min().unwrap_or(u64::MAX)
    }

    /// A wait is over when the clock says so, neither sooner nor later.
    fn times(&mut self) {
        let Some(expire) = self.events.iter().find_map(|e| match e.seen {
            Seen::Opened { expire_micros, .. } => Some(expire_micros),
            _ => None,
        }) else {
            return;
        };
        if let Some(told) = self.first_told()
            && told.state == State::Expired
            && told.content.contains("Timeout")
            && told.settle_micros < expire
        {
            self.fault(
                Kind::WrongTime,
                format!("{told:?}, but it expires at {expire}"),
            );
        }
        for event in self.events.clone() {
            if event.seen == Seen::Pending && event.began_micros > expire {
                self.fault(Kind::WrongTime, format!("over at {expire}, but {event:?}"));
            }
        }
    }

    /// What is a fault by itself, and what must be there in the end.
    fn plain(&mut self, last_start: u64) {
        let mut acknowledged = false;
        for event in self.events.clone() {
            match &event.seen {
                Seen::Unknown(text) => self.fault(Kind::Unknown, text),
                Seen::Hung(text) => self.fault(Kind::Hung, text),
                Seen::Unexpected(text) => self.fault(Kind::Unexpected, text),
                Seen::Opened { .. } => acknowledged = true,
                _ => {}
            }
        }
        if acknowledged && !self.told().any(|(event, _)| event.began > last_start) {
            self.fault(Kind::Silent, "no outcome was told after the last start");
        }
    }
}

/// Whether this is what was said: an answer byte for byte, or as the same JSON value.
fn is_outcome_of(said: &Said, outcome: &Told, exactly: bool) -> bool {
    match (said, outcome.state) {
        (Said::Resolve(payload), State::Resolved) if exactly => *payload == outcome.content,
        (Said::Resolve(payload), State::Resolved) => {
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            value(payload) == value(&outcome.content)
        }
        (Said::Fail(reason), State::Failed) | (Said::Cancel(reason), State::Cancelled) => {
            *reason == outcome.content
        }
        _ => false,
    }
}
