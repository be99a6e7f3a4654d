//! Rows to waits and back: every number that stands for something is written down here, once.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use rusqlite::{Row, types::Type};

use crate::{
    domain::{
        Answer, Decided, Ending, ExpiryCause, Failure, JsonText, Outcome, Progress, Question,
        Record, Spec, State, Summary, TimeoutSource, Timestamp, Wait, WaitId,
        limits::{AnsweredBy, ErrorType, Key, Labels, Name, Namespace, Reason, RequestId},
    },
    store::text,
};

/// Where the columns of [`super::statements`] stand.
mod at {
    pub(super) const ID: usize = 0;
    pub(super) const CREATE_TIME: usize = 1;
    pub(super) const TIMEOUT: usize = 2;
    pub(super) const TIMEOUT_SOURCE: usize = 3;
    pub(super) const EXPIRE_TIME: usize = 4;
    pub(super) const HEARTBEAT_TIMEOUT: usize = 5;
    pub(super) const QUESTION_LATER: usize = 6;
    pub(super) const NAMESPACE: usize = 7;
    pub(super) const NAME: usize = 8;
    pub(super) const KEY: usize = 9;
    pub(super) const LABELS: usize = 10;
    pub(super) const TOKEN_KEY: usize = 11;
    pub(super) const LAST_TIME: usize = 12;
    pub(super) const ASK_TIME: usize = 13;
    pub(super) const HEARTBEAT_TIME: usize = 14;
    pub(super) const STATE: usize = 15;
    pub(super) const SETTLE_TIME: usize = 16;
    pub(super) const SETTLED_ASK_TIME: usize = 17;
    pub(super) const SETTLED_HEARTBEAT_TIME: usize = 18;
    pub(super) const CALLS: usize = 19;
    pub(super) const DECIDED: usize = 20;
    pub(super) const QUESTION_KIND: usize = 21;
    pub(super) const QUESTION: usize = 22;
    pub(super) const CAUSE: usize = 23;
    pub(super) const REQUEST_ID: usize = 24;
    pub(super) const ERROR_TYPE: usize = 25;
    pub(super) const REASON: usize = 26;
    pub(super) const PAYLOAD_KIND: usize = 27;
    pub(super) const PAYLOAD: usize = 28;
    pub(super) const ANSWERED_BY: usize = 29;
    pub(super) const RESULTS: usize = 30;
    pub(super) const ENTRIES: usize = 31;
}

const JSON: i64 = 1;
const DEFERRED: i64 = 2;
const FORM: i64 = 3;

/// A whole wait.
pub(super) fn wait(row: &Row<'_>) -> rusqlite::Result<Wait> {
    Ok(Wait {
        spec: spec(row)?,
        token_key: row.get(at::TOKEN_KEY)?,
        record: record(row)?,
    })
}

/// What the rules decide upon.
pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let mut record = Record {
        question: question(row)?,
        ..record_without_payloads(row)?
    };
    let decided = decided(row, record.question.as_ref())?;
    match settled(row)? {
        Some((state, settle_time)) => {
            record.outcome = Some(outcome(row, state, settle_time, decided)?);
        }
        None => record.decided = decided,
    }
    Ok(record)
}

/// What is decided of the wait's tool calls.
fn decided(row: &Row<'_>, question: Option<&Question>) -> rusqlite::Result<Option<Arc<Decided>>> {
    let Some(results) = row.get::<_, Option<String>>(at::RESULTS)? else {
        return Ok(None);
    };
    let Some(requests) = question.and_then(Question::requests) else {
        let fault = "decisions on tool calls, and no such question";
        return Err(broken(at::RESULTS, Type::Text, fault));
    };
    let entries: String = row.get(at::ENTRIES)?;
    text::to_decided(results, &entries, requests)
        .map(|decided| Some(Arc::new(decided)))
        .map_err(|fault| broken(at::RESULTS, Type::Text, fault))
}

/// What lists show. Works on rows without the long columns.
pub(super) fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(Summary {
        spec: spec(row)?,
        record: record_without_payloads(row)?,
        settled: settled(row)?,
        progress: progress(row)?,
    })
}

/// How far the decisions are. Only waits about tool calls have any, and only while they are open.
fn progress(row: &Row<'_>) -> rusqlite::Result<Option<Progress>> {
    let (calls, decided): (Option<u32>, Option<u32>) = (row.get(at::CALLS)?, row.get(at::DECIDED)?);
    let (Some(calls @ 1..), Some(decided)) = (calls, decided) else {
        return Ok(None);
    };
    Ok(Some(Progress {
        decided: decided as usize,
        pending: calls.saturating_sub(decided) as usize,
    }))
}

fn spec(row: &Row<'_>) -> rusqlite::Result<Spec> {
    let key: Option<String> = row.get(at::KEY)?;
    let labels = row.get_ref(at::LABELS)?.as_str()?;
    Ok(Spec {
        namespace: Namespace::from_store(row.get(at::NAMESPACE)?),
        name: Name::from_store(row.get(at::NAME)?),
        key: key.map(Key::from_store),
        labels: Labels::from_store(labels_of(labels)?),
    })
}

fn record_without_payloads(row: &Row<'_>) -> rusqlite::Result<Record> {
    let heartbeat_timeout: Option<i64> = row.get(at::HEARTBEAT_TIMEOUT)?;
    // What may change stands beside the outcome once there is one.
    let (last, ask, heartbeat) = if row.get_ref(at::STATE)? == rusqlite::types::ValueRef::Null {
        (at::LAST_TIME, at::ASK_TIME, at::HEARTBEAT_TIME)
    } else {
        (
            at::SETTLE_TIME,
            at::SETTLED_ASK_TIME,
            at::SETTLED_HEARTBEAT_TIME,
        )
    };
    Ok(Record {
        id: id(row, at::ID)?,
        create_time: time(row, at::CREATE_TIME)?,
        timeout: length(row.get(at::TIMEOUT)?),
        timeout_source: timeout_source(row)?,
        expire_time: time(row, at::EXPIRE_TIME)?,
        heartbeat_timeout: heartbeat_timeout.map(length),
        question: None,
        question_later: row.get(at::QUESTION_LATER)?,
        ask_time: maybe_time(row, ask)?,
        heartbeat_time: maybe_time(row, heartbeat)?,
        // Missing only if a wait is neither pending nor settled, which is a fault of the file.
        last_time: time(row, last)?,
        decided: None,
        outcome: None,
    })
}

fn settled(row: &Row<'_>) -> rusqlite::Result<Option<(State, Timestamp)>> {
    let state = match row.get::<_, Option<i64>>(at::STATE)? {
        None => return Ok(None),
        Some(1) => State::Resolved,
        Some(2) => State::Failed,
        Some(3) => State::Expired,
        Some(4) => State::Cancelled,
        Some(n) => return Err(unknown(at::STATE, n)),
    };
    Ok(Some((state, time(row, at::SETTLE_TIME)?)))
}

/// The number of a settled state.
pub(super) fn state_number(outcome: &Outcome) -> i64 {
    match outcome.ending {
        Ending::Resolved(_) => 1,
        Ending::Failed(_) => 2,
        Ending::Expired { .. } => 3,
        Ending::Cancelled { .. } => 4,
    }
}

fn outcome(
    row: &Row<'_>,
    state: State,
    settle_time: Timestamp,
    decided: Option<Arc<Decided>>,
) -> rusqlite::Result<Outcome> {
    let request_id: Option<String> = row.get(at::REQUEST_ID)?;
    let reason = || row.get::<_, String>(at::REASON);
    let ending = match state {
        State::Resolved => match row.get(at::PAYLOAD_KIND)? {
            JSON => Ending::Resolved(Answer::Json {
                json: JsonText::from_store(row.get(at::PAYLOAD)?),
                answered_by: row
                    .get::<_, Option<String>>(at::ANSWERED_BY)?
                    .map(AnsweredBy::from_store),
            }),
            DEFERRED => Ending::Resolved(Answer::Decisions),
            n => return Err(unknown(at::PAYLOAD_KIND, n)),
        },
        State::Failed => Ending::Failed(Failure {
            reason: Reason::from_store(reason()?),
            error_type: ErrorType::from_store(row.get(at::ERROR_TYPE)?),
            details: row
                .get::<_, Option<String>>(at::PAYLOAD)?
                .map(JsonText::from_store),
        }),
        State::Expired => Ending::Expired {
            cause: match row.get(at::CAUSE)? {
                1 => ExpiryCause::Timeout,
                2 => ExpiryCause::Heartbeat,
                n => return Err(unknown(at::CAUSE, n)),
            },
            reason: reason()?,
        },
        State::Cancelled => Ending::Cancelled {
            reason: Reason::from_store(reason()?),
        },
        // `settled` gives no such state.
        State::Pending => return Err(unknown(at::STATE, 0)),
    };
    Ok(Outcome {
        settle_time,
        ending,
        request_id: request_id.map(RequestId::from_store),
        decided,
    })
}

/// The columns of an outcome that depend on how the wait ended.
#[derive(Default)]
pub(super) struct EndingColumns<'a> {
    pub(super) cause: Option<i64>,
    pub(super) error_type: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    pub(super) payload_kind: Option<i64>,
    pub(super) payload: Option<&'a str>,
    pub(super) answered_by: Option<&'a str>,
}

impl<'a> EndingColumns<'a> {
    pub(super) fn of(ending: &'a Ending) -> Self {
        match ending {
            Ending::Resolved(Answer::Json { json, answered_by }) => Self {
                payload_kind: Some(JSON),
                payload: Some(json.as_str()),
                answered_by: answered_by.as_ref().map(AnsweredBy::as_str),
                ..Self::default()
            },
            Ending::Resolved(Answer::Decisions) => Self {
                payload_kind: Some(DEFERRED),
                ..Self::default()
            },
            Ending::Failed(failure) => Self {
                error_type: Some(failure.error_type.as_str()),
                reason: Some(failure.reason.as_str()),
                payload_kind: failure.details.as_ref().map(|_| JSON),
                payload: failure.details.as_ref().map(JsonText::as_str),
                ..Self::default()
            },
            Ending::Expired { cause, reason } => Self {
                cause: Some(match cause {
                    ExpiryCause::Timeout => 1,
                    ExpiryCause::Heartbeat => 2,
                }),
                reason: Some(reason),
                ..Self::default()
            },
            Ending::Cancelled { reason } => Self {
                reason: Some(reason.as_str()),
                ..Self::default()
            },
        }
    }
}

fn question(row: &Row<'_>) -> rusqlite::Result<Option<Question>> {
    let Some(kind) = row.get::<_, Option<i64>>(at::QUESTION_KIND)? else {
        return Ok(None);
    };
    let stored = || row.get::<_, String>(at::QUESTION);
    let question = match kind {
        JSON => return Ok(Some(Question::FreeJson(JsonText::from_store(stored()?)))),
        DEFERRED => text::to_requests(&stored()?).map(Question::Deferred),
        FORM => text::to_form(&stored()?).map(Question::Form),
        n => return Err(unknown(at::QUESTION_KIND, n)),
    };
    question
        .map(Some)
        .map_err(|fault| broken(at::QUESTION, Type::Text, fault))
}

/// A question's kind and text.
pub(super) fn question_columns(question: Option<&Question>) -> (Option<i64>, Option<Cow<'_, str>>) {
    match question {
        None => (None, None),
        Some(Question::FreeJson(json)) => (Some(JSON), Some(json.as_str().into())),
        Some(Question::Deferred(requests)) => {
            (Some(DEFERRED), Some(text::of_requests(requests).into()))
        }
        Some(Question::Form(form)) => (Some(FORM), Some(text::of_form(form).into())),
    }
}

/// How many tool calls an open wait asks about, and how many of them are decided.
pub(super) fn progress_columns(record: &Record) -> (i64, i64) {
    // At most `Requests::MAX`.
    record.progress().map_or((0, 0), |progress| {
        let calls = progress.decided + progress.pending;
        (calls as i64, progress.decided as i64)
    })
}

fn timeout_source(row: &Row<'_>) -> rusqlite::Result<TimeoutSource> {
    Ok(match row.get(at::TIMEOUT_SOURCE)? {
        1 => TimeoutSource::Timeout,
        2 => TimeoutSource::Deadline,
        3 => TimeoutSource::ServerMaximum,
        n => return Err(unknown(at::TIMEOUT_SOURCE, n)),
    })
}

/// The number of a timeout's source.
pub(super) fn timeout_source_number(source: TimeoutSource) -> i64 {
    match source {
        TimeoutSource::Timeout => 1,
        TimeoutSource::Deadline => 2,
        TimeoutSource::ServerMaximum => 3,
    }
}

fn labels_of(text: &str) -> rusqlite::Result<BTreeMap<String, String>> {
    // Most waits have none.
    if text == "{}" {
        return Ok(BTreeMap::new());
    }
    serde_json::from_str(text).map_err(|e| broken(at::LABELS, Type::Text, e.to_string()))
}

/// Labels as they are stored.
pub(super) fn labels_text(labels: &Labels) -> String {
    // A map of strings to strings is always JSON.
    serde_json::to_string(labels.as_map()).unwrap_or_else(|_| "{}".to_owned())
}

/// A wait id.
pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<WaitId> {
    row.get(column).map(WaitId::from_bytes)
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

fn maybe_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    let micros: Option<i64> = row.get(column)?;
    Ok(micros.map(Timestamp::from_micros))
}

fn length(micros: i64) -> Duration {
    // Never negative: written by `to_micros`.
    Duration::from_micros(micros.unsigned_abs())
}

fn unknown(column: usize, number: i64) -> rusqlite::Error {
    broken(
        column,
        Type::Integer,
        format!("{number} stands for nothing that this version knows"),
    )
}

fn broken(column: usize, kind: Type, fault: impl fmt::Display) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, fault.to_string().into())
}
