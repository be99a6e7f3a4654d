//! Whole values, to compare.

use std::{borrow::Cow, collections::BTreeMap};

use super::node::Reader;

/// A JSON value that keeps the text of its numbers, which `serde_json::Value` does not.
#[derive(PartialEq)]
pub(super) enum Value<'a> {
    /// `null`, `true`, `false` or a number.
    Plain(&'a str),
    String(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(BTreeMap<Cow<'a, str>, Value<'a>>),
}

impl<'a> Value<'a> {
    /// Reads text that [`super::JsonText::new`] found valid, in one pass. Its depth is bounded by the check before.
    pub(super) fn of(text: &'a str) -> Self {
        Self::read(&mut Reader::new(text))
    }

    fn read(reader: &mut Reader<'a>) -> Self {
        match reader.peek() {
            b'{' => {
                let mut members = BTreeMap::new();
                reader.enter();
                while reader.more() {
                    let key = reader.key();
                    members.insert(key, Self::read(reader));
                }
                Self::Object(members)
            }
            b'[' => {
                let mut items = Vec::new();
                reader.enter();
                while reader.more() {
                    items.push(Self::read(reader));
                }
                Self::Array(items)
            }
            b'"' => Self::String(reader.string()),
            _ => Self::Plain(reader.plain()),
        }
    }
}
