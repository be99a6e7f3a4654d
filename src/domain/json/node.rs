//! One level of a JSON value, with what stands below it as it was sent.

use std::borrow::Cow;

/// One level of a value that was found valid. What stands below is the sender's text, byte for byte.
#[derive(Debug, PartialEq)]
pub enum Node<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, by its text.
    Number(&'a str),
    /// A string, by what it says.
    String(Cow<'a, str>),
    /// An array: the text of each item.
    Array(Vec<&'a str>),
    /// An object: each key and the text of its value, in the order of the text. No key stands there twice.
    Object(Vec<(Cow<'a, str>, &'a str)>),
}

impl<'a> Node<'a> {
    /// Reads one level of text that was found valid, or of a part of it.
    pub fn of(text: &'a str) -> Self {
        let mut reader = Reader::new(text);
        match reader.peek() {
            b'{' => {
                let mut members = Vec::new();
                reader.enter();
                while reader.more() {
                    let key = reader.key();
                    members.push((key, reader.skip_value()));
                }
                Self::Object(members)
            }
            b'[' => {
                let mut items = Vec::new();
                reader.enter();
                while reader.more() {
                    items.push(reader.skip_value());
                }
                Self::Array(items)
            }
            b'"' => Self::String(reader.string()),
            b't' => Self::Bool(true),
            b'f' => Self::Bool(false),
            b'n' => Self::Null,
            _ => Self::Number(reader.plain()),
        }
    }
}

/// How many levels a valid value has: 0 for a plain one.
pub(super) fn levels(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut reader = Reader::new(text);
    while let Some(byte) = reader.byte() {
        match byte {
            b'"' => {
                reader.skip_string();
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        reader.at += 1;
    }
    deepest
}

/// Text as a JSON string.
pub fn quote(text: &str) -> String {
    // A string is always JSON.
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}

/// Finds the tokens of valid JSON. Where the text is not valid, it gives something and ends.
pub(in crate::domain) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(in crate::domain) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is not white space. Behind the end, a byte that ends everything.
    pub(in crate::domain) fn peek(&mut self) -> u8 {
        self.take_until(|b| !b.is_ascii_whitespace());
        self.byte().unwrap_or(b'}')
    }

    /// Steps behind the opening bracket.
    pub(in crate::domain) fn enter(&mut self) {
        self.at += 1;
    }

    /// Whether another member or item follows; steps behind a comma, or behind the closing bracket.
    pub(in crate::domain) fn more(&mut self) -> bool {
        if self.peek() == b',' {
            self.at += 1;
        }
        let more = !matches!(self.peek(), b'}' | b']');
        if !more {
            self.at += 1;
        }
        more
    }

    /// A key, and the colon behind it.
    pub(in crate::domain) fn key(&mut self) -> Cow<'a, str> {
        let key = self.string();
        if self.peek() == b':' {
            self.at += 1;
        }
        key
    }

    /// A number or a literal.
    pub(in crate::domain) fn plain(&mut self) -> &'a str {
        let start = self.at;
        self.take_until(|b| b.is_ascii_whitespace() || b",]}".contains(&b));
        // Always a step forward, also in text that is not valid.
        self.at = self.at.max(start + 1).min(self.text.len());
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub(in crate::domain) fn string(&mut self) -> Cow<'a, str> {
        self.peek();
        let start = self.at;
        let escaped = self.skip_string();
        let quoted = self.text.get(start..self.at).unwrap_or_default();
        if escaped {
            // Valid by the check before; the quoted text would only compare more strictly.
            serde_json::from_str(quoted).map_or(Cow::Borrowed(quoted), Cow::Owned)
        } else {
            Cow::Borrowed(quoted.trim_matches('"'))
        }
    }

    /// Steps behind a value, and gives its text.
    fn skip_value(&mut self) -> &'a str {
        let first = self.peek();
        let start = self.at;
        match first {
            b'"' => drop(self.skip_string()),
            b'{' | b'[' => self.skip_brackets(),
            _ => drop(self.plain()),
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Steps behind an object or an array. Most of an answer passes here, several times, so it looks at each byte once.
    fn skip_brackets(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.byte() {
            match byte {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Steps behind a string. Gives whether it holds escapes.
    fn skip_string(&mut self) -> bool {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.take_until(|b| b == b'"' || b == b'\\');
            match self.byte() {
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                _ => break,
            }
        }
        self.at = (self.at + 1).min(self.text.len());
        escaped
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take_until(&mut self, end: impl Fn(u8) -> bool) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|b| end(*b)).unwrap_or(rest.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_one_level_and_keeps_what_is_below_as_it_was() {
        let text = r#" { "a" : [1, {"b":"}]\""}] , "\u0062": 1.50 ,"c":{} } "#;
        let Node::Object(members) = Node::of(text) else {
            panic!("an object");
        };
        let members: Vec<_> = members.iter().map(|(k, v)| (k.as_ref(), *v)).collect();
        assert_eq!(
            members,
            [("a", r#"[1, {"b":"}]\""}]"#), ("b", "1.50"), ("c", "{}")]
        );
        assert_eq!(Node::of("[ ]"), Node::Array(vec![]));
        assert_eq!(
            Node::of("[[1],2 , \"x,]\"]"),
            Node::Array(vec!["[1]", "2", "\"x,]\""])
        );
        assert_eq!(Node::of(" null"), Node::Null);
        assert_eq!(Node::of("-0.0 "), Node::Number("-0.0"));
        assert_eq!(Node::of(r#""\u00e9""#), Node::String("é".into()));
    }

    #[test]
    fn levels_are_counted_outside_strings() {
        for (text, wanted) in [
            ("1", 0),
            ("\"[[[\"", 0),
            ("[]", 1),
            (r#"{"a":[{"b":"\"{{"}]}"#, 3),
            ("[[],[[]]]", 3),
        ] {
            assert_eq!(levels(text), wanted, "{text}");
        }
    }
}
