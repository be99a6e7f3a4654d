//! The documents that mutations begin with.
//!
//! Used by `tests/it/mutations.rs` and, by its path, by the targets in `tests/fuzz/`.

use serde_json::Value;

/// A set of tool calls that wait, and an answer.
pub struct Vector {
    pub requests: Value,
    pub answer: Value,
    pub may_leave_pending: bool,
}

/// The vectors in `tests/data` whose answers are JSON as a program writes it.
pub fn answers() -> Vec<Vector> {
    let vectors: Value =
        serde_json::from_str(include_str!("../../data/deferred_tool_results.json"))
            .expect("the vectors are JSON");
    let cases = vectors["cases"].as_array().expect("cases");
    let answer = |case: &Value| match &case["answer_text"] {
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => Some(case["answer"].clone()),
    };
    let vector = |case: &Value| {
        Some(Vector {
            requests: case["requests"].clone(),
            answer: answer(case)?,
            may_leave_pending: case["allow_partial"] == true,
        })
    };
    cases.iter().filter_map(vector).collect()
}

/// Schemas, and an answer that fits each.
pub fn schemas() -> Vec<(Value, Value)> {
    let pairs: Value = serde_json::from_str(include_str!("schemas.json")).expect("it is JSON");
    let pairs = pairs.as_array().expect("pairs");
    pairs
        .iter()
        .map(|pair| (pair["schema"].clone(), pair["answer"].clone()))
        .collect()
}

/// The ids of tool calls.
pub fn ids(requests: &Value) -> Vec<String> {
    let calls = [&requests["calls"], &requests["approvals"]];
    let calls = calls.into_iter().filter_map(Value::as_array).flatten();
    calls
        .filter_map(|call| call["tool_call_id"].as_str().map(str::to_owned))
        .collect()
}
