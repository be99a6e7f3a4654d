//! Questions and decisions as text, for every store that keeps rows. All of it is JSON; what others wrote stands in it as it came.

use serde::{Deserialize, Serialize};

use crate::domain::{
    Decided, Faults, JsonText, Timestamp,
    json::{Node, quote},
    limits::{CallId, Description, RequestId, ToolName},
    question::{Call, CallKind, Form, Requests},
    results::{self, Entry, UnknownKeys},
};

/// Writes the tool calls of a question.
pub(super) fn of_requests(requests: &Requests) -> String {
    let mut text = String::with_capacity(64 + requests.bytes() + 96 * requests.calls().len());
    text.push_str("{\"calls\":[");
    for (at, call) in requests.calls().iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        let kind = match call.kind {
            CallKind::Approval => "approval",
            CallKind::External => "external",
            CallKind::Question => "question",
        };
        let (id, tool) = (quote(call.id.as_str()), quote(call.tool.as_str()));
        text.push_str(&format!(
            "{{\"id\":{id},\"tool\":{tool},\"kind\":\"{kind}\",\"args\":"
        ));
        text.push_str(call.args.as_str());
        if let Some(metadata) = &call.metadata {
            text.push_str(",\"metadata\":");
            text.push_str(metadata.as_str());
        }
        if !call.description.as_str().is_empty() {
            text.push_str(",\"description\":");
            text.push_str(&quote(call.description.as_str()));
        }
        text.push('}');
    }
    let may = requests.may_leave_pending();
    text.push_str(&format!("],\"may_leave_pending\":{may}}}"));
    text
}

/// Reads what [`of_requests`] wrote.
pub(super) fn to_requests(text: &str) -> Result<Requests, String> {
    let object = Object::of(text)?;
    let Node::Array(calls) = Node::of(object.text("calls")?) else {
        return Err("`calls` is no array".to_owned());
    };
    let calls = calls.into_iter().map(to_call).collect::<Result<_, _>>()?;
    let may_leave_pending = Node::of(object.text("may_leave_pending")?) == Node::Bool(true);
    Ok(Requests::from_store(calls, may_leave_pending))
}

fn to_call(text: &str) -> Result<Call, String> {
    let object = Object::of(text)?;
    Ok(Call {
        id: CallId::from_store(object.string("id")?),
        tool: ToolName::from_store(object.string("tool")?),
        kind: match object.string("kind")?.as_str() {
            "approval" => CallKind::Approval,
            "external" => CallKind::External,
            "question" => CallKind::Question,
            _ => return Err("a call has a kind that this version does not know".to_owned()),
        },
        args: JsonText::part(object.text("args")?),
        metadata: object.find("metadata").map(JsonText::part),
        description: Description::from_store(object.string_or_empty("description")?),
    })
}

/// Writes a form.
pub(super) fn of_form(form: &Form) -> String {
    let mut text = format!("{{\"message\":{}", quote(form.message.as_str()));
    for (name, json) in [("payload", &form.payload), ("schema", &form.schema)] {
        if let Some(json) = json {
            text.push_str(&format!(",\"{name}\":{}", json.as_str()));
        }
    }
    text.push('}');
    text
}

/// Reads what [`of_form`] wrote.
pub(super) fn to_form(text: &str) -> Result<Form, String> {
    let object = Object::of(text)?;
    Ok(Form {
        message: Description::from_store(object.string("message")?),
        payload: object.find("payload").map(JsonText::part),
        schema: object.find("schema").map(JsonText::part),
    })
}

/// Who was first with which call, and the ids of answers.
#[derive(Serialize, Deserialize)]
struct Entries {
    /// Call id, microseconds since the Unix epoch, whether by a partial answer.
    entries: Vec<(String, i64, bool)>,
    request_ids: Vec<String>,
}

/// Writes what [`Decided::json`] does not say.
pub(super) fn of_entries(decided: &Decided) -> String {
    let entry = |e: &Entry| (e.call.as_str().to_owned(), e.time.as_micros(), e.partial);
    let ids = decided.request_ids().iter();
    let entries = Entries {
        entries: decided.entries().iter().map(entry).collect(),
        request_ids: ids.map(|id| id.as_str().to_owned()).collect(),
    };
    // Texts and numbers are always JSON.
    serde_json::to_string(&entries).unwrap_or_default()
}

/// Reads decisions from their JSON form and what [`of_entries`] wrote.
pub(super) fn to_decided(
    json: String,
    entries: &str,
    requests: &Requests,
) -> Result<Decided, String> {
    let json = JsonText::from_store(json);
    let mut faults = Faults::default();
    let results = results::read(&json, requests, UnknownKeys::Relay, &mut faults);
    if !faults.is_empty() {
        return Err(format!("decisions that do not fit: {faults}"));
    }
    let entries: Entries = serde_json::from_str(entries).map_err(|e| e.to_string())?;
    let entry = |(call, micros, partial)| Entry {
        call: CallId::from_store(call),
        time: Timestamp::from_micros(micros),
        partial,
    };
    Ok(Decided::from_store(
        results,
        json,
        entries.entries.into_iter().map(entry).collect(),
        entries
            .request_ids
            .into_iter()
            .map(RequestId::from_store)
            .collect(),
    ))
}

/// The members of an object that was written here.
struct Object<'a>(Vec<(std::borrow::Cow<'a, str>, &'a str)>);

impl<'a> Object<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        match Node::of(text) {
            Node::Object(members) => Ok(Self(members)),
            _ => Err("it is no object".to_owned()),
        }
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, v)| *v)
    }

    fn text(&self, name: &str) -> Result<&'a str, String> {
        self.find(name)
            .ok_or_else(|| format!("`{name}` is missing"))
    }

    fn string(&self, name: &str) -> Result<String, String> {
        match Node::of(self.text(name)?) {
            Node::String(text) => Ok(text.into_owned()),
            _ => Err(format!("`{name}` is no string")),
        }
    }

    fn string_or_empty(&self, name: &str) -> Result<String, String> {
        match self.find(name) {
            Some(_) => self.string(name),
            None => Ok(String::new()),
        }
    }
}
