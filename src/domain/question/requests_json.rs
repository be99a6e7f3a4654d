//! Reads tool calls from the JSON form of Pydantic AI's `DeferredToolRequests`.
//!
//! What the broker does not know is ignored, since libraries add fields and a worker asks with what its library writes; but for a key
//! that looks like a known one, misspelt, where that one is missing.

use std::borrow::Cow;

use super::deferred::{Call, CallKind, Requests};
use crate::domain::{
    error::Violation,
    json::{JsonText, Node},
    limits::{CallId, Description, ToolName, quoted},
    suggest::suggest,
};

/// Reads `text`, which came in `field`.
///
/// # Errors
/// Every fault, in the order of calls, approvals, metadata and kinds.
pub fn read(
    field: &str,
    text: &JsonText,
    may_leave_pending: bool,
) -> Result<Requests, Vec<Violation>> {
    let Node::Object(members) = Node::of(text.as_str()) else {
        let fault = "must be an object with `calls` and `approvals`, as Pydantic AI writes DeferredToolRequests";
        return Err(vec![Violation::new(field, fault)]);
    };
    let mut faults = Vec::new();
    let mut reader = Reader {
        field,
        faults: &mut faults,
    };
    let member = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, v)| *v);
    for (key, _) in &members {
        reader.misspelt("", key, &TOP, |meant| member(meant).is_some());
    }
    if member("calls").is_none() && member("approvals").is_none() {
        reader.fault("", "must have `calls` or `approvals`: arrays of tool calls");
    }
    let mut calls = Vec::new();
    reader.calls("calls", member("calls"), CallKind::External, &mut calls);
    reader.calls(
        "approvals",
        member("approvals"),
        CallKind::Approval,
        &mut calls,
    );
    for (id, metadata) in reader.map("metadata", member("metadata")) {
        let call = calls.iter_mut().find(|call| call.id.as_str() == id);
        match (Node::of(metadata), call) {
            (Node::Object(_), Some(call)) => call.metadata = Some(JsonText::part(metadata)),
            (Node::Object(_), None) => {}
            _ => reader.fault(&format!(".metadata[{}]", quoted(&id)), "must be an object"),
        }
    }
    for (id, kind) in reader.map("_kinds", member("_kinds")) {
        let call = calls.iter_mut().find(|call| call.id.as_str() == id);
        match (Node::of(kind), call) {
            // Only a call under `calls` can be a question; under `approvals` its place says what it is.
            (Node::String(kind), Some(call)) => {
                if kind == "question" && call.kind == CallKind::External {
                    call.kind = CallKind::Question;
                }
            }
            (Node::String(_), None) => {}
            _ => reader.fault(&format!("._kinds[{}]", quoted(&id)), "must be a string"),
        }
    }
    match Requests::new(field, calls, may_leave_pending) {
        Ok(requests) if faults.is_empty() => Ok(requests),
        Ok(_) => Err(faults),
        Err(found) => {
            faults.extend(found);
            Err(faults)
        }
    }
}

/// The keys that matter here.
const TOP: [&str; 4] = ["calls", "approvals", "metadata", "_kinds"];
const CALL: [&str; 3] = ["tool_call_id", "tool_name", "args"];
/// What others call `args`.
const ARGS: [&str; 4] = ["arguments", "parameters", "params", "input"];

struct Reader<'a> {
    field: &'a str,
    faults: &'a mut Vec<Violation>,
}

impl Reader<'_> {
    fn fault(&mut self, path: &str, description: impl Into<String>) {
        let field = format!("{}{path}", self.field);
        self.faults.push(Violation::new(field, description));
    }

    /// Libraries add keys, and those are ignored; but one that stands where a known one is missing would leave out what it says.
    fn misspelt(&mut self, path: &str, key: &str, known: &[&str], there: impl Fn(&str) -> bool) {
        if known.contains(&key) {
            return;
        }
        let alias = (known.contains(&"args") && ARGS.contains(&key)).then_some("args");
        if let Some(meant) = alias
            .or_else(|| suggest(key, known))
            .filter(|meant| !there(meant))
        {
            let fault = format!("is not known here; `{meant}` was probably meant");
            self.fault(&format!("{path}.{key}"), fault);
        }
    }

    /// An object by call id. Absent and null: empty.
    fn map<'t>(&mut self, name: &str, text: Option<&'t str>) -> Vec<(Cow<'t, str>, &'t str)> {
        match text.map(Node::of) {
            None | Some(Node::Null) => Vec::new(),
            Some(Node::Object(members)) => members,
            Some(_) => {
                self.fault(&format!(".{name}"), "must be an object by call id");
                Vec::new()
            }
        }
    }

    fn calls(&mut self, name: &str, text: Option<&str>, kind: CallKind, into: &mut Vec<Call>) {
        let parts = match text.map(Node::of) {
            None | Some(Node::Null) => return,
            Some(Node::Array(parts)) => parts,
            Some(_) => {
                return self.fault(&format!(".{name}"), "must be an array of tool calls");
            }
        };
        // A few more than are taken, so that the count is told and no more is read.
        for (at, part) in parts.iter().enumerate().take(Requests::MAX + 1) {
            if let Some(call) = self.call(&format!(".{name}[{at}]"), part, kind) {
                into.push(call);
            }
        }
    }

    fn call(&mut self, path: &str, part: &str, kind: CallKind) -> Option<Call> {
        let Node::Object(members) = Node::of(part) else {
            self.fault(path, "must be an object: a tool call");
            return None;
        };
        let member = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, v)| *v);
        for (key, _) in &members {
            self.misspelt(path, key, &CALL, |meant| member(meant).is_some());
        }
        let id = self.text(path, "tool_call_id", member("tool_call_id"), CallId::new);
        let tool = self.text(path, "tool_name", member("tool_name"), ToolName::new);
        let args = self.args(path, member("args"));
        Some(Call {
            id: id?,
            tool: tool?,
            args: args?,
            kind,
            metadata: None,
            description: Description::from_store(String::new()),
        })
    }

    fn text<T>(
        &mut self,
        path: &str,
        name: &str,
        text: Option<&str>,
        check: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let checked = match text.map(Node::of) {
            Some(Node::String(text)) => check(&text),
            Some(_) => Err("must be a string".to_owned()),
            None => Err("is required".to_owned()),
        };
        checked
            .map_err(|fault| self.fault(&format!("{path}.{name}"), fault))
            .ok()
    }

    fn args(&mut self, path: &str, text: Option<&str>) -> Option<JsonText> {
        let text = text.unwrap_or("null");
        match Node::of(text) {
            Node::Object(_) | Node::String(_) | Node::Null => Some(JsonText::part(text)),
            _ => {
                let fault = "must be an object, a string that holds JSON, or null";
                self.fault(&format!("{path}.args"), fault);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &str) -> Result<Requests, Vec<(String, String)>> {
        read("q", &JsonText::new(text).expect(text), false).map_err(|faults| {
            faults
                .into_iter()
                .map(|f| (f.field, f.description))
                .collect()
        })
    }

    #[test]
    fn arguments_and_metadata_are_kept_byte_for_byte() {
        let asked = requests(
            r#"{"calls":[{"tool_name":"ask","args":"{\"a\": 1}","tool_call_id":"q_1","part_kind":"tool-call","new":[1]}],
                "approvals":[{"tool_name":"refund","args":{ "amount" : 1.50 },"tool_call_id":"c_1"},
                             {"tool_name":"stop","tool_call_id":"c_2"}],
                "metadata":{"c_1":{ "risk": "high" },"gone":{}},"_kinds":{"q_1":"question","c_1":"approval","x":"new"},"more":{}}"#,
        )
        .expect("valid");
        let told: Vec<_> = asked
            .calls()
            .iter()
            .map(|c| {
                (
                    c.id.as_str(),
                    c.kind,
                    c.args.as_str(),
                    c.metadata.as_ref().map(JsonText::as_str),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("q_1", CallKind::Question, r#""{\"a\": 1}""#, None),
                (
                    "c_1",
                    CallKind::Approval,
                    r#"{ "amount" : 1.50 }"#,
                    Some(r#"{ "risk": "high" }"#)
                ),
                ("c_2", CallKind::Approval, "null", None),
            ]
        );
    }

    #[test]
    fn every_fault_is_told_by_its_place() {
        let faults = requests(
            r#"{"calls":[1,{"tool_name":"t","args":[1]}],"approvals":{},"metadata":{"a":1},"_kinds":[]}"#,
        )
        .expect_err("invalid");
        let places: Vec<_> = faults.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(
            places,
            [
                "q.calls[0]",
                "q.calls[1].tool_call_id",
                "q.calls[1].args",
                "q.approvals",
                "q.metadata[\"a\"]",
                "q._kinds"
            ]
        );
        let twice = requests(
            r#"{"calls":[{"tool_name":"t","tool_call_id":"a"}],"approvals":[{"tool_name":"t","tool_call_id":"a"}]}"#,
        );
        assert!(twice.expect_err("twice")[0].1.contains("\"a\" twice"));
        assert_eq!(requests("[]").expect_err("an array")[0].0, "q");
    }

    #[test]
    fn what_a_misspelt_key_says_is_not_left_out() {
        for (text, at) in [
            (r#"{"approval":[]}"#, "q.approval"),
            (r#"{"Calls":[],"approvals":[]}"#, "q.Calls"),
            ("{}", "q"),
            (
                r#"{"calls":[{"tool_name":"t","tool_call_id":"a","arguments":{"a":1}}]}"#,
                "q.calls[0].arguments",
            ),
            (
                r#"{"calls":[{"tool_name":"t","toolCallId":"a"}]}"#,
                "q.calls[0].toolCallId",
            ),
        ] {
            assert_eq!(requests(text).expect_err(text)[0].0, at);
        }
        // A new key beside the one that it looks like is the library's affair.
        let both = r#"{"calls":[{"tool_name":"t","tool_call_id":"a","args":{},"input":{},"id":null}],"context":{}}"#;
        requests(both).expect("is taken");
    }
}
