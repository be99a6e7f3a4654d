//! From messages to checked domain values. All faults of a request are found together.

use std::time::Duration;

use super::question;
use crate::{
    broker::{Filter, Open},
    domain::{
        Command, Failure, Refusal, Spec, State, Violation, WaitId,
        deadline::Wish,
        limits::{self, ErrorType, Key, Labels, Limits, Name, Namespace, Reason, RequestId},
    },
    proto::v1,
};

/// Collects the faults of a request, so that they are told together.
#[derive(Default)]
pub(super) struct Faults(Vec<Violation>);

impl Faults {
    pub(super) fn take<T>(&mut self, field: &str, checked: Result<T, String>) -> Option<T> {
        checked
            .map_err(|fault| self.0.push(Violation::new(field, fault)))
            .ok()
    }

    pub(super) fn push(&mut self, field: impl Into<String>, fault: impl Into<String>) {
        self.0.push(Violation::new(field, fault));
    }

    /// Takes a check that names its own fields. A fault of JSON alone keeps its own kind of refusal.
    pub(super) fn json<T>(&mut self, checked: Result<T, Refusal>) -> Result<Option<T>, Refusal> {
        match checked {
            Ok(value) => Ok(Some(value)),
            Err(Refusal::InvalidFields(mut faults)) => {
                self.0.append(&mut faults);
                Ok(None)
            }
            Err(Refusal::InvalidJson(fault)) if !self.0.is_empty() => {
                self.0.push(fault);
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    pub(super) fn finish(self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Refusal::InvalidFields(self.0))
        }
    }
}

/// Empty text means that nothing was given.
pub(super) fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Checks an open. `deadline` is that of a `Wait` call.
pub(super) fn open(
    spec: Option<v1::WaitSpec>,
    request_id: &str,
    deadline: Option<Duration>,
    limits: &Limits,
) -> Result<Open, Refusal> {
    let Some(spec) = spec else {
        return Err(Refusal::field("spec", "is required"));
    };
    let mut faults = Faults::default();
    let name = faults.take("spec.name", Name::new(&spec.name));
    let key = given(&spec.key).map(|key| faults.take("spec.key", Key::new(key)));
    let namespace = faults.take("spec.namespace", Namespace::new(&spec.namespace));
    let wish = match spec.expiry {
        Some(v1::wait_spec::Expiry::Timeout(t)) => faults
            .take("spec.timeout", duration(t, limits.max_timeout))
            .map(Wish::Timeout),
        Some(v1::wait_spec::Expiry::NoTimeout(true)) => Some(Wish::NoTimeout),
        Some(v1::wait_spec::Expiry::NoTimeout(false)) => faults.take(
            "spec.no_timeout",
            Err("must be true where it is set; give a timeout instead".to_owned()),
        ),
        None => Some(Wish::Unsaid { deadline }),
    };
    let heartbeat_timeout = spec
        .heartbeat_timeout
        .and_then(|t| faults.take("spec.heartbeat_timeout", duration(t, limits.max_timeout)));
    let labels = Labels::new("spec.labels", spec.labels)
        .map_err(|mut found| faults.0.append(&mut found))
        .ok();
    let request_id = given(request_id).map(|id| faults.take("request_id", RequestId::new(id)));
    if spec.question_later && spec.question.is_some() {
        faults.0.push(Violation::new(
            "spec.question_later",
            "must be false where question is set",
        ));
    }
    let question = match spec.question {
        Some(asked) => faults.json(question::check("spec.question", Some(asked), limits))?,
        None => None,
    };
    faults.finish()?;
    // Without faults everything is there; a missing one is told rather than assumed.
    let (Some(name), Some(namespace), Some(labels), Some(wish)) = (name, namespace, labels, wish)
    else {
        return Err(Refusal::field("spec", "is invalid"));
    };
    Ok(Open {
        spec: Spec {
            namespace,
            name,
            key: key.flatten(),
            labels,
        },
        wish,
        heartbeat_timeout,
        question,
        question_later: spec.question_later,
        request_id: request_id.flatten(),
    })
}

/// Checks a failure.
pub(super) fn fail(request: &v1::FailRequest, limits: &Limits) -> Result<Command, Refusal> {
    let mut faults = Faults::default();
    let reason = faults.take("reason", Reason::new(&request.reason));
    let error_type = faults.take("error_type", ErrorType::new(&request.error_type));
    let request_id =
        given(&request.request_id).map(|id| faults.take("request_id", RequestId::new(id)));
    let details = match given(&request.details_json) {
        Some(text) => faults.json(limits.json("details_json", text))?,
        None => None,
    };
    faults.finish()?;
    let (Some(reason), Some(error_type)) = (reason, error_type) else {
        return Err(Refusal::field("reason", "is invalid"));
    };
    Ok(Command::Fail {
        failure: Failure {
            reason,
            error_type,
            details,
        },
        request_id: request_id.flatten(),
    })
}

/// Checks a withdrawal.
pub(super) fn cancel(reason: &str) -> Result<Command, Refusal> {
    Reason::new(reason)
        .map(|reason| Command::Cancel { reason })
        .map_err(|fault| Refusal::field("reason", fault))
}

/// Checks the name of a wait by key.
pub(super) fn wait_key(key: &v1::WaitKey) -> Result<(Namespace, Key), Refusal> {
    let mut faults = Faults::default();
    let namespace = faults.take("key.namespace", Namespace::new(&key.namespace));
    let key = faults.take("key.key", Key::new(&key.key));
    match (namespace, key) {
        (Some(namespace), Some(key)) => Ok((namespace, key)),
        _ => Err(Refusal::InvalidFields(faults.0)),
    }
}

/// Checks a filter.
pub(super) fn filter(filter: Option<v1::WaitFilter>, limits: &Limits) -> Result<Filter, Refusal> {
    let filter = filter.unwrap_or_default();
    let mut faults = Faults::default();
    let namespace = faults.take("filter.namespace", Namespace::new(&filter.namespace));
    let name = given(&filter.name).map(|name| faults.take("filter.name", Name::new(name)));
    let labels = Labels::new("filter.labels", filter.labels)
        .map_err(|mut found| faults.0.append(&mut found))
        .ok();
    let mut age = |field: &str, age: Option<prost_types::Duration>| {
        // A wait may be older than the longest timeout, by the time it is kept.
        age.and_then(|age| faults.take(field, duration(age, limits.max_timeout * 10)))
    };
    let min_age = age("filter.min_age", filter.min_age);
    let max_age = age("filter.max_age", filter.max_age);
    let mut states = Vec::new();
    for (at, number) in filter.states.iter().enumerate() {
        match v1::wait::State::try_from(*number).ok().and_then(from_state) {
            Some(state) => states.push(state),
            None => faults.0.push(Violation::new(
                format!("filter.states[{at}]"),
                "is not a state of a wait",
            )),
        }
    }
    faults.finish()?;
    let (Some(namespace), Some(labels)) = (namespace, labels) else {
        return Err(Refusal::field("filter", "is invalid"));
    };
    Ok(Filter {
        namespace,
        states,
        name: name.flatten(),
        labels: labels.as_map().clone(),
        min_age,
        max_age,
    })
}

/// Checks the name of a wait.
pub(super) fn wait_id(text: &str) -> Result<WaitId, Refusal> {
    text.parse().map_err(|_| {
        Refusal::field(
            "wait_id",
            "is not a wait id; it is a UUID such as ListWaits shows",
        )
    })
}

fn duration(length: prost_types::Duration, max: Duration) -> Result<Duration, String> {
    limits::duration(length.seconds, length.nanos, max)
}

fn from_state(state: v1::wait::State) -> Option<State> {
    Some(match state {
        v1::wait::State::Unspecified => return None,
        v1::wait::State::Pending => State::Pending,
        v1::wait::State::Resolved => State::Resolved,
        v1::wait::State::Failed => State::Failed,
        v1::wait::State::Expired => State::Expired,
        v1::wait::State::Cancelled => State::Cancelled,
    })
}
