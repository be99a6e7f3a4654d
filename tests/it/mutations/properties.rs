//! What holds of every question, answer and schema, whatever they are made of. Each function panics where it does not hold.
//!
//! Used by `tests/it/mutations.rs` and, by its path, by the targets in `tests/fuzz/`.

use std::time::Duration;

use abeyance::domain::{
    self, Command, Decided, Effect, Failure, Faults, JsonText, Moment, Question, Record, Refusal,
    Results, State, Submission, TimeoutSource, Timestamp, Verdict, WaitId,
    json::{Node, quote},
    limits::{ErrorType, Reason},
    question::{CallKind, Requests, read_requests},
    results::{self, CallResult, ToolReturn, UnknownKeys},
    schema::{MAX_COST, MAX_FAULTS, Schema},
    transition::Body,
};

/// How far a case came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// There was nothing to answer: the question was refused.
    NoQuestion,
    /// The answer was refused.
    Refused,
    /// The answer was taken.
    Taken,
}

/// The most bytes that a fault may have in either of its parts.
const FAULT: usize = 2048;

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// An answer to tool calls that wait.
pub fn answers(requests: &str, answer: &str, may_leave_pending: bool) -> Seen {
    let Some(requests) = asked(requests, may_leave_pending) else {
        return Seen::NoQuestion;
    };
    let answer = match JsonText::new(answer) {
        Ok(answer) => answer,
        Err(fault) => {
            assert!(fault.len() <= FAULT, "a long fault: {fault}");
            return Seen::Refused;
        }
    };
    relayed(&requests, &answer);
    as_message(&requests, &answer);
    in_part(&requests, &answer);
    in_full(&requests, &answer)
}

/// The tool calls, if the broker takes them for a question.
pub fn asked(requests: &str, may_leave_pending: bool) -> Option<Requests> {
    let text = JsonText::new(requests).ok()?;
    match read_requests("question", &text, may_leave_pending) {
        Ok(requests) => Some(requests),
        Err(faults) => {
            assert!(!faults.is_empty());
            for fault in &faults {
                short(&fault.field, &fault.description);
            }
            None
        }
    }
}

/// A full answer that decides every call which waits, besides those in `but`.
pub fn good_answer(requests: &Requests, but: &[&str]) -> JsonText {
    let entries = |approvals: bool, value: &str| {
        let calls = requests.calls().iter();
        let wanted = calls.filter(|call| (call.kind == CallKind::Approval) == approvals);
        let wanted = wanted.filter(|call| !but.contains(&call.id.as_str()));
        let entries: Vec<_> = wanted
            .map(|call| format!("{}:{value}", quote(call.id.as_str())))
            .collect();
        entries.join(",")
    };
    let text = format!(
        r#"{{"approvals":{{{}}},"calls":{{{}}}}}"#,
        entries(true, "true"),
        entries(false, r#"{"ok":[1.50]}"#)
    );
    JsonText::new(&text).expect("it is JSON")
}

fn in_full(requests: &Requests, answer: &JsonText) -> Seen {
    let open = open(requests);
    let record = match apply(&open, Submission::json(answer.clone())) {
        Err(_) => {
            good_one_is_taken(&open, requests);
            return Seen::Refused;
        }
        Ok((record, verdict)) => {
            assert_eq!(verdict, Verdict::Done, "a first answer is no repeat");
            record
        }
    };
    assert_eq!(record.state(), State::Resolved);
    let decided = record.decided().expect("decisions");
    if !requests.may_leave_pending() {
        for call in requests.calls() {
            assert!(decided.has(&call.id), "{:?} was left out", call.id);
        }
    }
    written_and_read(decided, requests, UnknownKeys::Refuse);
    // The frame of each call, and no text of the sender's grows.
    let most = answer.as_str().len() + 128 * (requests.calls().len() + 1);
    assert!(
        decided.json().as_str().len() <= most,
        "grew: {}",
        decided.json().as_str()
    );
    placed(decided, requests);
    for again in [
        Body::Json(answer.clone()),
        Body::Json(decided.json().clone()),
        Body::Results(unplaced(decided.results())),
    ] {
        let said = apply(&record, of(again, false)).map(|(_, verdict)| verdict);
        assert_eq!(said, Ok(Verdict::Repeat), "{}", decided.json().as_str());
    }
    Seen::Taken
}

/// The answer as a partial one, and then the rest.
fn in_part(requests: &Requests, answer: &JsonText) {
    let open = open(requests);
    let partial = || of(Body::Json(answer.clone()), true);
    let Ok((record, verdict)) = apply(&open, partial()) else {
        return good_one_is_taken(&open, requests);
    };
    assert_eq!(verdict, Verdict::Done, "a first answer is no repeat");
    let said = apply(&record, partial()).map(|(_, verdict)| verdict);
    assert_eq!(said, Ok(Verdict::Repeat));
    let decided = record.decided().expect("decisions").clone();
    written_and_read(&decided, requests, UnknownKeys::Refuse);
    if record.outcome.is_some() {
        return;
    }
    let denied = written(
        &record,
        &Command::Fail {
            failure: Failure {
                reason: Reason::new("no").expect("a reason"),
                error_type: ErrorType::new("").expect("a type"),
                details: None,
            },
            request_id: None,
        },
    );
    let denied = denied.expect("fails").0;
    let results = denied.decided().expect("decisions");
    written_and_read(results, requests, UnknownKeys::Refuse);
    let named: Vec<_> = decided
        .entries()
        .iter()
        .map(|entry| entry.call.as_str())
        .collect();
    for (id, decision) in results.results().decisions() {
        let before = decided.results().decision(id);
        assert!(before.is_none_or(|before| before.same(decision)));
    }
    assert_eq!(
        results.results().decisions().count(),
        requests.calls().len()
    );
    let rest = Submission::json(good_answer(requests, &named));
    let (settled, _) = apply(&record, rest).expect("the rest is taken");
    let all = settled.decided().expect("decisions");
    assert!(requests.calls().iter().all(|call| all.has(&call.id)));
    written_and_read(all, requests, UnknownKeys::Refuse);
    let said = apply(&settled, partial()).map(|(_, verdict)| verdict);
    assert_eq!(said, Ok(Verdict::Repeat), "settled since or not");
}

/// The answer where unknown keys are handed on.
fn relayed(requests: &Requests, answer: &JsonText) {
    let mut faults = Faults::default();
    let relay = UnknownKeys::Relay;
    let results = results::read(answer, requests, relay, &mut faults);
    if faults.is_empty() {
        let decided = Decided::default().with(results, NOW, false, None);
        written_and_read(&decided, requests, relay);
    }
}

/// The same parts, had they come as a message: every result a value, whatever its tag, or the value of a `tool-return`.
fn as_message(requests: &Requests, answer: &JsonText) {
    let of = |text: &str, name: &str| match Node::of(text) {
        Node::Object(members) => {
            let member = members.iter().find(|(key, _)| key == name);
            member.map(|(_, text)| (*text).to_owned())
        }
        _ => None,
    };
    let json = |text: &str| JsonText::new(&format!(" {text}\n")).expect("a part of JSON");
    let entries = |name: &str| match of(answer.as_str(), name).as_deref().map(Node::of) {
        Some(Node::Object(entries)) => entries
            .into_iter()
            .map(|(id, text)| (id.into_owned(), text.to_owned()))
            .collect(),
        _ => Vec::new(),
    };
    let calls = entries("calls");
    let values = calls.iter().map(|(id, text)| {
        let value = CallResult::Value(json(text));
        (id.clone(), value)
    });
    let returns = calls.iter().map(|(id, text)| {
        let part = |name| of(text, name).map(|text| json(&text));
        let value = CallResult::Return(ToolReturn {
            value: part("return_value").unwrap_or_else(|| json(text)),
            content: part("content"),
            metadata: part("metadata"),
            tools: Vec::new(),
            file_digests: None,
        });
        (id.clone(), value)
    });
    let metadata = entries("metadata").into_iter();
    let metadata = metadata.filter(|(_, text)| matches!(Node::of(text), Node::Object(_)));
    let metadata: Vec<_> = metadata.map(|(id, text)| (id, json(&text))).collect();
    for calls in [values.collect(), returns.collect::<Vec<_>>()] {
        let given = Results::<String> {
            calls,
            metadata: metadata.clone(),
            ..Results::default()
        };
        let mut faults = Faults::default();
        let placed = results::place(given, requests, &mut faults);
        if faults.is_empty() {
            let decided = Decided::default().with(placed, NOW, false, None);
            written_and_read(&decided, requests, UnknownKeys::Refuse);
        }
    }
}

/// The form that workers get is JSON, says what is recorded, and is written the same again.
fn written_and_read(decided: &Decided, requests: &Requests, unknown: UnknownKeys) {
    let json = decided.json();
    if let Err(fault) = JsonText::new(json.as_str()) {
        panic!("the form is no JSON: {fault}: {}", json.as_str());
    }
    // A store keeps the form alone, and reads it with whatever is in it.
    for unknown in [unknown, UnknownKeys::Relay] {
        let mut faults = Faults::default();
        let read = results::read(json, requests, unknown, &mut faults);
        assert!(faults.is_empty(), "{faults} in {}", json.as_str());
        let same = read == *decided.results();
        assert!(same, "read otherwise: {}", json.as_str());
        same_form(read, json);
    }
}

/// The same decisions, had they come as a message.
fn placed(decided: &Decided, requests: &Requests) {
    let mut faults = Faults::default();
    let placed = results::place(unplaced(decided.results()), requests, &mut faults);
    let json = decided.json();
    assert!(faults.is_empty(), "{faults} in {}", json.as_str());
    assert_eq!(
        placed.decisions().count(),
        decided.results().decisions().count()
    );
    for (id, decision) in placed.decisions() {
        let other = decided.results().decision(id).expect("the same calls");
        assert!(decision.same(other), "{id:?} differs in {}", json.as_str());
    }
    same_form(placed, json);
}

fn same_form(results: Results, json: &JsonText) {
    let again = Decided::default().with(results, NOW, false, None);
    assert_eq!(again.json().as_str(), json.as_str(), "written otherwise");
}

fn unplaced(results: &Results) -> Results<String> {
    fn texts<T: Clone>(entries: &[(domain::limits::CallId, T)]) -> Vec<(String, T)> {
        let entries = entries.iter();
        entries
            .map(|(id, entry)| (id.as_str().to_owned(), entry.clone()))
            .collect()
    }
    Results {
        approvals: texts(&results.approvals),
        calls: texts(&results.calls),
        metadata: texts(&results.metadata),
        answered_by: texts(&results.answered_by),
        unknown: results.unknown.clone(),
        faulty: Vec::new(),
    }
}

fn good_one_is_taken(record: &Record, requests: &Requests) {
    let good = Submission::json(good_answer(requests, &[]));
    let (settled, _) = apply(record, good).expect("a good answer is taken");
    assert_eq!(settled.state(), State::Resolved);
}

fn of(body: Body, partial: bool) -> Submission {
    Submission {
        body,
        partial,
        ..Submission::json(JsonText::new("null").expect("it is JSON"))
    }
}

fn apply(record: &Record, submission: Submission) -> Result<(Record, Verdict), Refusal> {
    written(record, &Command::Resolve(Box::new(submission)))
}

/// The record behind a command. A refusal writes nothing, and a decision is the same each time.
fn written(record: &Record, command: &Command) -> Result<(Record, Verdict), Refusal> {
    let moment = Moment {
        now: NOW,
        ready: NOW,
    };
    let decision = domain::apply(record, command, moment);
    assert!(decision == domain::apply(record, command, moment));
    match decision.verdict {
        Err(refusal) => {
            assert_eq!(decision.effect, Effect::None, "{refusal}");
            if let Refusal::InvalidAnswer { faults, .. } = &refusal {
                assert!(!faults.is_empty());
                for fault in faults.first() {
                    short(&fault.field, &fault.description);
                }
            }
            Err(refusal)
        }
        Ok(verdict) => Ok((
            match decision.effect {
                Effect::None => record.clone(),
                Effect::Update(record) => record,
                Effect::Settle(outcome) => Record {
                    outcome: Some(outcome),
                    ..record.clone()
                },
            },
            verdict,
        )),
    }
}

fn short(path: &str, description: &str) {
    assert!(path.len() <= FAULT, "a long path: {path}");
    assert!(description.len() <= FAULT, "a long fault: {description}");
}

fn open(requests: &Requests) -> Record {
    let hour = Duration::from_secs(3600);
    Record {
        id: WaitId::new(NOW, [0; 10]),
        create_time: NOW,
        timeout: hour,
        timeout_source: TimeoutSource::Timeout,
        expire_time: NOW.after(hour),
        heartbeat_timeout: None,
        question: Some(Question::Deferred(requests.clone())),
        question_later: false,
        ask_time: None,
        heartbeat_time: None,
        last_time: NOW,
        decided: None,
        outcome: None,
    }
}

/// A schema, and an answer that is held against it. Compiling and checking end, and say the same each time; how long they may
/// take is for whoever runs this to watch.
pub fn schemas(schema: &str, answer: &str) -> Seen {
    let Ok(text) = JsonText::new(schema) else {
        return Seen::NoQuestion;
    };
    let schema = match Schema::compile(&text) {
        Ok(schema) => schema,
        Err(faults) => {
            told(&faults);
            return Seen::NoQuestion;
        }
    };
    let Ok(answer) = JsonText::new(answer) else {
        return Seen::Refused;
    };
    let found = schema.check(&answer);
    if let Err(faults) = &found {
        told(faults);
    }
    // White space around it changes nothing, nor does compiling again; but a check at the bound takes its time, and once is enough.
    let spaced = format!("\n{} ", answer.as_str());
    if schema.cost(spaced.len()) < MAX_COST / 100 {
        let spaced = JsonText::new(&spaced).expect("it is JSON");
        assert_eq!(schema.check(&spaced).is_ok(), found.is_ok(), "with spaces");
        let again = Schema::compile(&text).expect("it compiled before");
        assert_eq!(again.check(&answer), found, "compiled again");
    }
    match found {
        Ok(()) => Seen::Taken,
        Err(_) => Seen::Refused,
    }
}

fn told(faults: &[domain::schema::Fault]) {
    assert!(!faults.is_empty() && faults.len() <= MAX_FAULTS);
    for fault in faults {
        assert!(fault.path.len() <= 1024, "a long path: {}", fault.path);
        let description = &fault.description;
        assert!(description.len() <= 1024, "a long fault: {description}");
    }
}
