//! JSON text: checked once, then carried byte for byte.
//!
//! JSON means RFC 8259 in UTF-8 with at most 127 levels. What parsers read differently is refused: duplicate keys, lone
//! surrogates, numbers beyond the exponent of a double, a byte order mark, anything after the value.

mod node;
mod value;

use std::{borrow::Cow, collections::HashSet, fmt, sync::Arc};

pub(in crate::domain) use node::Reader;
pub use node::{Node, quote};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use value::Value;

/// Valid JSON text. Cheap to clone. `Debug` shows only its length, since it may hold what must not be logged.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Checks `text`.
    ///
    /// # Errors
    /// What is wrong and where, without any of the text.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty; JSON is expected, for example null or {}".to_owned());
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        Check
            .deserialize(&mut deserializer)
            .and_then(|()| deserializer.end())
            .map_err(|e| describe(&e, text))?;
        Ok(Self(text.into()))
    }

    /// Takes text that was checked when it was stored.
    pub fn from_store(text: String) -> Self {
        Self(text.into())
    }

    /// Takes a value that stands within text that was checked, such as [`Node`] gives.
    pub fn part(text: &str) -> Self {
        Self(text.into())
    }

    /// The same without white space around it, which is not part of the value.
    #[must_use]
    pub fn trimmed(self) -> Self {
        match self.0.trim_ascii() {
            text if text.len() < self.0.len() => Self::part(text),
            _ => self,
        }
    }

    /// Whether the value has more levels than these. A string, a number or another plain value has none.
    pub fn is_deeper_than(&self, levels: usize) -> bool {
        // Each level takes two brackets.
        self.0.len() > 2 * levels && node::levels(&self.0) > levels
    }

    /// The text, as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are the same JSON value: numbers by their text, objects without order, strings by what they say.
    pub fn same_value(&self, other: &Self) -> bool {
        self.0 == other.0 || Value::of(&self.0) == Value::of(&other.0)
    }
}

/// Whether both are there and the same value, or neither is.
pub fn same_if_any(a: Option<&JsonText>, b: Option<&JsonText>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.same_value(b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

/// Puts serde_json's message into our words. Its messages name kinds and positions and never quote a value.
fn describe(error: &serde_json::Error, text: &str) -> String {
    if text.starts_with('\u{feff}') {
        return "begins with a byte order mark; send plain UTF-8".to_owned();
    }
    let message = error.to_string();
    let cause = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(cause, _)| cause);
    let cause = match cause {
        "recursion limit exceeded" => "is nested deeper than 127 levels",
        "number out of range" => "holds a number beyond the range of a double",
        "trailing characters" => "goes on after its end",
        other => other,
    };
    format!(
        "is not valid JSON: {cause} at line {} column {}",
        error.line(),
        error.column()
    )
}

/// Walks a whole value and keeps nothing.
struct Check;

impl<'de> DeserializeSeed<'de> for Check {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // `any` parses strings and numbers in full, which `IgnoredAny` does not.
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Check)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            if !keys.insert(key) {
                return Err(de::Error::custom("an object has the same key twice"));
            }
            map.next_value_seed(Check)?;
        }
        Ok(())
    }
}

/// Reads a key without a copy where it holds no escapes.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        JsonText::new(text).expect_err(text)
    }

    #[test]
    fn takes_what_rfc_8259_takes_and_keeps_every_byte() {
        for text in [
            "null",
            " true ",
            "9007199254740993",
            "12345678901234567890123",
            "1.10",
            "1e2",
            "-0",
            "\"\\ud83d\\ude00 \u{1f600} \\u0000\"",
            "{\"a\":[1,{\"b\":{}}],\"\":null}",
            "[ ]",
            "1e-400",
        ] {
            assert_eq!(JsonText::new(text).expect(text).as_str(), text);
        }
    }

    #[test]
    fn refuses_what_parsers_read_differently() {
        for text in [
            "",
            " ",
            "NaN",
            "Infinity",
            "-Infinity",
            "1e400",
            "-1e400",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "\u{feff}1",
            "1 2",
            "{} x",
            "\"\u{1}\"",
            "01",
            "+1",
            ".5",
            "1.",
            "'a'",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "tru",
            "[",
            "// c\n1",
        ] {
            fault(text);
        }
    }

    #[test]
    fn refuses_a_key_twice_at_any_level_and_however_it_is_written() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"[{"b":{"a":1,"a":2}}]"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            assert!(fault(text).contains("same key twice"), "{}", fault(text));
        }
    }

    #[test]
    fn says_where_and_quotes_nothing() {
        let text = "{\"secret\": 1,\n \"secret\": 2}";
        assert_eq!(
            fault(text),
            "is not valid JSON: an object has the same key twice at line 2 column 9"
        );
        assert_eq!(
            fault("[1e400]"),
            "is not valid JSON: holds a number beyond the range of a double at line 1 column 6"
        );
    }

    #[test]
    fn takes_127_levels_and_refuses_the_next() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        JsonText::new(&nested(127)).expect("127 levels");
        assert!(fault(&nested(128)).contains("127 levels"));
        assert!(fault(&nested(100_000)).contains("127 levels"));
    }

    #[test]
    fn same_value_is_by_value_but_numbers_by_text() {
        let same = |a: &str, b: &str| {
            JsonText::new(a)
                .expect(a)
                .same_value(&JsonText::new(b).expect(b))
        };
        assert!(same(
            r#"{"a":1,"b":[2,3]}"#,
            " { \"b\" : [ 2 , 3 ] , \"a\" : 1 } "
        ));
        assert!(same(r#""\u0061\"\\""#, r#""a\"\u005c""#));
        assert!(same(r#"{"\u0061":true}"#, r#"{"a":true}"#));
        assert!(!same("1", "1.0"));
        assert!(!same("1e2", "100"));
        assert!(!same("9007199254740993", "9007199254740992"));
        assert!(!same("[1,2]", "[2,1]"));
        assert!(!same("\"1\"", "1"));
        assert!(!same("{}", "[]"));
        assert!(!same("null", "\"null\""));
        assert!(!same(r#"{"a":1}"#, r#"{"a":1,"b":1}"#));
    }
}
