//! Reads decisions from their JSON form. All faults are found together, each by its place, in the order of the text.

use std::borrow::Cow;

use super::{
    Approval, CallResult, DENIED, Results, ToolReturn, Unknown,
    normal::most_levels,
    tool_return::{self, Misfit, member},
};
use crate::domain::{
    error::{Faults, Violation},
    json::{JsonText, Node},
    limits::{AnsweredBy, quoted},
    question::{Call, Requests, Section},
    suggest::suggest,
};

/// What becomes of keys that this version does not know, at the top of an answer and within an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownKeys {
    /// They are faults: `overrideArgs` for `override_args` would run the arguments that nobody approved.
    #[default]
    Refuse,
    /// They go to the worker as they came, for a library that is newer than the broker.
    Relay,
}

type Member<'a> = (Cow<'a, str>, &'a str);

/// Reads an answer to `requests`. What is returned is whole only if there are no faults.
pub fn read(
    answer: &JsonText,
    requests: &Requests,
    unknown: UnknownKeys,
    faults: &mut Faults,
) -> Results {
    let mut reader = Reader {
        requests,
        unknown,
        faults,
        results: Results::default(),
    };
    match Node::of(answer.as_str()) {
        Node::Object(members) => reader.sections(&members),
        _ => {
            reader.faults.push(
                || "payload_json".to_owned(),
                "must be an object with `approvals` and `calls`, each by tool call id",
            );
            let calls = requests.calls().iter();
            reader.results.faulty = calls.map(|call| call.id.clone()).collect();
        }
    }
    reader.results
}

struct Reader<'a> {
    requests: &'a Requests,
    unknown: UnknownKeys,
    faults: &'a mut Faults,
    results: Results,
}

const SECTIONS: [Section; 4] = [
    Section::Approvals,
    Section::Calls,
    Section::Metadata,
    Section::AnsweredBy,
];

impl Reader<'_> {
    fn sections(&mut self, members: &[Member<'_>]) {
        for (key, text) in members {
            match SECTIONS.into_iter().find(|section| section.name() == key) {
                Some(section) => self.section(section, text),
                None => {
                    let known = SECTIONS.map(Section::name);
                    if let Some(kept) = self.unknown_key(key, text, &known, || named(key)) {
                        self.results.unknown.push(kept);
                    }
                }
            }
        }
    }

    fn section(&mut self, section: Section, text: &str) {
        let Node::Object(entries) = Node::of(text) else {
            let field = || section.name().to_owned();
            self.faults.push(field, "must be an object by tool call id");
            let calls = self.requests.calls().iter();
            let meant = calls.filter(|call| call.kind.section() == section);
            self.results
                .faulty
                .extend(meant.map(|call| call.id.clone()));
            return;
        };
        for (id, text) in &entries {
            match self.requests.place(section, id) {
                Ok(call) => self.entry(section, &call.clone(), text),
                Err(fault) => {
                    self.results.faulty.extend(self.requests.meant(section, id));
                    self.faults.push(|| section.at(id), fault);
                }
            }
        }
    }

    fn entry(&mut self, section: Section, call: &Call, text: &str) {
        let id = call.id.clone();
        match section {
            Section::Approvals => match self.approval(call, text) {
                Some(approval) => self.results.approvals.push((id, approval)),
                None => self.results.faulty.push(id),
            },
            Section::Calls => match self.result(call, text) {
                Some(result) => self.results.calls.push((id, result)),
                None => self.results.faulty.push(id),
            },
            Section::Metadata => match Node::of(text) {
                Node::Object(_) => self.results.metadata.push((id, JsonText::part(text))),
                _ => self.fault(section, call, "", "must be an object"),
            },
            Section::AnsweredBy => {
                let by = match Node::of(text) {
                    Node::String(by) => AnsweredBy::new(&by),
                    _ => Err("must be a string: who decided".to_owned()),
                };
                match by {
                    Ok(by) => self.results.answered_by.push((id, by)),
                    Err(fault) => self.fault(section, call, "", fault),
                }
            }
        }
    }

    fn approval(&mut self, call: &Call, text: &str) -> Option<Approval> {
        const WANTED: &str =
            "must be true, false, or an object whose `kind` is tool-approved or tool-denied";
        let members = match Node::of(text) {
            Node::Bool(true) => {
                return Some(Approval::Approved {
                    override_args: None,
                    unknown: Unknown::new(),
                });
            }
            Node::Bool(false) => {
                return Some(Approval::Denied {
                    message: DENIED.to_owned(),
                    unknown: Unknown::new(),
                });
            }
            Node::Object(members) => members,
            _ => {
                self.fault(Section::Approvals, call, "", WANTED);
                return None;
            }
        };
        match member(&members, "kind").map(Node::of) {
            Some(Node::String(kind)) if kind == "tool-approved" => self.approved(call, &members),
            Some(Node::String(kind)) if kind == "tool-denied" => self.denied(call, &members),
            _ => {
                self.fault(Section::Approvals, call, "", WANTED);
                None
            }
        }
    }

    fn approved(&mut self, call: &Call, members: &[Member<'_>]) -> Option<Approval> {
        let mut fits = true;
        let mut override_args = None;
        if let Some(text) = member(members, "override_args") {
            match Node::of(text) {
                Node::Null => {}
                Node::Object(_) => override_args = Some(JsonText::part(text)),
                _ => {
                    fits = false;
                    let fault = "must be an object, or null to run the tool with its own arguments";
                    self.fault(Section::Approvals, call, ".override_args", fault);
                }
            }
        }
        let unknown = self.unknown_in(call, members, &["kind", "override_args"]);
        fits.then_some(Approval::Approved {
            override_args,
            unknown,
        })
    }

    fn denied(&mut self, call: &Call, members: &[Member<'_>]) -> Option<Approval> {
        let message = match member(members, "message").map(Node::of) {
            None => Some(DENIED.to_owned()),
            Some(Node::String(message)) => Some(message.into_owned()),
            Some(_) => {
                self.fault(Section::Approvals, call, ".message", "must be a string");
                None
            }
        };
        let unknown = self.unknown_in(call, members, &["kind", "message"]);
        message.map(|message| Approval::Denied { message, unknown })
    }

    fn unknown_in(&mut self, call: &Call, members: &[Member<'_>], known: &[&str]) -> Unknown {
        let mut kept = Unknown::new();
        for (key, text) in members {
            if !known.contains(&key.as_ref()) {
                let at = || format!("{}.{}", Section::Approvals.at(call.id.as_str()), named(key));
                kept.extend(self.unknown_key(key, text, known, at));
            }
        }
        kept
    }

    fn unknown_key(
        &mut self,
        key: &str,
        text: &str,
        known: &[&str],
        at: impl FnOnce() -> String,
    ) -> Option<(String, JsonText)> {
        if self.unknown == UnknownKeys::Relay {
            return Some((key.to_owned(), JsonText::part(text)));
        }
        self.faults.push_with(|| {
            let fault = match suggest(key, known) {
                Some(meant) => format!("is not known here; `{meant}` was probably meant"),
                None => format!("is not known here; known are {}", known.join(", ")),
            };
            Violation::new(at(), fault)
        });
        None
    }

    fn result(&mut self, call: &Call, text: &str) -> Option<CallResult> {
        let found = result_of(text);
        for (path, fault) in found.as_ref().err().into_iter().flatten() {
            self.fault(Section::Calls, call, path, fault.as_str());
        }
        found.ok()
    }

    fn fault(&mut self, section: Section, call: &Call, path: &str, fault: impl Into<String>) {
        let at = || format!("{}{path}", section.at(call.id.as_str()));
        self.faults.push(at, fault);
    }
}

/// Reads what stands for the result of a call.
pub(super) fn result_of(text: &str) -> Result<CallResult, Vec<Misfit>> {
    let misfit = |path: &str, fault: &str| Err(vec![(path.to_owned(), fault.to_owned())]);
    // Most values are no objects, and need not be gone through.
    if !text.trim_start().starts_with('{') {
        return value(text);
    }
    let Node::Object(members) = Node::of(text) else {
        return value(text);
    };
    // The library looks at `part_kind` only where there is no `kind`.
    let tag = match (member(&members, "kind"), member(&members, "part_kind")) {
        (Some(kind), _) => Node::of(kind),
        (None, Some(kind)) => return part(&members, kind, text),
        (None, None) => return value(text),
    };
    let Node::String(tag) = tag else {
        return value(text);
    };
    match tag.as_ref() {
        "tool-return" => {
            let misfits = tool_return::misfits(&members);
            if misfits.is_empty() {
                Ok(tool_return_of(&members))
            } else {
                Err(misfits)
            }
        }
        "tool-failed" | "model-retry" => match member(&members, "message").map(Node::of) {
            Some(Node::String(message)) if tag == "tool-failed" => {
                Ok(CallResult::Failed(message.into_owned()))
            }
            Some(Node::String(message)) => Ok(CallResult::Retry(message.into_owned())),
            Some(_) => misfit(".message", "must be a string"),
            None => misfit(".message", "is required: what the model is told"),
        },
        "retry-prompt" => retry_prompt(&members, text),
        "tool-denied" | "tool-approved" => misfit(
            ".kind",
            "is a decision on an approval, and this call waits for a result; use tool-failed to refuse it",
        ),
        _ => value(text),
    }
}

/// An older form of the library's own messages: where it does not fit, it is a value like any other.
fn part(members: &[Member<'_>], kind: &str, text: &str) -> Result<CallResult, Vec<Misfit>> {
    match Node::of(kind) {
        Node::String(kind) if kind == "tool-return" && tool_return::misfits(members).is_empty() => {
            Ok(tool_return_of(members))
        }
        Node::String(kind) if kind == "retry-prompt" => retry_prompt(members, text),
        _ => value(text),
    }
}

fn retry_prompt(members: &[Member<'_>], text: &str) -> Result<CallResult, Vec<Misfit>> {
    match tool_return::retry_prompt(members) {
        Some(message) => Ok(CallResult::Retry(message)),
        None => value(text),
    }
}

fn value(text: &str) -> Result<CallResult, Vec<Misfit>> {
    let value = JsonText::part(text);
    let most = most_levels(&value);
    if value.is_deeper_than(most) {
        return Err(vec![(String::new(), too_deep(most))]);
    }
    Ok(CallResult::Value(value))
}

/// What is said of a value that is too deep for what stands around it.
pub(super) fn too_deep(most: usize) -> String {
    format!("is nested deeper than {most} levels, the most that fit into the results")
}

/// Reads a `tool-return` that fits.
fn tool_return_of(members: &[Member<'_>]) -> CallResult {
    let json = |name: &str| {
        let text = member(members, name).filter(|text| !matches!(Node::of(text), Node::Null));
        text.map(JsonText::part)
    };
    let tools = match member(members, "tools").map(Node::of) {
        Some(Node::Array(tools)) => tools,
        _ => Vec::new(),
    };
    let tools = tools.into_iter().filter_map(|tool| match Node::of(tool) {
        Node::String(tool) => Some(tool.into_owned()),
        _ => None,
    });
    let digests = json("content_file_digests");
    CallResult::Return(ToolReturn {
        // Required where it fits.
        value: JsonText::part(member(members, "return_value").unwrap_or("null")),
        content: json("content"),
        metadata: json("metadata"),
        tools: tools.collect(),
        // Anything but an array is no record of files.
        file_digests: digests.filter(|json| matches!(Node::of(json.as_str()), Node::Array(_))),
    })
    .plainest()
}

/// A key as it stands in a path.
fn named(key: &str) -> String {
    let plain = key
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain && !key.is_empty() && key.len() <= 64 {
        key.to_owned()
    } else {
        quoted(key)
    }
}
