//! Who wins. One function decides every command on a wait, as a pure function of the record, the command and the time; the
//! stores call it inside their transaction and write what it says. There is no second way to end a wait.
//!
//! One file for each family of commands: `settle` holds resolve, fail and cancel; `decide` what decides tool calls; `overdue` expiry and heartbeat loss; `note`
//! what is recorded without ending the wait; `open` whether a wait that is opened again is the same.

mod decide;
mod note;
mod open;
mod overdue;
mod settle;

pub use open::reopen;

use super::{
    error::{Refusal, Violation},
    json::JsonText,
    limits::{AnsweredBy, Limits, Reason, RequestId},
    outcome::{Failure, Outcome},
    question::Question,
    results::{Results, UnknownKeys},
    time::Timestamp,
    wait::Record,
};

/// An answer as it was sent. What it means depends on the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The answer itself.
    pub body: Body,
    /// What is wrong with decisions that came as a message, as far as that shows without the question. They are told together with
    /// what the question brings to light.
    pub faults: Vec<Violation>,
    /// Who answers, as they say.
    pub answered_by: Option<AnsweredBy>,
    /// Whether it decides only those tool calls that it names.
    pub partial: bool,
    /// Whether somebody held it against the form that is asked. A form never changes, so this stays true; for other questions it
    /// says nothing. The rules do not do so themselves: a schema's check takes too long to be made inside a transaction.
    pub fits_form: bool,
    /// What becomes of keys that nobody knows.
    pub unknown_keys: UnknownKeys,
    /// The most bytes that the answers to one wait may come to together: what the operator allows for one.
    pub max_bytes: usize,
    /// The resolver's id for it.
    pub request_id: Option<RequestId>,
}

/// The two ways to write an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// JSON text.
    Json(JsonText),
    /// Decisions on tool calls.
    Results(Results<String>),
}

impl Submission {
    /// An answer in JSON from nobody in particular.
    pub fn json(json: JsonText) -> Self {
        Self {
            body: Body::Json(json),
            faults: Vec::new(),
            answered_by: None,
            partial: false,
            fits_form: false,
            unknown_keys: UnknownKeys::default(),
            max_bytes: Limits::default().payload_bytes,
            request_id: None,
        }
    }

    /// How many bytes of text it holds.
    pub fn bytes(&self) -> usize {
        match &self.body {
            Body::Json(json) => json.as_str().len(),
            Body::Results(results) => results.bytes(),
        }
    }
}

/// Something that somebody wants of a wait.
#[derive(Clone, Debug)]
pub enum Command {
    /// A resolver answers. Boxed: it is larger than all others.
    Resolve(Box<Submission>),
    /// A resolver ends the wait without an answer.
    Fail {
        /// Why.
        failure: Failure,
        /// The resolver's id for it.
        request_id: Option<RequestId>,
    },
    /// The worker withdraws the wait.
    Cancel {
        /// Why.
        reason: Reason,
    },
    /// Somebody noticed that time may be up. Harmless when early.
    Expire,
    /// The worker sets the question it promised.
    SetQuestion(Question),
    /// The worker handed question and token on.
    MarkAsked,
    /// The answering side is alive.
    Heartbeat,
}

/// When a decision is made.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The store's clock.
    pub now: Timestamp,
    /// When the broker was ready again. Nobody could send a heartbeat before, so everybody has one full period from here.
    pub ready: Timestamp,
}

/// What the rules decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What must be written. It is written whatever `verdict` says: a command that comes too late still settles the wait as
    /// expired.
    pub effect: Effect,
    /// What the caller is told once that is durable.
    pub verdict: Result<Verdict, Refusal>,
}

/// What must be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// The wait's outcome. The record was pending.
    Settle(Outcome),
    /// The record as it is now, still pending.
    Update(Record),
}

/// How a command that is not refused went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It settled the wait or changed the record.
    Done,
    /// The same was recorded before. Nothing changed.
    Repeat,
    /// There was nothing to do: a wait not yet overdue, a settled one that was to be cancelled, marked or expired.
    Nothing,
    /// Nothing was recorded: the answer must first be held against the form that is asked, see [`Submission::fits_form`].
    CheckForm,
}

impl Decision {
    fn settle(outcome: Outcome) -> Self {
        Self {
            effect: Effect::Settle(outcome),
            verdict: Ok(Verdict::Done),
        }
    }

    fn update(record: Record) -> Self {
        Self {
            effect: Effect::Update(record),
            verdict: Ok(Verdict::Done),
        }
    }

    fn ok(verdict: Verdict) -> Self {
        Self {
            effect: Effect::None,
            verdict: Ok(verdict),
        }
    }

    fn refuse(refusal: Refusal) -> Self {
        Self {
            effect: Effect::None,
            verdict: Err(refusal),
        }
    }
}

/// Decides one command.
///
/// Total and deterministic. An overdue wait is settled as expired first, and then the command is judged on what it is now.
pub fn apply(record: &Record, command: &Command, moment: Moment) -> Decision {
    // Within one wait time never runs backwards.
    let now = moment.now.max(record.create_time).max(record.last_time);
    let moment = Moment { now, ..moment };

    if let Some(outcome) = &record.outcome {
        return on_settled(record, outcome, command);
    }
    if let Some(outcome) = overdue::check(record, moment) {
        let verdict = match command {
            Command::Expire => Ok(Verdict::Done),
            _ => on_settled(record, &outcome, command).verdict,
        };
        return Decision {
            effect: Effect::Settle(outcome),
            verdict,
        };
    }
    match command {
        Command::Resolve(submission) => settle::resolve(record, submission, now),
        Command::Fail {
            failure,
            request_id,
        } => settle::fail(record, failure, request_id, now),
        Command::Cancel { reason } => settle::cancel(record, reason, now),
        Command::Expire => overdue::not_yet(record, moment),
        Command::SetQuestion(question) => note::set_question(record, question, now),
        Command::MarkAsked => note::mark_asked(record, now),
        Command::Heartbeat => note::heartbeat(record, now),
    }
}

/// Judges a command on a wait that has an outcome. Nothing is ever written.
fn on_settled(record: &Record, outcome: &Outcome, command: &Command) -> Decision {
    match command {
        Command::Resolve(submission) => settle::resolve_again(record, outcome, submission),
        Command::Fail {
            failure,
            request_id,
        } => settle::fail_again(record, outcome, failure, request_id),
        Command::SetQuestion(question) if note::is_set_to(record, question) => {
            Decision::ok(Verdict::Repeat)
        }
        Command::Cancel { .. } | Command::Expire | Command::MarkAsked => {
            Decision::ok(Verdict::Nothing)
        }
        Command::SetQuestion(_) | Command::Heartbeat => {
            Decision::refuse(settle::already_settled(record, outcome))
        }
    }
}
