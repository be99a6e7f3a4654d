//! Where each value of a schema stands, so that a fault can name its place.

use std::collections::HashMap;

use serde_json::Value;

use super::words;

/// The places of a document's values, known by their addresses. Lives no longer than the document, which cannot move meanwhile.
pub(super) struct Places<'a> {
    by_address: HashMap<*const Value, usize>,
    steps: Vec<(usize, Step<'a>)>,
}

enum Step<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

impl<'a> Places<'a> {
    /// Looks at every value of `document`.
    pub(super) fn new(document: &'a Value) -> Self {
        let mut places = Self {
            by_address: HashMap::new(),
            steps: Vec::new(),
        };
        let mut stack = vec![(document, 0, Step::Root)];
        while let Some((value, parent, step)) = stack.pop() {
            let at = places.steps.len();
            places.steps.push((parent, step));
            places.by_address.insert(std::ptr::from_ref(value), at);
            match value {
                Value::Object(members) => {
                    stack.extend(members.iter().map(|(k, v)| (v, at, Step::Name(k))));
                }
                Value::Array(items) => {
                    stack.extend(
                        items
                            .iter()
                            .enumerate()
                            .map(|(i, v)| (v, at, Step::Index(i))),
                    );
                }
                _ => {}
            }
        }
        places
    }

    /// The place of `value` if it is part of the document, and not merely equal to a part.
    pub(super) fn of(&self, value: &Value) -> Option<usize> {
        self.by_address.get(&std::ptr::from_ref(value)).copied()
    }

    /// A place as it is written behind a field's name.
    pub(super) fn path(&self, mut place: usize) -> String {
        let mut chain = Vec::new();
        while let Some((parent, step)) = self.steps.get(place) {
            match step {
                Step::Root => break,
                step => chain.push(step),
            }
            place = *parent;
        }
        let mut path = String::new();
        for step in chain.into_iter().rev() {
            match step {
                Step::Root => {}
                Step::Name(name) => words::push_name(&mut path, name),
                Step::Index(index) => words::push_index(&mut path, *index),
            }
        }
        path
    }
}
