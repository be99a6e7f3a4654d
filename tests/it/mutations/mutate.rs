//! Changes JSON documents in ways that come close to what is taken: parts of other documents, words that mean something, other
//! types, other spellings of the same.
//!
//! Used by `tests/it/mutations.rs` and, by its path, by the targets in `tests/fuzz/`.

use serde_json::{Map, Value, json};

use super::Rng;

/// What documents are made of.
pub struct Pool {
    /// Parts of documents, to be put elsewhere.
    pub parts: Vec<Value>,
    /// Keys, kinds and other strings that mean something.
    pub words: Vec<String>,
}

impl Pool {
    /// All parts and all words of `documents`.
    pub fn of(documents: &[Value]) -> Self {
        let mut pool = Self {
            parts: scalars(),
            words: Vec::new(),
        };
        for document in documents {
            pool.take(document);
        }
        pool.words.sort();
        pool.words.dedup();
        pool
    }

    fn take(&mut self, value: &Value) {
        if !self.parts.contains(value) && value.to_string().len() < 1000 {
            self.parts.push(value.clone());
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.take(item)),
            Value::Object(members) => {
                for (key, value) in members {
                    self.words.push(key.clone());
                    self.take(value);
                }
            }
            Value::String(text) if text.len() < 64 => self.words.push(text.clone()),
            _ => {}
        }
    }

    /// Changes `value` in one to four places. `words` are names that only this document knows, such as its ids.
    pub fn mutate(&self, rng: &mut Rng, value: &mut Value, words: &[String]) {
        for _ in 0..=rng.below(4).min(rng.below(4)) {
            let mut left = rng.index(count(value));
            visit(value, &mut left, &mut |node| self.change(rng, node, words));
        }
    }

    fn word(&self, rng: &mut Rng, words: &[String]) -> String {
        if !words.is_empty() && (self.words.is_empty() || rng.chance(40)) {
            words[rng.index(words.len())].clone()
        } else {
            self.words[rng.index(self.words.len())].clone()
        }
    }

    fn part(&self, rng: &mut Rng, words: &[String]) -> Value {
        if rng.chance(15) {
            return Value::String(self.word(rng, words));
        }
        self.parts[rng.index(self.parts.len())].clone()
    }

    fn change(&self, rng: &mut Rng, node: &mut Value, words: &[String]) {
        match rng.below(16) {
            0 => wrap(rng, node),
            1 => deepen(rng, node),
            2 => {
                let key = self.word(rng, words);
                *node = Value::Object(Map::from_iter([(key, node.take())]));
            }
            3..=5 => *node = self.part(rng, words),
            _ => match node {
                Value::Object(members) => self.change_object(rng, members, words),
                Value::Array(items) => self.change_array(rng, items, words),
                Value::String(text) => *text = self.change_text(rng, text, words),
                other => *other = self.part(rng, words),
            },
        }
    }

    fn change_object(&self, rng: &mut Rng, members: &mut Map<String, Value>, words: &[String]) {
        let key = (!members.is_empty())
            .then(|| members.keys().nth(rng.index(members.len())).cloned())
            .flatten();
        match (rng.below(8), key) {
            (0 | 1, Some(key)) => {
                members.remove(&key);
            }
            (2, Some(key)) => {
                if let Some(value) = members.remove(&key) {
                    members.insert(self.word(rng, words), value);
                }
            }
            (3, Some(key)) => {
                if let Some(value) = members.get(&key).cloned() {
                    members.insert(self.word(rng, words), value);
                }
            }
            (4, _) => {
                let tag = if rng.chance(80) { "kind" } else { "part_kind" };
                let kind = Value::String(self.word(rng, words));
                members.insert(tag.to_owned(), kind);
            }
            _ => {
                let key = self.word(rng, words);
                members.insert(key, self.part(rng, words));
            }
        }
    }

    fn change_array(&self, rng: &mut Rng, items: &mut Vec<Value>, words: &[String]) {
        let at = rng.index(items.len() + 1);
        match rng.below(3) {
            0 if at < items.len() => {
                items.remove(at);
            }
            1 if at < items.len() => items.push(items[at].clone()),
            _ => items.insert(at, self.part(rng, words)),
        }
    }

    fn change_text(&self, rng: &mut Rng, text: &str, words: &[String]) -> String {
        match rng.below(8) {
            0 => String::new(),
            1 => format!(
                "{text}{}",
                ["\u{0}", "\n", "é", "😀", "\"", "=", " "][rng.index(7)]
            ),
            2 => text.to_uppercase(),
            3 => text.chars().skip(1).collect(),
            4 => text.repeat(1 + rng.index(4) * rng.index(100)),
            _ => self.word(rng, words),
        }
    }
}

/// Values of every type.
fn scalars() -> Vec<Value> {
    let values = json!([
        null, true, false, 0, 1, -1, 1.0, 0.1, 1e300, 9_007_199_254_740_993_u64, "", "x", "AAAA", "QQ==", "true", "a\nb",
        "https://example.com/a.png", "HTTP:x", "data:,x", [], {}, [[]], [{}], ["a"], {"": null}, {"a": 1},
        {"kind": "binary", "data": "AAAA", "media_type": "image/png"},
        {"kind": "image-url", "url": "https://example.com/a.png", "media_type": "image/png"},
        {"kind": "image-url", "url": "https://example.com/a.png", "media_type": null},
        {"kind": "uploaded-file", "file_id": "f", "provider_name": "openai"},
        {"kind": "retry-prompt", "content": "again"}, {"part_kind": "retry-prompt", "content": "again"},
        {"part_kind": "tool-return", "return_value": 1}, {"kind": "tool-return", "return_value": {"kind": "order"}},
        {"kind": "tool-return", "return_value": {"kind": "image-url"}, "content_file_digests": []},
        {"kind": "text-content", "content": "x"}, {"kind": "structured-content", "value": {"a": 1}}, {"kind": "cache-point"},
        {"kind": "tool-failed", "message": "m"}, {"kind": "model-retry", "message": "m"}, {"ttl": "5m"}
    ]);
    match values {
        Value::Array(values) => values,
        _ => Vec::new(),
    }
}

fn wrap(rng: &mut Rng, node: &mut Value) {
    let inner = node.take();
    *node = match rng.below(6) {
        0 => json!([inner]),
        1 => json!({"kind": "tool-return", "return_value": inner}),
        2 => json!({"kind": "tool-return", "return_value": inner, "content_file_digests": []}),
        3 => json!({"kind": "tool-return", "return_value": null, "content": [inner]}),
        4 => json!({"kind": inner}),
        _ => json!({"kind": "order", "of": inner}),
    };
}

/// Puts a value under many levels, near the bounds as a rule.
fn deepen(rng: &mut Rng, node: &mut Value) {
    let levels = if rng.chance(50) {
        rng.below(6)
    } else {
        112 + rng.below(18)
    };
    for _ in 0..levels {
        let inner = node.take();
        *node = if rng.chance(80) {
            Value::Array(vec![inner])
        } else {
            json!({ "a": inner })
        };
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Calls `f` with the node that has the number `left`, counted from above.
fn visit(value: &mut Value, left: &mut usize, f: &mut dyn FnMut(&mut Value)) -> bool {
    if *left == 0 {
        f(value);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| visit(item, left, f)),
        Value::Object(members) => members.values_mut().any(|item| visit(item, left, f)),
        _ => false,
    }
}

/// Writes a value, now and then otherwise than a program would: with spaces, escapes, and numbers spelled in full.
pub fn write(rng: &mut Rng, value: &Value) -> String {
    let mut text = String::new();
    let odd = if rng.chance(30) { 15 } else { 0 };
    write_into(rng, odd, value, &mut text);
    text
}

fn write_into(rng: &mut Rng, odd: u64, value: &Value, text: &mut String) {
    let space = |rng: &mut Rng, text: &mut String| {
        if rng.chance(odd) {
            text.push([' ', '\n', '\t', '\r'][rng.index(4)]);
        }
    };
    space(rng, text);
    match value {
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_into(rng, odd, item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if odd > 0 && rng.chance(50) {
                members.reverse();
            }
            text.push('{');
            for (at, (key, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                space(rng, text);
                write_string(rng, odd, key, text);
                space(rng, text);
                text.push(':');
                write_into(rng, odd, value, text);
            }
            text.push('}');
        }
        Value::String(string) => write_string(rng, odd, string, text),
        Value::Number(_) if rng.chance(odd) => {
            let spelled = ["-0", "1.50", "1E2", "12345678901234567890123", "1e-400"];
            text.push_str(spelled[rng.index(5)]);
        }
        other => text.push_str(&other.to_string()),
    }
    space(rng, text);
}

fn write_string(rng: &mut Rng, odd: u64, string: &str, text: &mut String) {
    if !rng.chance(odd) {
        return text.push_str(&Value::from(string).to_string());
    }
    text.push('"');
    for unit in string.encode_utf16() {
        text.push_str(&format!("\\u{unit:04x}"));
    }
    text.push('"');
}
