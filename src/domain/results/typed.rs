//! Places decisions that came as a message: whether such calls wait, and whether what was given for them fits.

use super::{
    Approval, CallResult, Results, ToolReturn,
    grammar::{result_of, too_deep},
    normal::{MAX_LEVELS, MAX_LEVELS_FRAMED, most_levels},
    tool_return::{BINARY, content_misfits, special, value_misfit},
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
    let named = answer.faulty.iter().filter_map(|id| requests.find(id));
    let mut faulty: Vec<_> = named.map(|call| call.id.clone()).collect();
    let mut place = |section: Section, id: &str| match requests.place(section, id) {
        Ok(call) => Some(call.id.clone()),
        Err(fault) => {
            faulty.extend(requests.meant(section, id));
            faults.push(|| section.at(id), fault);
            None
        }
    };
    for (id, approval) in answer.approvals {
        let approval = match approval {
            Approval::Approved {
                override_args,
                unknown,
            } => Approval::Approved {
                override_args: override_args.map(JsonText::trimmed),
                unknown,
            },
            denied @ Approval::Denied { .. } => denied,
        };
        placed
            .approvals
            .extend(place(Section::Approvals, &id).map(|id| (id, approval)));
    }
    for (id, result) in answer.calls {
        placed
            .calls
            .extend(place(Section::Calls, &id).map(|id| (id, as_read(result))));
    }
    for (id, metadata) in answer.metadata {
        placed
            .metadata
            .extend(place(Section::Metadata, &id).map(|id| (id, metadata.trimmed())));
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

/// The result as it is read from the form that workers get: what is stored is that form, and it must say the same ever after.
fn as_read(result: CallResult) -> CallResult {
    let given = match result {
        CallResult::Value(json) => return CallResult::Value(json.trimmed()),
        CallResult::Return(given) => given,
        other => return other,
    };
    let beside = |json: Option<JsonText>| {
        let json = json.map(JsonText::trimmed);
        json.filter(|json| json.as_str() != "null")
    };
    CallResult::Return(ToolReturn {
        value: given.value.trimmed(),
        content: beside(given.content),
        metadata: beside(given.metadata),
        ..given
    })
    .plainest()
}

/// What the message's own form does not rule out.
fn check(results: &Results, faults: &mut Faults) {
    for (id, approval) in &results.approvals {
        if let Approval::Approved {
            override_args: Some(json),
            ..
        } = approval
        {
            let at = || format!("{}.override_args", Section::Approvals.at(id.as_str()));
            depth(json, MAX_LEVELS_FRAMED, at, faults);
        }
    }
    for (id, result) in &results.calls {
        match result {
            CallResult::Value(json) => value(json, id, faults),
            CallResult::Return(given) => tool_return(given, id, faults),
            CallResult::Failed(_) | CallResult::Retry(_) => {}
        }
    }
    for (id, json) in &results.metadata {
        depth(
            json,
            MAX_LEVELS,
            || Section::Metadata.at(id.as_str()),
            faults,
        );
    }
}

fn value(json: &JsonText, id: &CallId, faults: &mut Faults) {
    let at = || Section::Calls.at(id.as_str());
    // Binary data cannot be wrapped, so such a value must be taken for one as it stands.
    let stands =
        || result_of(json.as_str()).is_ok_and(|result| result == CallResult::Value(json.clone()));
    if json.is_deeper_than(most_levels(json)) {
        depth(json, most_levels(json), at, faults);
    } else if special(json.as_str()).binary && !stands() {
        faults.push(at, BINARY);
    }
}

fn tool_return(given: &ToolReturn, id: &CallId, faults: &mut Faults) {
    let at = |path: &str| format!("{}{path}", Section::Calls.at(id.as_str()));
    let mut framed = |json: &JsonText, path: &str| {
        depth(json, MAX_LEVELS_FRAMED, || at(path), faults);
    };
    framed(&given.value, ".return_value");
    given
        .content
        .iter()
        .for_each(|json| framed(json, ".content"));
    given
        .metadata
        .iter()
        .for_each(|json| framed(json, ".metadata"));
    let digests = given.file_digests.as_ref().map(JsonText::as_str);
    if let Some(fault) = value_misfit(given.value.as_str(), digests) {
        faults.push(|| at(".return_value"), fault);
    }
    if let Some(content) = &given.content {
        for (path, fault) in content_misfits(content.as_str()) {
            faults.push(|| at(&format!(".content{path}")), fault);
        }
    }
}

fn depth(json: &JsonText, most: usize, at: impl FnOnce() -> String, faults: &mut Faults) {
    if json.is_deeper_than(most) {
        faults.push(at, too_deep(most));
    }
}
