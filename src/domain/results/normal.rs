//! The one JSON form of decisions that workers get: what Pydantic AI's `TypeAdapter(DeferredToolResults).validate_python` takes.
//!
//! The frame is ours; every value, override and metadata within is its sender's, byte for byte. Reading the form again gives the
//! same decisions.

use super::{
    Approval, CallResult, Results, ToolReturn, Unknown,
    tool_return::{looks_tagged, special},
};
use crate::domain::json::{JsonText, quote};

/// The most levels of what stands right under its call's id: two more stand around it, and JSON has at most 127.
pub(super) const MAX_LEVELS: usize = 125;

/// The most levels of what stands in a decision with a tag.
pub(super) const MAX_LEVELS_FRAMED: usize = MAX_LEVELS - 1;

/// The most levels that this value of a call may have.
pub(super) fn most_levels(value: &JsonText) -> usize {
    match Frame::of(value) {
        Frame::None => MAX_LEVELS,
        Frame::Return | Frame::ReturnWithoutFiles => MAX_LEVELS_FRAMED,
    }
}

impl Results {
    /// Writes the form.
    pub(super) fn to_json(&self) -> JsonText {
        let mut text = String::with_capacity(128 + self.bytes());
        text.push_str("{\"calls\":");
        object(&mut text, &self.calls, |id| id.as_str(), result);
        text.push_str(",\"approvals\":");
        object(&mut text, &self.approvals, |id| id.as_str(), approval);
        text.push_str(",\"metadata\":");
        object(
            &mut text,
            &self.metadata,
            |id| id.as_str(),
            |text, json| {
                text.push_str(json.as_str());
            },
        );
        text.push_str(",\"answered_by\":");
        object(
            &mut text,
            &self.answered_by,
            |id| id.as_str(),
            |text, by| {
                text.push_str(&quote(by.as_str()));
            },
        );
        unknown_keys(&mut text, &self.unknown);
        text.push('}');
        JsonText::part(&text)
    }
}

fn object<K, V>(
    text: &mut String,
    entries: &[(K, V)],
    key: fn(&K) -> &str,
    value: impl Fn(&mut String, &V),
) {
    text.push('{');
    for (at, (id, entry)) in entries.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&quote(key(id)));
        text.push(':');
        value(text, entry);
    }
    text.push('}');
}

fn unknown_keys(text: &mut String, keys: &Unknown) {
    for (key, json) in keys {
        text.push(',');
        text.push_str(&quote(key));
        text.push(':');
        text.push_str(json.as_str());
    }
}

fn approval(text: &mut String, approval: &Approval) {
    let keys = match approval {
        Approval::Approved {
            override_args,
            unknown,
        } => {
            text.push_str("{\"kind\":\"tool-approved\"");
            member(text, "override_args", override_args.as_ref());
            unknown
        }
        Approval::Denied { message, unknown } => {
            text.push_str("{\"kind\":\"tool-denied\",\"message\":");
            text.push_str(&quote(message));
            unknown
        }
    };
    unknown_keys(text, keys);
    text.push('}');
}

fn member(text: &mut String, name: &str, json: Option<&JsonText>) {
    if let Some(json) = json {
        text.push_str(&format!(",\"{name}\":{}", json.as_str()));
    }
}

fn result(text: &mut String, result: &CallResult) {
    match result {
        CallResult::Value(json) => match Frame::of(json) {
            Frame::None => text.push_str(json.as_str()),
            frame => tool_return(text, &frame.around(json)),
        },
        CallResult::Return(given) => tool_return(text, given),
        CallResult::Failed(message) => tagged_message(text, "tool-failed", message),
        CallResult::Retry(message) => tagged_message(text, "model-retry", message),
    }
}

fn tagged_message(text: &mut String, tag: &str, message: &str) {
    let message = quote(message);
    text.push_str(&format!("{{\"kind\":\"{tag}\",\"message\":{message}}}"));
}

fn tool_return(text: &mut String, given: &ToolReturn) {
    text.push_str("{\"kind\":\"tool-return\"");
    member(text, "return_value", Some(&given.value));
    member(text, "content", given.content.as_ref());
    member(text, "metadata", given.metadata.as_ref());
    if !given.tools.is_empty() {
        let tools: Vec<_> = given.tools.iter().map(|tool| quote(tool)).collect();
        text.push_str(&format!(",\"tools\":[{}]", tools.join(",")));
    }
    member(text, "content_file_digests", given.file_digests.as_ref());
    text.push('}');
}

/// What stands around a value so that the library takes it for data.
#[derive(Clone, Copy, PartialEq)]
enum Frame {
    /// Nothing: it has no tag. Nor has a value with binary data a frame, which within a `tool-return` would undo the frame; no
    /// value comes this far that needs one all the same.
    None,
    /// A `tool-return`.
    Return,
    /// A `tool-return` that says that no object within it is a file.
    ReturnWithoutFiles,
}

impl Frame {
    fn of(value: &JsonText) -> Self {
        let value = value.as_str();
        if !looks_tagged(value) {
            return Self::None;
        }
        let special = special(value);
        match () {
            () if special.binary => Self::None,
            () if special.file => Self::ReturnWithoutFiles,
            () => Self::Return,
        }
    }

    fn around(self, value: &JsonText) -> ToolReturn {
        let no_files = self == Self::ReturnWithoutFiles;
        ToolReturn {
            value: value.clone(),
            content: None,
            metadata: None,
            tools: Vec::new(),
            file_digests: no_files.then(|| JsonText::part("[]")),
        }
    }
}

impl CallResult {
    /// The same result in its plainest form: a value whose frame was written out is that value, so that what is read back from the
    /// form is what was written.
    pub(super) fn plainest(self) -> Self {
        match self {
            Self::Return(given) => {
                let frame = Frame::of(&given.value);
                if frame != Frame::None && frame.around(&given.value) == given {
                    Self::Value(given.value)
                } else {
                    Self::Return(given)
                }
            }
            other => other,
        }
    }
}
