//! Faults in words that a person can act on. They quote the schema, and of the answer its keys but never its values.

use std::fmt::Write;

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::{Fault, MAX_FAULTS, nearest};

/// The longest text of a key that is told.
const KEY: usize = 64;

/// The longest text of a schema's own that is told.
const QUOTE: usize = 200;

/// Puts a step to a property behind a path: `.name`, or `["quoted"]` if it is no plain name.
pub(super) fn push_name(path: &mut String, name: &str) {
    let is_plain = name.len() <= KEY
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // Writing to a String cannot fail.
    let _ = if is_plain {
        write!(path, ".{name}")
    } else {
        write!(path, "[{:?}]", cut(name, KEY))
    };
}

/// Puts a step to an item behind a path.
pub(super) fn push_index(path: &mut String, index: usize) {
    let _ = write!(path, "[{index}]");
}

/// The first `most` characters, and whether there were more.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Tells what `error` says of `document`. `schema` is where its words are looked up.
pub(super) fn faults(error: &ValidationError<'_>, document: &Value, schema: &Value) -> Vec<Fault> {
    let path = path(error.instance_path().as_str(), document);
    match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            let known = nearest::siblings(schema, error.schema_path().as_str());
            unexpected
                .iter()
                .map(|name| unexpected_property(&path, name, &known))
                .collect()
        }
        Kind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .map(|name| unexpected_property(&path, name, &[]))
            .collect(),
        Kind::FalseSchema
            if error
                .schema_path()
                .as_str()
                .ends_with("/additionalProperties") =>
        {
            // Without `properties` beside it the validator tells of the object as a whole.
            let members = document
                .pointer(error.instance_path().as_str())
                .and_then(Value::as_object);
            members
                .into_iter()
                .flat_map(|members| members.keys())
                .take(MAX_FAULTS)
                .map(|name| unexpected_property(&path, name, &[]))
                .collect()
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            vec![nearest::alternative(path, error, context, document, schema)]
        }
        Kind::OneOfMultipleValid { context } => {
            let description = too_many_fit(context);
            vec![Fault { path, description }]
        }
        kind => {
            let description = describe(kind, error.instance());
            vec![Fault { path, description }]
        }
    }
}

fn too_many_fit(context: &[Vec<ValidationError<'_>>]) -> String {
    let fits: Vec<String> = context
        .iter()
        .enumerate()
        .filter(|(_, faults)| faults.is_empty())
        .map(|(at, _)| (at + 1).to_string())
        .collect();
    format!(
        "fits {} of {} alternatives ({}); it must fit exactly one",
        fits.len(),
        context.len(),
        cut(&fits.join(", "), QUOTE)
    )
}

fn unexpected_property(path: &str, name: &str, known: &[&str]) -> Fault {
    let mut path = path.to_owned();
    push_name(&mut path, name);
    let description = match nearest::name(name, known) {
        Some(meant) => format!(
            "is not a known property; did you mean {:?}?",
            cut(meant, KEY)
        ),
        None if known.is_empty() => "is not a known property".to_owned(),
        None => format!(
            "is not a known property; known are {}",
            list(known.iter().map(|name| format!("{name:?}")))
        ),
    };
    Fault { path, description }
}

/// A JSON pointer into `document` as it is written behind a field's name.
pub(super) fn path(pointer: &str, document: &Value) -> String {
    let mut path = String::new();
    let mut at = Some(document);
    for step in pointer.split('/').skip(1) {
        let name = step.replace("~1", "/").replace("~0", "~");
        at = match at {
            Some(Value::Array(items)) => {
                let index = name.parse().ok();
                push_index(&mut path, index.unwrap_or_default());
                index.and_then(|index| items.get(index))
            }
            Some(Value::Object(members)) => {
                push_name(&mut path, &name);
                members.get(&name)
            }
            _ => {
                push_name(&mut path, &name);
                None
            }
        };
    }
    path
}

/// What is wrong with `instance`, of which only its kind is told.
pub(super) fn describe(kind: &Kind, instance: &Value) -> String {
    match kind {
        Kind::Type { kind } => type_words(kind, instance),
        Kind::Required { property } => match property {
            Value::String(name) => format!("lacks the property {:?}", cut(name, KEY)),
            _ => "lacks a property".to_owned(),
        },
        Kind::Enum { options } => {
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            format!(
                "must be one of {}",
                list(options.iter().map(Value::to_string))
            )
        }
        Kind::Constant { expected_value } => {
            format!("must be {}", cut(&expected_value.to_string(), QUOTE))
        }
        Kind::Pattern { pattern } => format!("must match the pattern {}", cut(pattern, QUOTE)),
        Kind::Format { format } => format!("is not a valid {}", cut(format, KEY)),
        Kind::PropertyNames { error } => property_names(error),
        Kind::Not { .. } => "fits a schema that it must not fit".to_owned(),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        Kind::Contains => {
            "has no item, or not as many as wanted, of the kind that it must contain".to_owned()
        }
        Kind::UniqueItems => UNIQUE.to_owned(),
        Kind::Custom { keyword, .. } if keyword == "uniqueItems" => UNIQUE.to_owned(),
        Kind::ContentEncoding { content_encoding } => {
            format!("is not valid {}", cut(content_encoding, KEY))
        }
        Kind::ContentMediaType { content_media_type } => {
            format!("is not valid {}", cut(content_media_type, KEY))
        }
        Kind::UnevaluatedItems { .. } => "has items that the schema does not know".to_owned(),
        Kind::RegexEngineFailure { .. } | Kind::BacktrackLimitExceeded { .. } => {
            "could not be matched against the schema's pattern".to_owned()
        }
        bound => bound_words(bound),
    }
}

const UNIQUE: &str = "has the same item twice; each may be there once";

/// The faults that come with a number.
fn bound_words(kind: &Kind) -> String {
    match kind {
        Kind::Minimum { limit } => format!("must be at least {}", cut(&limit.to_string(), KEY)),
        Kind::Maximum { limit } => format!("must be at most {}", cut(&limit.to_string(), KEY)),
        Kind::ExclusiveMinimum { limit } => {
            format!("must be more than {}", cut(&limit.to_string(), KEY))
        }
        Kind::ExclusiveMaximum { limit } => {
            format!("must be less than {}", cut(&limit.to_string(), KEY))
        }
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => {
            format!("is too short; at least {limit} characters are wanted")
        }
        Kind::MaxLength { limit } => format!("is too long; at most {limit} characters are taken"),
        Kind::MinItems { limit } => format!("has too few items; at least {limit} are wanted"),
        Kind::MaxItems { limit } => format!("has too many items; at most {limit} are taken"),
        Kind::AdditionalItems { limit } => format!("has too many items; at most {limit} are taken"),
        Kind::MinProperties { limit } => {
            format!("has too few properties; at least {limit} are wanted")
        }
        Kind::MaxProperties { limit } => {
            format!("has too many properties; at most {limit} are taken")
        }
        other => format!("does not fit {:?}", cut(other.keyword(), KEY)),
    }
}

fn type_words(kind: &TypeKind, instance: &Value) -> String {
    let wanted = match kind {
        TypeKind::Single(one) => article(*one).to_owned(),
        TypeKind::Multiple(several) => several.iter().map(article).collect::<Vec<_>>().join(" or "),
    };
    let is = match instance {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    format!("must be {wanted}; it is {is}")
}

fn article(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "an array",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}

fn property_names(error: &ValidationError<'_>) -> String {
    let name = error.instance().as_str().unwrap_or_default();
    format!(
        "has the property {:?}, whose name {}",
        cut(name, KEY),
        describe(error.kind(), error.instance())
    )
}

/// As many of `words` as fit a sentence.
fn list(words: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push_str(", ");
        }
        if text.len() + word.len() > QUOTE && !text.is_empty() {
            text.push('…');
            break;
        }
        text.push_str(&cut(&word, QUOTE));
    }
    text
}
