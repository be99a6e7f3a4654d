//! Whether a schema is compiled in next to no time, told without compiling it.

use serde_json::Value;

use super::pattern::minds_no_case;

/// The longest text that is looked at.
const MAX_TEXT: usize = 4 << 10;

/// The most subschemas, or other objects.
const MAX_OBJECTS: usize = 100;

/// The most keywords by which subschemas meet at one place in more ways than the text shows.
const MAX_CROSSINGS: usize = 4;

/// The most bytes of patterns, with repetitions written out.
const MAX_PATTERNS: usize = 1_000;

#[derive(Default)]
struct Found {
    objects: usize,
    crossings: usize,
    patterns: usize,
}

/// Reads the text once and parses no pattern.
pub(super) fn is_quick(text: &str) -> bool {
    if text.len() > MAX_TEXT {
        return false;
    }
    let Ok(source) = serde_json::from_str::<Value>(text) else {
        // It is refused at once.
        return true;
    };
    let mut found = Found::default();
    let mut stack = vec![&source];
    while let Some(value) = stack.pop() {
        match value {
            Value::Array(items) => stack.extend(items),
            Value::Object(members) => {
                found.objects += 1;
                for (keyword, value) in members {
                    found.keyword(keyword, value);
                    stack.push(value);
                }
            }
            _ => {}
        }
    }
    found.objects <= MAX_OBJECTS
        && found.crossings <= MAX_CROSSINGS
        && found.patterns <= MAX_PATTERNS
}

impl Found {
    fn keyword(&mut self, keyword: &str, value: &Value) {
        let names = value.as_object().map(|members| members.keys());
        match keyword {
            "$ref"
            | "$dynamicRef"
            | "$recursiveRef"
            | "unevaluatedProperties"
            | "unevaluatedItems" => self.crossings += 1,
            "pattern" => self.pattern(value.as_str().unwrap_or_default()),
            "patternProperties" => {
                self.crossings += names.as_ref().map_or(0, ExactSizeIterator::len);
                names.into_iter().flatten().for_each(|p| self.pattern(p));
            }
            _ => {}
        }
    }

    fn pattern(&mut self, pattern: &str) {
        // Each may stand around the others. A number that is no repetition makes it larger than it is, never smaller.
        let numbers = pattern.split(['{', ',', '}']).skip(1);
        let times = numbers
            .filter(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
            .map(|number| number.parse().unwrap_or(usize::MAX).max(1))
            .fold(1, usize::saturating_mul);
        let large = pattern.contains("\\p") || pattern.contains("\\P") || minds_no_case(pattern);
        let times = if large { usize::MAX } else { times };
        let size = (8 + pattern.len()).saturating_mul(times);
        self.patterns = self.patterns.saturating_add(size);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn small_forms_are_quick_and_whatever_may_be_large_is_not() {
        let properties: serde_json::Map<String, Value> = (0..30)
            .map(|at| (format!("p{at}"), json!({"type": "string", "maxLength": 99})))
            .collect();
        for schema in [
            json!(true),
            json!({"type": "object", "properties": properties, "required": ["p1"]}),
            json!({"properties": {"sku": {"pattern": r"^[A-Z]{3}-\d{4}$"}}}),
            json!({"$defs": {"c": {"enum": ["red", "green"]}}, "properties": {"a": {"$ref": "#/$defs/c"}}}),
        ] {
            assert!(is_quick(&schema.to_string()), "{schema}");
        }
        for schema in [
            json!({"description": "x".repeat(MAX_TEXT)}),
            json!({"allOf": vec![json!({}); MAX_OBJECTS]}),
            json!({"allOf": vec![json!({"$ref": "#/$defs/a"}); 5]}),
            json!({"pattern": "([a-z]|é){2400}"}),
            json!({"pattern": "(a{50}){50}"}),
            json!({"pattern": "a{99999999999999999999}"}),
            json!({"patternProperties": {r"^\p{L}": true}}),
            json!({"pattern": "(?i)[^a]"}),
        ] {
            assert!(!is_quick(&schema.to_string()), "{schema}");
        }
        let hidden = r#"{"\u0070attern":"\u005c\u0070{L}"}"#;
        assert!(!is_quick(hidden));
    }
}
