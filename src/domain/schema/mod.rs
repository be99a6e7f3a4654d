//! JSON Schemas: what a form's answer must look like.
//!
//! A schema is compiled when a wait is opened and checks each answer in full. A check cannot be interrupted, so its work is
//! bounded beforehand, from the schema alone (`cost.rs`): a schema whose work cannot be bounded is refused when it is compiled,
//! and an answer that would take too long is refused for its length. So is the memory of what is compiled (`size.rs`).
//!
//! Invariants
//! - Nothing is fetched. The validator is built without the means, and a reference that leads out of the schema is refused.
//! - Patterns are matched in linear time.
//! - A fault never holds a value of an answer.

use std::{fmt, sync::Arc};

use jsonschema::Validator;
use serde_json::Value;

use super::json::JsonText;

mod compile;
mod cost;
mod formats;
mod graph;
mod levels;
mod nearest;
mod order;
mod pattern;
mod places;
mod quick;
mod size;
mod unique;
mod weigh;
mod words;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

/// The cost up to which a check is quick enough to be done at once by whoever needs it: about a millisecond at the very worst, and
/// as a rule some ten microseconds.
pub const INLINE_COST: u64 = 200_000;

/// The highest cost of a check: one to two seconds at the very worst, and as a rule a hundredth of that.
pub const MAX_COST: u64 = 200_000_000;

/// The longest text of a schema, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// The most faults that are told of one answer or schema.
pub const MAX_FAULTS: usize = 100;

/// The cost up to which all faults of an answer are looked for, each of which takes memory. Beyond it only one is told.
const MAX_FAULTS_COST: u64 = 6_000_000;

/// A compiled JSON Schema. Cheap to clone. `Debug` shows none of it.
///
/// Numbers are compared as JSON's own: integers of 64 bits exactly, all others as doubles.
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    source: Value,
    validator: Validator,
    costs: cost::Costs,
    size: size::Size,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place as it is written behind a field's name, for example `.order["a b"].items[2]`. Empty for the whole.
    pub path: String,
    /// What is wrong and what is wanted instead. Quotes the schema, and of an answer its keys but never its values.
    pub description: String,
}

impl Fault {
    fn new(path: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            description: description.into(),
        }
    }
}

impl Schema {
    /// Compiles a schema of any draft from 4 to 2020-12; without `$schema` it is taken as 2020-12.
    ///
    /// Formats are asserted, of those that the schema's draft defines: date, date-time, duration, email, hostname, ipv4, ipv6, iri,
    /// iri-reference, json-pointer, regex, relative-json-pointer, time, uri, uri-reference, uri-template and uuid. A schema with
    /// idn-email or idn-hostname, which are not checked, is refused. Names that no draft knows, such as int32 or password, are
    /// annotations, and any text fits them.
    ///
    /// # Errors
    /// What is wrong with it: not a schema, a reference that leads out of it or round in a circle, a pattern that cannot be
    /// matched in linear time, a format that is not checked, or more work or memory than can be bounded.
    pub fn compile(text: &JsonText) -> Result<Self, Vec<Fault>> {
        compile::compile(text.as_str()).map(|compiled| Self(Arc::new(compiled)))
    }

    /// Whether [`Schema::compile`] takes about a millisecond at most. Reads the text once, so that it may be asked at once by
    /// whoever needs a schema; it may say no of one that is compiled as fast.
    pub fn is_quick(text: &JsonText) -> bool {
        quick::is_quick(text.as_str())
    }

    /// About how much memory this takes, in bytes, where so many threads check answers at the same time: each keeps what it needs
    /// to match the patterns. Rather too much than too little.
    pub fn bytes(&self, threads: usize) -> usize {
        let threads = u64::try_from(threads).unwrap_or(u64::MAX);
        usize::try_from(self.0.size.bytes(threads)).unwrap_or(usize::MAX)
    }

    /// An upper bound of the work to check an answer of `bytes` bytes, in steps of at most about six nanoseconds. Meant to be compared
    /// with [`INLINE_COST`]; the bound holds for the worst answer, and a usual one takes far less.
    pub fn cost(&self, bytes: usize) -> u64 {
        let faults = self.0.costs.faults.of(bytes, usize::MAX);
        self.0
            .costs
            .verdict
            .of(bytes)
            .saturating_add(faults.min(MAX_FAULTS_COST))
    }

    /// Checks an answer in full.
    ///
    /// # Errors
    /// All that is wrong, in the order of the answer's text, at most [`MAX_FAULTS`]. Only one fault is told of an answer that
    /// costs too much to check, or to look through again for its faults.
    pub fn check(&self, answer: &JsonText) -> Result<(), Vec<Fault>> {
        let text = answer.as_str();
        let costs = &self.0.costs;
        if costs.verdict.of(text.len()) > MAX_COST {
            let description = format!(
                "is {} bytes long; with this schema at most {} are taken",
                text.len(),
                costs.verdict.longest(MAX_COST)
            );
            return Err(vec![Fault::new("", description)]);
        }
        let Ok(answer) = serde_json::from_str::<Value>(text) else {
            // Its own check has read it, so this is not reached.
            return Err(vec![Fault::new("", "is not valid JSON")]);
        };
        if self.0.validator.is_valid(&answer) {
            return Ok(());
        }
        // One level more, for the names of the deepest properties.
        if costs.faults.of(text.len(), depth(&answer) + 1) > MAX_FAULTS_COST {
            let description =
                "does not fit the schema; it is too long or too deep to be told where";
            return Err(vec![Fault::new("", description)]);
        }
        Err(self.faults(text, &answer))
    }

    fn faults(&self, text: &str, answer: &Value) -> Vec<Fault> {
        let order = order::Order::of(text);
        let mut errors: Vec<_> = self
            .0
            .validator
            .iter_errors(answer)
            .map(|error| (order.key(error.instance_path().as_str()), error))
            .collect();
        // Stable, so that faults of one place stay in the order of the schema.
        errors.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut faults: Vec<Fault> = Vec::new();
        for (_, error) in errors {
            for fault in words::faults(&error, answer, &self.0.source) {
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
            if faults.len() >= MAX_FAULTS {
                faults.truncate(MAX_FAULTS);
                break;
            }
        }
        if faults.is_empty() {
            faults.push(Fault::new("", "does not fit the schema"));
        }
        faults
    }
}

/// How many levels a value has below its own. JSON text has at most 127, so the recursion is bounded.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| 1 + depth(item)).max().unwrap_or(0),
        Value::Object(members) => members
            .values()
            .map(|member| 1 + depth(member))
            .max()
            .unwrap_or(0),
        _ => 0,
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema(..)")
    }
}
