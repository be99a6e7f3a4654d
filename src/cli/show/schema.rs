//! A JSON Schema in words, for whoever fills in a form. What has no words is left to the schema itself: a schema that is not told
//! completely is shown as well.

use crate::cli::json::Node;

/// A schema in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// What the answer is.
    pub(super) whole: String,
    /// Name and words of each field, where it is an object; fields of a field as `address.city`.
    pub(super) fields: Vec<(String, String)>,
    /// Whether that is all that the schema says.
    pub(super) is_complete: bool,
}

/// How deep fields of fields, and references, are followed.
const DEPTH: usize = 6;
/// How many fields are told.
const FIELDS: usize = 60;
/// How many values of an enumeration are told.
const VALUES: usize = 20;

/// Tells a schema.
pub(super) fn tell(schema: &str) -> Told {
    let Some(root) = Node::parse(schema) else {
        return Told {
            whole: "what fits this schema".to_owned(),
            ..Told::default()
        };
    };
    let mut teller = Teller {
        root: &root,
        fields: Vec::new(),
        is_complete: true,
    };
    let whole = teller.words(&root, DEPTH);
    teller.fields_of(&root, "", DEPTH);
    Told {
        whole,
        fields: teller.fields,
        is_complete: teller.is_complete,
    }
}

struct Teller<'a> {
    root: &'a Node<'a>,
    fields: Vec<(String, String)>,
    is_complete: bool,
}

impl<'a> Teller<'a> {
    /// A schema in one line, without the fields of an object.
    fn words(&mut self, schema: &'a Node<'a>, depth: usize) -> String {
        match schema {
            Node::Scalar("true") => return "anything".to_owned(),
            Node::Scalar("false") => return "nothing".to_owned(),
            _ => {}
        }
        let mut limits = Vec::new();
        let mut about = None;
        for (key, value) in schema.members() {
            let name = crate::cli::json::string(key).unwrap_or_default();
            match name.as_str() {
                "description" => about = value.text(),
                "title" => about = about.or_else(|| value.text()),
                // Told by the kind, by the fields, or nothing that limits an answer.
                "type" | "enum" | "const" | "anyOf" | "oneOf" | "items" | "properties" | "$ref"
                | "required" | "$schema" | "$id" | "$defs" | "definitions" | "examples"
                | "$comment" => {}
                _ => match limit(&name, value) {
                    Some(limit) => limits.push(limit),
                    None => self.is_complete = false,
                },
            }
        }
        let mut words = self.kind(schema, depth);
        for limit in limits {
            words.push_str(&format!(", {limit}"));
        }
        match about {
            Some(about) if !about.is_empty() => format!("{words}: {about}"),
            _ => words,
        }
    }

    /// What kind of value a schema takes.
    fn kind(&mut self, schema: &'a Node<'a>, depth: usize) -> String {
        // One of these is told. A type beside values is no more than they say.
        let has = |name: &str| schema.member(name).is_some();
        let kinds = ["const", "enum", "$ref", "anyOf", "oneOf"].into_iter();
        let kinds = kinds.filter(|name| has(name)).count();
        let parts = ["properties", "required", "items"].into_iter().any(has);
        let values = has("const") || has("enum");
        let is_alone = kinds == 1 && !parts && (values || !has("type"));
        self.is_complete &= kinds == 0 || is_alone;
        if let Some(value) = schema.member("const") {
            return value.compact();
        }
        if let Some(values) = schema.member("enum") {
            let values: Vec<_> = values.items().iter().map(Node::compact).collect();
            self.is_complete &= values.len() <= VALUES;
            let told = values.iter().take(VALUES).cloned().collect::<Vec<_>>();
            let more = values.len().saturating_sub(VALUES);
            return match (told.as_slice(), more) {
                ([only], 0) => only.clone(),
                (told, 0) => format!("one of {}", told.join(", ")),
                (told, more) => format!("one of {} and {more} more", told.join(", ")),
            };
        }
        if schema.member("$ref").is_some() {
            return match self.referred(schema) {
                Some(target) if depth > 0 => self.words(target, depth - 1),
                _ => self.give_up(),
            };
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(alternatives) = schema.member(name) {
                return self.one_of(alternatives.items(), depth);
            }
        }
        let types: Vec<String> = match schema.member("type") {
            Some(Node::Array(types)) => types.iter().filter_map(Node::text).collect(),
            Some(name) => name.text().into_iter().collect(),
            None if schema.member("properties").is_some() => vec!["object".to_owned()],
            None => return "any JSON".to_owned(),
        };
        let words: Vec<_> = types
            .iter()
            .map(|name| self.kind_of(name, schema, depth))
            .collect();
        words.join(" or ")
    }

    fn kind_of(&mut self, name: &str, schema: &'a Node<'a>, depth: usize) -> String {
        match name {
            "string" => "text".to_owned(),
            "integer" => "whole number".to_owned(),
            "number" => "number".to_owned(),
            "boolean" => "true or false".to_owned(),
            "null" => "null".to_owned(),
            "object" if self.has_fields(schema) => "object with these fields".to_owned(),
            "object" => "object".to_owned(),
            "array" => match schema.member("items") {
                None => "list".to_owned(),
                Some(items) if depth > 0 => {
                    // The fields of an item have no name of their own.
                    self.is_complete &= !self.has_fields(items);
                    format!("list of: {}", self.words(items, depth - 1))
                }
                Some(_) => self.give_up(),
            },
            _ => self.give_up(),
        }
    }

    fn one_of(&mut self, alternatives: &'a [Node<'a>], depth: usize) -> String {
        if depth == 0 {
            return self.give_up();
        }
        let mut words: Vec<String> = Vec::new();
        for alternative in alternatives {
            self.is_complete &= !self.has_fields(alternative);
            let told = self.words(alternative, depth - 1);
            if !words.contains(&told) {
                words.push(told);
            }
        }
        words.join(" or ")
    }

    fn give_up(&mut self) -> String {
        self.is_complete = false;
        "what the schema says".to_owned()
    }

    /// Adds the fields of an object, and the fields of those.
    fn fields_of(&mut self, schema: &'a Node<'a>, prefix: &str, depth: usize) {
        let schema = self.resolved(schema);
        let required: Vec<_> = schema
            .member("required")
            .map(|names| names.items().iter().filter_map(Node::text).collect())
            .unwrap_or_default();
        let fields = schema.member("properties").map_or(&[][..], Node::members);
        let named = |name: &String| {
            let mut names = fields.iter().map(|(key, _)| crate::cli::json::string(key));
            names.any(|key| key.as_ref() == Some(name))
        };
        self.is_complete &= required.iter().all(named);
        if fields.is_empty() {
            return;
        }
        if depth == 0 {
            self.is_complete = false;
            return;
        }
        for (key, field) in fields {
            if self.fields.len() == FIELDS {
                self.is_complete = false;
                return;
            }
            let name = crate::cli::json::string(key).unwrap_or_default();
            let must = match required.contains(&name) {
                true => "required",
                false => "optional",
            };
            let words = self.words(field, DEPTH);
            let path = format!("{prefix}{name}");
            self.fields.push((path.clone(), format!("{must}, {words}")));
            self.fields_of(field, &format!("{path}."), depth - 1);
        }
    }

    fn has_fields(&self, schema: &'a Node<'a>) -> bool {
        let schema = self.resolved(schema);
        ["properties", "required"]
            .iter()
            .any(|name| schema.member(name).is_some())
    }

    /// The schema, or what it refers to in the end.
    fn resolved(&self, mut schema: &'a Node<'a>) -> &'a Node<'a> {
        for _ in 0..DEPTH {
            match self.referred(schema) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    /// What a schema refers to, if that is one of the named parts of this schema.
    fn referred(&self, schema: &'a Node<'a>) -> Option<&'a Node<'a>> {
        let path = schema.member("$ref")?.text()?;
        let (section, name) = path.strip_prefix("#/")?.split_once('/')?;
        // Names with escapes are left to the schema.
        if !["$defs", "definitions"].contains(&section) || name.contains(['/', '~', '%']) {
            return None;
        }
        self.root.member(section)?.member(name)
    }
}

/// A limit in words.
fn limit(name: &str, value: &Node<'_>) -> Option<String> {
    let told = value.compact();
    Some(match (name, value) {
        ("minimum", _) => format!("at least {told}"),
        ("maximum", _) => format!("at most {told}"),
        ("exclusiveMinimum", _) => format!("more than {told}"),
        ("exclusiveMaximum", _) => format!("less than {told}"),
        ("multipleOf", _) => format!("a multiple of {told}"),
        ("minLength", _) => format!("at least {told} characters"),
        ("maxLength", _) => format!("at most {told} characters"),
        ("minItems", _) => format!("at least {told} items"),
        ("maxItems", _) => format!("at most {told} items"),
        ("uniqueItems", Node::Scalar("true")) => "no item twice".to_owned(),
        ("format", _) => format!("as {}", value.text()?),
        ("pattern", _) => format!("matching {}", value.text()?),
        ("default", _) => format!("{told} by default"),
        ("additionalProperties", Node::Scalar("false")) => "no others".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(schema: &str) -> String {
        let told = tell(schema);
        assert!(told.is_complete, "{schema}: {told:?}");
        assert!(told.fields.is_empty(), "{schema}: {told:?}");
        told.whole
    }

    #[test]
    fn values_are_told_in_words() {
        for (schema, expected) in [
            ("true", "anything"),
            ("{}", "any JSON"),
            (r#"{"type":"boolean"}"#, "true or false"),
            (
                r#"{"type":"integer","minimum":1,"maximum":14,"description":"Nights"}"#,
                "whole number, at least 1, at most 14: Nights",
            ),
            (r#"{"enum":["a",1.0,null]}"#, r#"one of "a", 1.0, null"#),
            (r#"{"type":["string","null"]}"#, "text or null"),
            (
                r#"{"anyOf":[{"type":"string","format":"date"},{"type":"null"}],"default":null}"#,
                "text, as date or null, null by default",
            ),
            (
                r#"{"type":"array","items":{"type":"string","maxLength":3},"minItems":1}"#,
                "list of: text, at most 3 characters, at least 1 items",
            ),
            (
                r##"{"$ref":"#/$defs/N","$defs":{"N":{"type":"number","exclusiveMinimum":0}}}"##,
                "number, more than 0",
            ),
        ] {
            assert_eq!(words(schema), expected, "{schema}");
        }
    }

    #[test]
    fn fields_are_told_in_the_order_of_the_schema() {
        let told = tell(
            r##"{
            "type": "object", "required": ["room", "at"], "additionalProperties": false,
            "properties": {
                "room": {"enum": ["single", "double"], "description": "Which room?"},
                "at": {"$ref": "#/$defs/Place"},
                "a note": {"type": "string", "title": "Note"}
            },
            "$defs": {"Place": {"properties": {"city": {"type": "string"}}, "required": ["city"]}}
        }"##,
        );
        let field = |name: &str, words: &str| (name.to_owned(), words.to_owned());
        assert_eq!(
            told,
            Told {
                whole: "object with these fields, no others".to_owned(),
                fields: vec![
                    field(
                        "room",
                        r#"required, one of "single", "double": Which room?"#
                    ),
                    field("at", "required, object with these fields"),
                    field("at.city", "required, text"),
                    field("a note", "optional, text: Note"),
                ],
                is_complete: true,
            }
        );
    }

    #[test]
    fn what_has_no_words_is_left_to_the_schema() {
        for schema in [
            r#"{"not":{"type":"string"}}"#,
            r#"{"type":"object","patternProperties":{"^a":{}}}"#,
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            r#"{"type":"array","items":{"type":"object","properties":{"a":{}}}}"#,
            r#"{"anyOf":[{"properties":{"a":{}}},{"type":"null"}]}"#,
            r#"{"properties":{"a":{"allOf":[{"minLength":1}]}}}"#,
            r#"{"required":["a"]}"#,
            r#"{"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
            r#"{"type":"string","anyOf":[{"minLength":1},{"const":"a"}]}"#,
            r#"{"enum":["a"],"const":"b"}"#,
            r##"{"$ref":"#"}"##,
            r##"{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}"##,
            r##"{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"a":{"$ref":"#/$defs/A"}}}}}"##,
            "not JSON",
        ] {
            let told = tell(schema);
            assert!(!told.is_complete, "{schema}: {told:?}");
            assert!(told.fields.len() <= FIELDS, "{schema}");
        }
    }
}
