//! The vectors: what the real library accepts and produces. Each test reads the file and tells every id that fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use abeyance::{
    domain::{self, Command, Effect, Ending, JsonText, Moment, Question, question::read_requests},
    proto::v1::{
        self, question::Kind, tool_approval::Decision as Approves,
        tool_call_result::Result as Returns, wait::State,
    },
};
use serde_json::{Map, Value, json};
use tonic::Code;

use super::ask::{asking, deferred_json, in_json, typed};
use crate::{
    harness::{Calls, TestServer, code_and_reason, spec},
    store_fixture::{START, new_wait},
};

fn vectors() -> Value {
    let text = include_str!("../../data/deferred_tool_results.json");
    serde_json::from_str(text).expect("the vectors are JSON")
}

fn rows<'a>(vectors: &'a Value, name: &str, count: usize) -> &'a [Value] {
    let rows = vectors[name].as_array().expect("a list");
    assert_eq!(rows.len(), count, "{name} in the file");
    rows
}

/// The ids of cases that are refused here though the library takes them, from the table of `tests/data/README.md`.
fn stricter() -> BTreeSet<&'static str> {
    let text = include_str!("../../data/README.md");
    let (_, table) = text
        .split_once("## Where Abeyance is stricter")
        .expect("the table");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.split('`').nth(1)).collect()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} is text"))
}

/// The answer of a case as its sender writes it.
fn answer_of(case: &Value) -> String {
    match case.get("answer_text") {
        Some(text) => text.as_str().expect("text").to_owned(),
        None => case["answer"].to_string(),
    }
}

fn failed(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}

#[tokio::test]
async fn all_163_cases() {
    let vectors = vectors();
    let stricter = stricter();
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let (mut faults, mut refused) = (Vec::new(), BTreeSet::new());
    for case in rows(&vectors, "cases", 163) {
        let id = text(case, "id");
        let expected = text(case, "expect") == "ok";
        if let Err(fault) = run(&calls, case, expected && !stricter.contains(id)).await {
            faults.push(format!("{id}: {fault}"));
        }
        if expected && stricter.contains(id) {
            refused.insert(id);
        }
    }
    failed("cases", &faults);
    assert_eq!(refused, stricter, "the table names each and no other");
}

/// Asks, answers, and holds what comes of it against the case.
async fn run(calls: &Calls, case: &Value, taken: bool) -> Result<(), String> {
    let partial = case["allow_partial"].as_bool().expect("a bool");
    let question = deferred_json(&case["requests"].to_string(), partial);
    let token = calls.token(asking(question)).await;
    let answer = answer_of(case);
    let answered = calls.answer(in_json(&token, &answer)).await;
    if !taken {
        let (code, reason) = match answered {
            Err(status) => code_and_reason(&status),
            Ok(_) => return Err("is taken".to_owned()),
        };
        // Text that is no JSON never comes as far as the question.
        let told = code == Code::InvalidArgument
            && ["INVALID_ANSWER", "INVALID_JSON", "INVALID_FIELD"].contains(&reason.as_str());
        return match calls.state(&token).await {
            _ if !told => Err(format!("is refused with {code:?} {reason}")),
            State::Pending => Ok(()),
            state => Err(format!("is refused and {state:?}")),
        };
    }
    answered.map_err(|status| format!("is refused: {}", status.message()))?;
    let outcome = calls.outcome(&token).await;
    let results = outcome.results.clone().ok_or("has no results")?;
    if effects(&results) != effects_of(case) {
        return Err(format!("comes to {:?}", effects(&results)));
    }
    let Some(v1::outcome::Result::Resolved(resolved)) = &outcome.result else {
        return Err("is not resolved".to_owned());
    };
    if !resolved.payload_json.is_empty() {
        return Err("has its results in two places".to_owned());
    }
    let normal = &outcome.results_json;
    same_as_normalized(case, normal)?;
    same_when_typed(calls, case, partial, results, normal).await
}

/// The same answer as a message comes to the same outcome.
async fn same_when_typed(
    calls: &Calls,
    case: &Value,
    partial: bool,
    results: v1::DeferredToolResults,
    normal: &str,
) -> Result<(), String> {
    let requests = calls
        .token(asking(deferred_json(
            &case["requests"].to_string(),
            partial,
        )))
        .await;
    let asked = calls.describe(&requests).await.expect("described").question;
    let token = calls.token(asking(asked.expect("a question"))).await;
    let answered = calls.answer(typed(&token, results.clone())).await;
    answered.map_err(|status| format!("is refused as a message: {}", status.message()))?;
    let outcome = calls.outcome(&token).await;
    let same = |a: &str, b: &str| {
        let value = |text| serde_json::from_str::<Value>(text).expect("JSON");
        value(a) == value(b)
    };
    if outcome.results.as_ref() != Some(&results) || !same(&outcome.results_json, normal) {
        return Err(format!("differs as a message: {}", outcome.results_json));
    }
    // What workers get is itself an answer, and the same one.
    let again = calls.answer(in_json(&token, normal)).await;
    match again {
        Ok(again) if again.replayed => Ok(()),
        other => Err(format!("its normal form is not the same answer: {other:?}")),
    }
}

fn effects_of(case: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(case["effects"].clone()).expect("effects")
}

fn effects(results: &v1::DeferredToolResults) -> BTreeMap<String, String> {
    let approvals = results.approvals.iter().map(|(id, approval)| {
        let effect = match approval.decision.as_ref().expect("a decision") {
            Approves::Approved(_) => "run",
            Approves::Denied(_) => "denied",
        };
        (id.clone(), effect.to_owned())
    });
    let calls = results.calls.iter().map(|(id, result)| {
        let effect = match result.result.as_ref().expect("a result") {
            Returns::ReturnValueJson(_) | Returns::ToolReturn(_) => "value",
            Returns::Failed(_) => "failed",
            Returns::Retry(_) => "retry",
        };
        (id.clone(), effect.to_owned())
    });
    approvals.chain(calls).collect()
}

/// Holds the JSON form against the library's own. The library fills defaults in, and leaves untagged what we frame as data: both are
/// brought to one form.
fn same_as_normalized(case: &Value, normal: &str) -> Result<(), String> {
    let expected = match case.get("normalized_text") {
        Some(text) => serde_json::from_str(text.as_str().expect("text")),
        None => Ok(case["normalized"].clone()),
    };
    let expected: Value = expected.map_err(|e| e.to_string())?;
    let found: Value = serde_json::from_str(normal).map_err(|e| e.to_string())?;
    let (expected, found) = (plain(expected), plain(found));
    if expected == found {
        Ok(())
    } else {
        Err(format!("is told as {found}\n    and should be {expected}"))
    }
}

fn plain(results: Value) -> Value {
    let Value::Object(mut sections) = results else {
        return results;
    };
    for section in ["calls", "approvals"] {
        if let Some(Value::Object(entries)) = sections.get_mut(section) {
            for entry in entries.values_mut() {
                *entry = plain_entry(entry.take());
            }
        }
    }
    Value::Object(sections)
}

fn plain_entry(entry: Value) -> Value {
    let Value::Object(entry) = entry else {
        return entry;
    };
    let kind = entry.get("kind").and_then(Value::as_str).map(str::to_owned);
    let part = entry.get("part_kind").and_then(Value::as_str);
    match kind.as_deref() {
        Some("tool-approved") if entry.get("override_args").is_none_or(Value::is_null) => {
            Value::Bool(true)
        }
        Some("tool-denied") if entry["message"] == "The tool call was denied." => {
            Value::Bool(false)
        }
        Some("tool-return") if is_bare(&entry) => plain_file(entry["return_value"].clone()),
        // The older form of the same.
        None if part == Some("retry-prompt")
            && entry.get("tool_name").is_none_or(Value::is_null) =>
        {
            json!({ "kind": "model-retry", "message": entry["content"] })
        }
        Some("tool-return") => {
            let given = |(_, value): &(String, Value)| !value.is_null() && *value != json!([]);
            Value::Object(entry.into_iter().filter(given).collect())
        }
        _ => Value::Object(entry),
    }
}

/// A file as the library writes it out, and as it was sent.
fn plain_file(value: Value) -> Value {
    match value {
        Value::Object(file) if file.contains_key("url") => {
            let sent = |(name, _): &(String, Value)| {
                ["kind", "url", "media_type"].contains(&name.as_str())
            };
            Value::Object(file.into_iter().filter(sent).collect())
        }
        value => value,
    }
}

fn is_bare(entry: &Map<String, Value>) -> bool {
    let absent = |name: &str| entry.get(name).is_none_or(Value::is_null);
    entry.contains_key("return_value") && ["content", "metadata", "tools"].iter().all(|n| absent(n))
}

#[tokio::test]
async fn all_12_denials() {
    let vectors = vectors();
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let mut faults = Vec::new();
    for row in rows(&vectors, "denials", 12) {
        let (id, requests) = (text(row, "id"), row["requests"].to_string());
        let found = if text(row, "cause") == "fail" {
            let token = calls.token(asking(deferred_json(&requests, false))).await;
            let failed = calls.fail(&token, text(row, "reason")).await;
            failed.expect("fails");
            let outcome = calls.outcome(&token).await;
            let told = outcome.results.as_ref().map(effects).unwrap_or_default();
            let denies = told
                .values()
                .all(|effect| effect == "denied" || effect == "failed");
            if told.len() != count(&row["results"]) || !denies {
                faults.push(format!("{id}: the message says {told:?}"));
            }
            outcome.results_json
        } else {
            let micros = row["timeout_micros"].as_u64().expect("a number");
            expired(&requests, Duration::from_micros(micros)).1
        };
        let found: Value = serde_json::from_str(&found).expect("JSON");
        if found != row["results"] {
            faults.push(format!(
                "{id}: {found}\n    and should be {}",
                row["results"]
            ));
        }
    }
    failed("denials", &faults);
}

/// Reason and results of a wait that asked this and ran out of time. By the rules alone: days pass.
fn expired(requests: &str, timeout: Duration) -> (String, String) {
    let json = JsonText::new(requests).expect("JSON");
    let requests = read_requests("requests", &json, false).expect("requests");
    let mut new = new_wait(START);
    (new.timeout, new.lifetime) = (timeout, timeout);
    new.question = Some(Question::Deferred(requests));
    let open = new.create(START).record;
    let moment = Moment {
        now: open.expire_time,
        ready: START,
    };
    let Effect::Settle(outcome) = domain::apply(&open, &Command::Expire, moment).effect else {
        panic!("not over after {timeout:?}");
    };
    let Ending::Expired { reason, .. } = outcome.ending else {
        panic!("not expired");
    };
    let decided = outcome.decided.expect("denials");
    (reason, decided.json().as_str().to_owned())
}

fn count(results: &Value) -> usize {
    let entries = |name: &str| results[name].as_object().map_or(0, Map::len);
    entries("calls") + entries("approvals")
}

#[tokio::test]
async fn all_7_rows_of_kinds() {
    let vectors = vectors();
    let server = TestServer::start().await;
    let calls = server.calls().await;
    for row in rows(&vectors, "kinds", 7) {
        let token = calls
            .token(asking(deferred_json(&row["requests"].to_string(), false)))
            .await;
        let wait = calls.describe(&token).await.expect("described");
        let Some(Kind::Deferred(asked)) = wait.question.and_then(|q| q.kind) else {
            panic!("not told as calls");
        };
        let kinds: BTreeMap<_, _> = asked
            .calls
            .iter()
            .map(|call| {
                let kind = match call.kind() {
                    v1::deferred_tool_call::Kind::Approval => "approval",
                    v1::deferred_tool_call::Kind::External => "external",
                    v1::deferred_tool_call::Kind::Question => "question",
                    v1::deferred_tool_call::Kind::Unspecified => "none",
                };
                (call.tool_call_id.as_str(), kind)
            })
            .collect();
        assert_eq!(json!(kinds), row["kinds"]);
    }
}

#[test]
fn all_21_timeout_texts() {
    let vectors = vectors();
    let requests = r#"{"approvals":[{"tool_call_id":"c","tool_name":"t"}]}"#;
    for row in rows(&vectors, "timeout_texts", 21) {
        let micros = row["timeout_micros"].as_u64().expect("a number");
        let (reason, results) = expired(requests, Duration::from_micros(micros));
        assert_eq!(reason, text(row, "reason"));
        let results: Value = serde_json::from_str(&results).expect("JSON");
        let message = format!("No decision on this tool call arrived: {reason}");
        assert_eq!(results["approvals"]["c"]["message"], message);
    }
}

#[tokio::test]
async fn what_is_not_about_tool_calls_has_no_results() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let token = calls.token(spec("free")).await;
    calls.fail(&token, "no").await.expect("fails");
    let outcome = calls.outcome(&token).await;
    assert_eq!((outcome.results, outcome.results_json.as_str()), (None, ""));
}
