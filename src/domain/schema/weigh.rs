//! What one subschema's own keywords cost, in steps of at most about six nanoseconds.

use serde_json::{Map, Value};

use super::{nearest, pattern::Patterns, words};

/// The most objects and arrays that an enum may list.
const MAX_COMPOUND: usize = 1_000;

/// The work of one subschema, or of all that look at one place of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// How many subschemas look at the value.
    pub(super) evaluations: u64,
    /// Steps for each value, however small.
    pub(super) value: u64,
    /// Steps for each byte of the value's own text, its name included.
    pub(super) byte: u64,
    /// Steps for each byte of the value with all that is within it.
    pub(super) whole: u64,
    /// How many faults it can find in one value.
    pub(super) faults: u64,
    /// Places of its patterns, which are only paid when the schema is compiled.
    pub(super) patterns: u64,
}

impl Weight {
    /// A subschema without keywords.
    pub(super) const ONE: Self = Self {
        evaluations: 1,
        value: 1,
        byte: 0,
        whole: 0,
        faults: 0,
        patterns: 0,
    };

    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        self.plus_times(other, 1)
    }

    /// This and `times` the other.
    pub(super) fn plus_times(self, other: Self, times: u64) -> Self {
        let add = |a: u64, b: u64| a.saturating_add(b.saturating_mul(times));
        Self {
            evaluations: add(self.evaluations, other.evaluations),
            value: add(self.value, other.value),
            byte: add(self.byte, other.byte),
            whole: add(self.whole, other.whole),
            faults: add(self.faults, other.faults),
            patterns: add(self.patterns, other.patterns),
        }
    }

    /// The larger of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            evaluations: self.evaluations.max(other.evaluations),
            value: self.value.max(other.value),
            byte: self.byte.max(other.byte),
            whole: self.whole.max(other.whole),
            faults: self.faults.max(other.faults),
            patterns: self.patterns.max(other.patterns),
        }
    }
}

/// Weighs the keywords of `schema`, or tells which of them are not taken.
pub(super) fn weigh<'s>(
    schema: &'s Map<String, Value>,
    patterns: &mut Patterns,
) -> Result<Weight, Vec<(&'s str, String)>> {
    let mut sum = Weight::ONE;
    let mut faults = Vec::new();
    for (keyword, value) in schema {
        match of_keyword(keyword, value, patterns) {
            Ok(weight) => sum = sum.plus(weight),
            Err(fault) => faults.push((keyword.as_str(), fault)),
        }
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        // An unknown name is compared with the known ones, to tell which was meant.
        let known = schema.get("properties").map_or(0, count);
        sum.faults += known.min(nearest::MAX_KNOWN as u64) / 2;
    }
    if faults.is_empty() {
        Ok(sum)
    } else {
        Err(faults)
    }
}

fn of_keyword(keyword: &str, value: &Value, patterns: &mut Patterns) -> Result<Weight, String> {
    // Most keywords find at most one fault. Those that find none are few, and it does no harm to count one for them.
    let mut weight = Weight {
        value: 1,
        faults: 1,
        ..Weight::default()
    };
    match keyword {
        "title" | "description" | "default" | "examples" | "$defs" | "definitions" | "$ref"
        | "$comment" | "$id" | "$schema" | "allOf" => return Ok(Weight::default()),
        // In floating point, but by way of a fraction of big integers where that would be inexact.
        "multipleOf" => weight.value = 200,
        // A verdict stops at the first name that lacks, and those that are there are paid for by their bytes.
        "required" => {
            weight.byte = 1;
            weight.faults = count(value);
        }
        // Names are found by hash; what is looked at are the members of the answer.
        "properties" => weight.value = 2 + count(value) / 64,
        "dependentRequired" | "dependencies" | "dependentSchemas" => {
            weight.value = 2 + count(value);
            weight.faults = total(value);
        }
        // Each option may be compared with all of the answer.
        "enum" => {
            weight.value = 2 + count(value) / 4;
            weight.whole = compound(value)?;
        }
        "const" => weight.whole = u64::from(value.is_object() || value.is_array()),
        // Each item is written out and put in a set.
        "uniqueItems" => {
            weight.value = 5;
            weight.whole = 15;
        }
        // The readers of formats look at each character once or a few times.
        "format" => {
            weight.value = 20;
            weight.byte = if value == "regex" { 4 } else { 1 };
        }
        "contentEncoding" | "contentMediaType" => {
            weight.value = 10;
            weight.byte = 10;
        }
        "pattern" => weight = of_pattern(value.as_str().unwrap_or_default(), patterns)?,
        "patternProperties" => weight = weight.plus(of_names(value, patterns)?),
        _ => {}
    }
    Ok(weight)
}

fn of_names(names: &Value, patterns: &mut Patterns) -> Result<Weight, String> {
    let mut weight = Weight::default();
    for name in names.as_object().into_iter().flat_map(Map::keys) {
        let one = of_pattern(name, patterns)
            .map_err(|fault| format!("has a name that {fault}: {:?}", words::cut(name, 64)))?;
        // `additionalProperties` and `unevaluatedProperties` match the names again.
        weight = weight.plus_times(one, 3);
    }
    Ok(weight)
}

fn of_pattern(pattern: &str, patterns: &mut Patterns) -> Result<Weight, String> {
    let measure = patterns.measure(pattern)?;
    Ok(Weight {
        value: 10,
        byte: 1 + measure.width,
        faults: 1,
        patterns: measure.size,
        ..Weight::default()
    })
}

fn count(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.len() as u64,
        Value::Object(members) => members.len() as u64,
        _ => 0,
    }
}

fn total(value: &Value) -> u64 {
    value
        .as_object()
        .into_iter()
        .flat_map(Map::values)
        .map(|list| 1 + list.as_array().map_or(0, |list| list.len() as u64))
        .sum()
}

/// How many of an enum's options are objects or arrays. Old drafts have the validator compare each of them with each.
fn compound(options: &Value) -> Result<u64, String> {
    let is_compound = |option: &&Value| option.is_object() || option.is_array();
    let number = options
        .as_array()
        .map_or(0, |options| options.iter().filter(is_compound).count());
    if number > MAX_COMPOUND {
        return Err(format!(
            "has {number} objects and arrays; at most {MAX_COMPOUND} are taken"
        ));
    }
    Ok(number as u64)
}
