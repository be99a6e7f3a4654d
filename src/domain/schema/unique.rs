//! `uniqueItems` in time that grows with the text alone.
//!
//! The validator's own check hashes nested arrays without their brackets and large integers as doubles, so an answer can be
//! made whose items all fall together, and then each is compared with each. Here every item is written out and put in a set.

use std::{collections::HashSet, fmt::Write};

use jsonschema::{Keyword, ValidationError, paths::Location};
use serde_json::{Map, Number, Value};

/// Makes the check for one schema.
///
/// # Errors
/// None; the meta-schema has checked the value.
pub(super) fn keyword<'a>(
    _: &'a Map<String, Value>,
    value: &'a Value,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(UniqueItems {
        wanted: value == &Value::Bool(true),
    }))
}

struct UniqueItems {
    wanted: bool,
}

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            Ok(())
        } else {
            Err(ValidationError::custom("uniqueItems"))
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let Value::Array(items) = instance else {
            return true;
        };
        let mut seen = HashSet::new();
        !self.wanted || items.iter().all(|item| seen.insert(written(item)))
    }
}

fn written(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// Equal values are written alike, others differently. JSON text nests at most 127 levels deep, and so does this.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push('n'),
        Value::Bool(true) => text.push('t'),
        Value::Bool(false) => text.push('f'),
        Value::Number(number) => write_number(number, text),
        Value::String(string) => write_string(string, text),
        Value::Array(items) => {
            text.push('[');
            items.iter().for_each(|item| write(item, text));
            text.push(']');
        }
        Value::Object(members) => {
            // Whether the map keeps the order of the text is a feature that any crate may switch on.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in members {
                write_string(name, text);
                write(value, text);
            }
            text.push('}');
        }
    }
}

/// The length first, so that no content can be mistaken for what follows.
fn write_string(string: &str, text: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(text, "s{}:{string}", string.len());
}

/// `1` and `1.0` are the same number.
fn write_number(number: &Number, text: &mut String) {
    let whole = number.as_i128().or_else(|| {
        number
            .as_f64()
            .filter(|n| n.fract() == 0.0 && n.abs() < 1e30)
            .map(|n| n as i128)
    });
    let _ = match whole {
        Some(whole) => write!(text, "i{whole};"),
        None => write!(text, "d{:?};", number.as_f64()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unique(text: &str) -> bool {
        let value: Value = serde_json::from_str(text).expect(text);
        UniqueItems { wanted: true }.is_valid(&value)
    }

    #[test]
    fn equal_values_are_found_however_they_are_written() {
        for text in [
            "[1,1.0]",
            "[0,-0.0]",
            "[1e2,100]",
            r#"[{"a":1,"b":[2]},{"b":[2.0],"a":1}]"#,
            r#"["a","\u0061"]"#,
            "[null,1,null]",
        ] {
            assert!(!unique(text), "{text}");
        }
        for text in [
            "[]",
            "[1,true,\"1\",\"true\",null,false,0]",
            "[[1,[2]],[[1],2],[[1,2]],[1,2]]",
            "[9007199254740993,9007199254740992]",
            r#"[["ab","c"],["a","bc"]]"#,
            "[1.5,1.25]",
        ] {
            assert!(unique(text), "{text}");
        }
    }
}
