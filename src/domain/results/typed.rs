//! Places decisions that came as a message: whether such calls wait, and whether what was given for them fits.

use super::{
    Approval, CallResult, Results, ToolReturn,
    grammar::too_deep,
    normal::MAX_LEVELS,
    tool_return::{BINARY, content_misfits, has_binary, is_tagged_result},
};
use crate::domain::{
    error::Faults,
    json::JsonText,
    limits::CallId,
    question::{Requests, Section},
};

/// Looks for the calls that an answer to `requests` names. What is returned is whole only if there are no faults.
pub fn place(answer: Results<String>, requests: &Requests, faults: &mut Faults) -> Results {
    let mut placed = Results {
        unknown: answer.unknown,
        ..Results::default()
    };
    let mut faulty = Vec::new();
    let mut place = |section: Section, id: &str| match requests.place(section, id) {
        Ok(call) => Some(call.id.clone()),
        Err(fault) => {
            faulty.extend(requests.meant(section, id));
            faults.push(|| section.at(id), fault);
            None
        }
    };
    for (id, approval) in answer.approvals {
        placed
            .approvals
            .extend(place(Section::Approvals, &id).map(|id| (id, approval)));
    }
    for (id, result) in answer.calls {
        placed
            .calls
            .extend(place(Section::Calls, &id).map(|id| (id, result.plainest())));
    }
    for (id, metadata) in answer.metadata {
        placed
            .metadata
            .extend(place(Section::Metadata, &id).map(|id| (id, metadata)));
    }
    for (id, by) in answer.answered_by {
        placed
            .answered_by
            .extend(place(Section::AnsweredBy, &id).map(|id| (id, by)));
    }
    placed.faulty = faulty;
    check(&placed, faults);
    placed
}

/// What the message's own form does not rule out.
fn check(results: &Results, faults: &mut Faults) {
    for (id, approval) in &results.approvals {
        if let Approval::Approved {
            override_args: Some(json),
            ..
        } = approval
        {
            depth(json, Section::Approvals, id, ".override_args", faults);
        }
    }
    for (id, result) in &results.calls {
        match result {
            CallResult::Value(json) => {
                depth(json, Section::Calls, id, "", faults);
                // It would have to be wrapped, and cannot be.
                if is_tagged_result(json.as_str()) && has_binary(json.as_str()) {
                    faults.push(|| Section::Calls.at(id.as_str()), BINARY);
                }
            }
            CallResult::Return(given) => tool_return(given, id, faults),
            CallResult::Failed(_) | CallResult::Retry(_) => {}
        }
    }
    for (id, json) in &results.metadata {
        depth(json, Section::Metadata, id, "", faults);
    }
}

fn tool_return(given: &ToolReturn, id: &CallId, faults: &mut Faults) {
    let at = |path: &str| format!("{}{path}", Section::Calls.at(id.as_str()));
    depth(&given.value, Section::Calls, id, ".return_value", faults);
    if has_binary(given.value.as_str()) {
        faults.push(|| at(".return_value"), BINARY);
    }
    if let Some(content) = &given.content {
        depth(content, Section::Calls, id, ".content", faults);
        for (path, fault) in content_misfits(content.as_str()) {
            faults.push(|| at(&format!(".content{path}")), fault);
        }
    }
    if let Some(metadata) = &given.metadata {
        depth(metadata, Section::Calls, id, ".metadata", faults);
    }
}

fn depth(json: &JsonText, section: Section, id: &CallId, path: &str, faults: &mut Faults) {
    if json.levels() > MAX_LEVELS {
        faults.push(|| format!("{}{path}", section.at(id.as_str())), too_deep());
    }
}
