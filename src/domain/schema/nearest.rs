//! What was probably meant: of several names, and of several alternatives.

use jsonschema::{ValidationError, error::ValidationErrorKind as Kind};
use serde_json::Value;

use super::{Fault, words};

/// Names longer than this are not compared, since that takes the product of their lengths.
const LONGEST: usize = 64;

/// Of more names than this none is proposed.
pub(super) const MAX_KNOWN: usize = 200;

/// A description longer than this is not told again as that of an alternative: a recursive schema has alternatives within
/// alternatives, as deep as the answer.
const LONG: usize = 400;

/// The one of `known` that `name` was probably meant to be: at most two letters off, and fewer in a short name.
pub(super) fn name<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    if name.len() > LONGEST || known.len() > MAX_KNOWN {
        return None;
    }
    let most = if name.chars().count() < 5 { 1 } else { 2 };
    known
        .iter()
        .filter(|known| known.len() <= LONGEST && known.len().abs_diff(name.len()) <= 8)
        .map(|known| (distance(name, known), *known))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, known)| known)
}

/// How many letters must be put in, left out, exchanged or swapped with their neighbour to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (
        a.to_lowercase().chars().collect(),
        b.to_lowercase().chars().collect(),
    );
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let exchanged = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = exchanged.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The names under `properties` beside the keyword that `pointer` leads to.
pub(super) fn siblings<'s>(schema: &'s Value, pointer: &str) -> Vec<&'s str> {
    pointer
        .rsplit_once('/')
        .and_then(|(parent, _)| schema.pointer(parent)?.get("properties")?.as_object())
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

/// Tells of alternatives that all failed. `context` holds the faults of each.
pub(super) fn alternative(
    path: String,
    error: &ValidationError<'_>,
    context: &[Vec<ValidationError<'static>>],
    document: &Value,
    schema: &Value,
) -> Fault {
    let here = error.instance_path().as_str();
    let closest = closest(here, context).and_then(|at| {
        let first = words::faults(context[at].first()?, document, schema);
        Some((at, first.into_iter().next()?))
    });
    let none = match context.len() {
        1 => "does not fit the one alternative".to_owned(),
        many => format!("fits none of the {many} alternatives"),
    };
    match closest {
        Some((_, fault)) if context.len() == 1 || fault.description.len() > LONG => fault,
        Some((at, fault)) => Fault {
            description: if fault.path == path {
                format!(
                    "{none}; of the closest, number {}, it {}",
                    at + 1,
                    fault.description
                )
            } else {
                let description = fault.description;
                format!(
                    "{description} (as alternative {} of {}, the closest)",
                    at + 1,
                    context.len()
                )
            },
            path: fault.path,
        },
        None => Fault {
            description: format!("{none}{}", kinds(here, context)),
            path,
        },
    }
}

/// The one alternative that an answer was probably meant to fit: the only one whose kind or tag it has, or else the one with
/// the fewest faults, if there is but one such.
fn closest(here: &str, context: &[Vec<ValidationError<'static>>]) -> Option<usize> {
    let fits = |faults: &[ValidationError<'_>]| !faults.iter().any(|fault| is_tag(here, fault));
    let mut candidates: Vec<usize> = (0..context.len())
        .filter(|&at| fits(&context[at]))
        .collect();
    if candidates.is_empty() {
        // Each is ruled out by its kind or tag, so none is closer than another.
        return None;
    }
    let fewest = candidates.iter().map(|&at| context[at].len()).min()?;
    candidates.retain(|&at| context[at].len() == fewest);
    match candidates[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// Whether a fault tells that an alternative was not meant at all: another kind of value, or another value of a tag.
fn is_tag(here: &str, fault: &ValidationError<'_>) -> bool {
    let below = fault
        .instance_path()
        .as_str()
        .strip_prefix(here)
        .map_or(usize::MAX, |rest| rest.matches('/').count());
    match fault.kind() {
        Kind::Type { .. } | Kind::FalseSchema => below == 0,
        Kind::Constant { .. } => below <= 1,
        Kind::Enum { options } => {
            below == 0
                || (below == 1 && options.as_array().is_some_and(|options| options.len() == 1))
        }
        _ => false,
    }
}

/// What each alternative asks for, if each says so in one fault at the very place.
fn kinds(here: &str, context: &[Vec<ValidationError<'static>>]) -> String {
    let mut wanted = Vec::new();
    for faults in context {
        match &faults[..] {
            [fault] if fault.instance_path().as_str() == here => {
                let said = words::describe(fault.kind(), fault.instance());
                let said = said.split("; it is ").next().unwrap_or_default().to_owned();
                if !wanted.contains(&said) {
                    wanted.push(said);
                }
            }
            _ => return String::new(),
        }
    }
    format!(": it {}", words::cut(&wanted.join(", or "), 300))
}
