//! Tool calls that wait for somebody else.

use std::{collections::HashMap, sync::Arc};

use crate::domain::{
    error::Violation,
    json::JsonText,
    limits::{CallId, Description, ToolName, quoted},
};

/// The tool calls of a wait, each with an id of its own. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests(Arc<Inner>);

#[derive(Debug, PartialEq, Eq)]
struct Inner {
    calls: Vec<Call>,
    may_leave_pending: bool,
}

/// One tool call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its id, unique in its wait.
    pub id: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The arguments, as the model gave them: an object, a string that should hold JSON, or null.
    pub args: JsonText,
    /// What it waits for.
    pub kind: CallKind,
    /// What the worker tells about it: an object.
    pub metadata: Option<JsonText>,
    /// What it would do, for people. May be empty.
    pub description: Description,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Somebody's permission to run the tool.
    Approval,
    /// A result that is made elsewhere.
    External,
    /// An answer to a question of the model.
    Question,
}

/// A part of an answer that is keyed by call id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Decisions on approvals.
    Approvals,
    /// Results of external calls, answers to questions.
    Calls,
    /// What is told the tool beside the decision.
    Metadata,
    /// Who decided.
    AnsweredBy,
}

impl Section {
    /// Its key in the JSON form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Calls => "calls",
            Self::Metadata => "metadata",
            Self::AnsweredBy => "answered_by",
        }
    }

    /// The path of a call's entry in it.
    pub fn at(self, id: &str) -> String {
        format!("{}[{}]", self.name(), quoted(id))
    }
}

impl CallKind {
    /// Where such a call is decided.
    pub fn section(self) -> Section {
        match self {
            Self::Approval => Section::Approvals,
            Self::External | Self::Question => Section::Calls,
        }
    }
}

impl Requests {
    /// The most calls of one wait. It bounds what a failure makes of a wait: a denial for each.
    pub const MAX: usize = 64;

    /// Checks calls that came in `field`.
    ///
    /// # Errors
    /// Too many of them, and each id that stands there twice.
    pub fn new(
        field: &str,
        calls: Vec<Call>,
        may_leave_pending: bool,
    ) -> Result<Self, Vec<Violation>> {
        if calls.len() > Self::MAX {
            let n = calls.len();
            let text = format!("has {n} tool calls; at most {} are taken", Self::MAX);
            return Err(vec![Violation::new(field, text)]);
        }
        let faults = Self::twice(field, calls.iter().map(|call| &call.id));
        if faults.is_empty() {
            Ok(Self::from_store(calls, may_leave_pending))
        } else {
            Err(faults)
        }
    }

    /// A fault for each id that stands there more than once.
    pub fn twice<'a>(field: &str, ids: impl Iterator<Item = &'a CallId>) -> Vec<Violation> {
        let mut faults = Vec::new();
        let mut seen = HashMap::new();
        for id in ids {
            let times = seen.entry(id).or_insert(0);
            *times += 1;
            if *times == 2 {
                let id = quoted(id.as_str());
                let fault = format!("holds the tool_call_id {id} twice; each call needs its own");
                faults.push(Violation::new(field, fault));
            }
        }
        faults
    }

    /// Takes calls that were checked when they were stored.
    pub fn from_store(calls: Vec<Call>, may_leave_pending: bool) -> Self {
        Self(Arc::new(Inner {
            calls,
            may_leave_pending,
        }))
    }

    /// The calls, in the order of the question.
    pub fn calls(&self) -> &[Call] {
        &self.0.calls
    }

    /// Whether one answer may leave calls undecided and still settle the wait.
    pub fn may_leave_pending(&self) -> bool {
        self.0.may_leave_pending
    }

    /// The call with this id. There are few.
    pub fn find(&self, id: &str) -> Option<&Call> {
        self.0.calls.iter().find(|call| call.id.as_str() == id)
    }

    /// The call that an entry of an answer is about.
    ///
    /// # Errors
    /// What is wrong: there is no such call, or it is not decided in that section.
    pub fn place(&self, section: Section, id: &str) -> Result<&Call, String> {
        let Some(call) = self.find(id) else {
            return Err("is not a tool call of this wait; DescribeWait lists them".to_owned());
        };
        let belongs = call.kind.section();
        match section {
            Section::Approvals if belongs == Section::Calls => {
                Err("does not wait for an approval; give its result under `calls`".to_owned())
            }
            Section::Calls if belongs == Section::Approvals => {
                Err("waits for an approval; decide it under `approvals`".to_owned())
            }
            _ => Ok(call),
        }
    }

    /// The call that an entry which is out of place means to decide, if there is one.
    pub fn meant(&self, section: Section, id: &str) -> Option<CallId> {
        let decides = matches!(section, Section::Approvals | Section::Calls);
        let call = self.find(id).filter(|_| decides);
        call.map(|call| call.id.clone())
    }

    /// Whether two are the same: the same ids, tools, arguments, kinds, and whether some may stay pending. Nothing else counts, since
    /// libraries add fields, and the order does not.
    pub fn same(&self, other: &Self) -> bool {
        self.may_leave_pending() == other.may_leave_pending()
            && self.calls().len() == other.calls().len()
            && self.calls().iter().all(|a| {
                other.find(a.id.as_str()).is_some_and(|b| {
                    a.tool == b.tool && a.kind == b.kind && a.args.same_value(&b.args)
                })
            })
    }

    /// How many bytes their texts have.
    pub fn bytes(&self) -> usize {
        self.calls().iter().map(Call::bytes).sum()
    }
}

impl Call {
    fn bytes(&self) -> usize {
        let metadata = self.metadata.as_ref().map_or(0, |m| m.as_str().len());
        let names = self.id.as_str().len() + self.tool.as_str().len();
        names + self.args.as_str().len() + metadata + self.description.as_str().len()
    }
}
