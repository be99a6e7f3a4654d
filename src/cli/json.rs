//! JSON that others wrote, laid out for people. Numbers and strings stay as they were written, members in their order.

use serde::de::IgnoredAny;

use super::output;

/// A value within a JSON text.
#[derive(Debug)]
pub(super) enum Node<'a> {
    /// Its members, each with its key as it is written, in quotes.
    Object(Vec<(&'a str, Node<'a>)>),
    Array(Vec<Node<'a>>),
    /// A string in quotes, a number, `true`, `false` or `null`.
    Scalar(&'a str),
}

impl<'a> Node<'a> {
    /// Reads a text. `None` if it is not JSON, or deeper than any JSON that the broker takes.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        // What follows relies on this check, for the grammar and for the depth of its recursion.
        serde_json::from_str::<IgnoredAny>(text).ok()?;
        Reader { rest: text }.node()
    }

    /// The member of this name.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        let members = self.members();
        members
            .iter()
            .find(|(key, _)| string(key).as_deref() == Some(name))
            .map(|(_, node)| node)
    }

    /// The members of an object; none of anything else.
    pub(super) fn members(&self) -> &[(&'a str, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    /// The items of an array; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// What a string says.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Scalar(raw) => string(raw),
            _ => None,
        }
    }

    /// The value on one line.
    pub(super) fn compact(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, None);
        text
    }

    /// The value over several lines, two spaces for each level.
    pub(super) fn laid_out(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, Some(0));
        text
    }

    fn write(&self, text: &mut String, level: Option<usize>) {
        let within = level.map(|level| level + 1);
        match self {
            Self::Scalar(raw) => text.push_str(raw),
            Self::Object(members) if members.is_empty() => text.push_str("{}"),
            Self::Array(items) if items.is_empty() => text.push_str("[]"),
            Self::Object(members) => {
                text.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    separate(text, within, at);
                    text.push_str(key);
                    text.push_str(": ");
                    value.write(text, within);
                }
                close(text, level, '}');
            }
            Self::Array(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    separate(text, within, at);
                    item.write(text, within);
                }
                close(text, level, ']');
            }
        }
    }
}

fn separate(text: &mut String, level: Option<usize>, at: usize) {
    if at > 0 {
        text.push(',');
    }
    match level {
        Some(level) => new_line(text, level),
        None if at > 0 => text.push(' '),
        None => {}
    }
}

fn close(text: &mut String, level: Option<usize>, bracket: char) {
    if let Some(level) = level {
        new_line(text, level);
    }
    text.push(bracket);
}

fn new_line(text: &mut String, level: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", level));
}

/// What a string that is written in quotes says.
pub(super) fn string(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

/// A JSON text over several lines, safe to show. What is not JSON stays as it is.
pub(super) fn pretty(text: &str) -> String {
    let laid_out = Node::parse(text).map_or_else(|| text.to_owned(), |node| node.laid_out());
    output::for_terminal(&laid_out)
}

/// As [`pretty`]; a string that holds an object or an array is shown as that, since some models write their arguments so.
pub(super) fn pretty_arguments(text: &str) -> String {
    let within = string(text).filter(|within| {
        let node = Node::parse(within);
        matches!(node, Some(Node::Object(_) | Node::Array(_)))
    });
    pretty(within.as_deref().unwrap_or(text))
}

/// Reads a text that is known to be JSON.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn node(&mut self) -> Option<Node<'a>> {
        self.skip_space();
        match self.rest.as_bytes().first()? {
            b'{' => {
                let mut members = Vec::new();
                while !self.ends_with(b'}')? {
                    let key = self.scalar();
                    self.skip_space();
                    self.skip(1);
                    members.push((key, self.node()?));
                }
                Some(Node::Object(members))
            }
            b'[' => {
                let mut items = Vec::new();
                while !self.ends_with(b']')? {
                    items.push(self.node()?);
                }
                Some(Node::Array(items))
            }
            _ => Some(Node::Scalar(self.scalar())),
        }
    }

    /// Takes an opening bracket or a comma, or else the closing bracket: then there is no more.
    fn ends_with(&mut self, close: u8) -> Option<bool> {
        self.skip_space();
        let mut first = *self.rest.as_bytes().first()?;
        if first != close {
            self.skip(1);
            self.skip_space();
            first = *self.rest.as_bytes().first()?;
        }
        let ends = first == close;
        if ends {
            self.skip(1);
        }
        Some(ends)
    }

    fn scalar(&mut self) -> &'a str {
        let bytes = self.rest.as_bytes();
        let mut end = 0;
        if bytes.first() == Some(&b'"') {
            end = 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            end += 1;
        } else {
            while end < bytes.len() && !b",]}: \t\r\n".contains(&bytes[end]) {
                end += 1;
            }
        }
        self.skip(end)
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_strings_and_order_stay_as_they_were_written() {
        let text = r#"{"z":1.0,"a":[9007199254740993,1E+2, -0],"e\u0041\"":"\u00fc}, ü","n":{ },"l":[],"t":[true,null]}"#;
        let expected = r#"{
  "z": 1.0,
  "a": [
    9007199254740993,
    1E+2,
    -0
  ],
  "e\u0041\"": "\u00fc}, ü",
  "n": {},
  "l": [],
  "t": [
    true,
    null
  ]
}"#;
        assert_eq!(pretty(text), expected);
        assert_eq!(
            Node::parse(text).unwrap().compact(),
            r#"{"z": 1.0, "a": [9007199254740993, 1E+2, -0], "e\u0041\"": "\u00fc}, ü", "n": {}, "l": [], "t": [true, null]}"#
        );
    }

    #[test]
    fn laying_out_changes_no_value() {
        for text in [
            "1",
            " [ [ ] , { \"a\" : [ 1 , 2 ] } ] ",
            "\"a\\\\\"",
            "{\"\":{\"\":{\"\":[[[]]]}}}",
            "[\"\\\"\",\"]\"]",
            "null\n",
        ] {
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            let node = Node::parse(text).unwrap();
            assert_eq!(value(&node.laid_out()), value(text), "{text}");
            assert_eq!(value(&node.compact()), value(text), "{text}");
        }
        for text in ["", "{", "[1,]", "{\"a\"}", "1 2", &"[".repeat(10_000)] {
            assert!(Node::parse(text).is_none(), "{text}");
        }
        assert_eq!(pretty("not JSON"), "not JSON");
    }

    #[test]
    fn arguments_in_a_string_are_shown_as_what_they_hold() {
        assert_eq!(pretty_arguments(r#""{\"n\":1.0}""#), "{\n  \"n\": 1.0\n}");
        assert_eq!(pretty_arguments(r#""1""#), r#""1""#);
        assert_eq!(pretty_arguments(r#""so""#), r#""so""#);
        assert_eq!(pretty_arguments("null"), "null");
    }

    #[test]
    fn nothing_in_it_can_rewrite_the_screen() {
        assert_eq!(pretty("[\"\u{202e}\"]"), "[\n  \"\\u202e\"\n]");
        assert_eq!(
            pretty_arguments("\"[\\\"\u{202e}\\\"]\""),
            "[\n  \"\\u202e\"\n]"
        );
    }
}
