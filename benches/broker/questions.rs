//! The same 2 KiB as an answer to different kinds of question: what its check costs.

use abeyance::proto::v1::{self, deferred_tool_call::Kind, question::Kind as Asked};
use serde_json::{Map, Value, json};

/// About the size of each answer's JSON, in bytes.
const ANSWER_BYTES: usize = 2048;

/// How many fields the form has.
const FIELDS: usize = 50;

/// What is asked. The answers are equally long, and so are the questions of each pair that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Anything, in a question as long as that of `Calls`.
    Free,
    /// Three tool calls: an approval, a result, an answer to a question.
    Calls,
    /// Anything, in a question as long as that of `Form`.
    FreeLong,
    /// A form with a schema of 50 fields.
    Form,
}

impl Ask {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Free, Self::Calls, Self::FreeLong, Self::Form];

    /// The question.
    pub fn question(self) -> v1::Question {
        let kind = match self {
            Self::Free => Asked::FreeJson(filled(bytes(&calls()))),
            Self::Calls => Asked::Deferred(v1::DeferredToolRequests {
                calls: calls(),
                may_leave_pending: false,
            }),
            Self::FreeLong => Asked::FreeJson(filled(schema().len())),
            Self::Form => Asked::Form(v1::Form {
                message: "Please fill this in.".to_owned(),
                payload_json: String::new(),
                response_schema_json: schema(),
            }),
        };
        v1::Question { kind: Some(kind) }
    }

    /// The answer's JSON.
    pub fn answer(self) -> String {
        match self {
            Self::Free | Self::Calls => decisions(),
            Self::FreeLong | Self::Form => fields(),
        }
    }
}

fn filled(bytes: usize) -> String {
    let frame = r#"{"why":""}"#.len();
    format!(r#"{{"why":"{}"}}"#, "x".repeat(bytes.saturating_sub(frame)))
}

fn calls() -> Vec<v1::DeferredToolCall> {
    let call = |id: &str, tool: &str, args: Value, kind: Kind| v1::DeferredToolCall {
        tool_call_id: id.to_owned(),
        tool_name: tool.to_owned(),
        args_json: args.to_string(),
        kind: kind.into(),
        ..v1::DeferredToolCall::default()
    };
    let refund =
        json!({"order_id": "4711", "amount": 120.5, "currency": "EUR", "reason": "damaged"});
    vec![
        call("call_refund", "issue_refund", refund, Kind::Approval),
        call(
            "call_stock",
            "check_stock",
            json!({"sku": "TS-42", "size": "M"}),
            Kind::External,
        ),
        call(
            "call_ask",
            "ask_user",
            json!({"question": "Which size?"}),
            Kind::Question,
        ),
    ]
}

fn bytes(calls: &[v1::DeferredToolCall]) -> usize {
    let text = |call: &v1::DeferredToolCall| {
        call.tool_call_id.len() + call.tool_name.len() + call.args_json.len()
    };
    calls.iter().map(text).sum()
}

/// Decisions on the three calls, with values as tools return them.
fn decisions() -> String {
    let row = |n: usize| json!({"sku": format!("TS-{n}"), "size": "M", "left": n, "price": 12.5, "ok": true});
    let mut rows = Vec::new();
    loop {
        let answer = json!({
            "approvals": {"call_refund": {"kind": "tool-approved", "override_args": {"order_id": "4711", "amount": 100}}},
            "calls": {"call_stock": rows, "call_ask": "M, and in blue if there is one"},
            "metadata": {"call_refund": {"ticket": "OPS-12"}},
            "answered_by": {"call_refund": "alice", "call_ask": "bob"},
        })
        .to_string();
        if answer.len() >= ANSWER_BYTES {
            return answer;
        }
        rows.push(row(rows.len()));
    }
}

/// A schema of many fields, as libraries make them from classes.
fn schema() -> String {
    let mut properties = Map::new();
    for n in 0..FIELDS {
        properties.insert(format!("field_{n}"), field(n));
    }
    let required: Vec<_> = properties.keys().cloned().collect();
    json!({
        "title": "Claim",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
    .to_string()
}

fn field(n: usize) -> Value {
    match n % 5 {
        0 => json!({"type": "string", "maxLength": 400}),
        1 => json!({"type": "integer", "minimum": 0, "maximum": 100_000}),
        2 => json!({"type": "boolean"}),
        3 => json!({"enum": ["low", "middle", "high"]}),
        _ => json!({"type": "array", "items": {"type": "number"}, "maxItems": 8}),
    }
}

/// What fills the form in.
fn fields() -> String {
    let mut text = 20;
    loop {
        let mut answer = Map::new();
        for n in 0..FIELDS {
            let value = match n % 5 {
                0 => json!("y".repeat(text)),
                1 => json!(n * 17),
                2 => json!(true),
                3 => json!("middle"),
                _ => json!([1.5, 2, 3.25]),
            };
            answer.insert(format!("field_{n}"), value);
        }
        let answer = Value::Object(answer).to_string();
        if answer.len() >= ANSWER_BYTES {
            return answer;
        }
        text += 1;
    }
}
