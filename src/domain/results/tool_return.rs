//! What fits a `tool-return`, by the rules of Pydantic AI 2.68: a part that does not fit turns the whole result, tag and all, into a
//! value that the model is told, without an error. That is refused here instead.

use crate::domain::json::Node;

type Member<'a> = (std::borrow::Cow<'a, str>, &'a str);

/// A fault within a result: where, behind the result's own path, and what.
pub(super) type Misfit = (String, String);

/// The value of a member, if it is there.
pub(super) fn member<'a>(members: &[Member<'a>], name: &str) -> Option<&'a str> {
    members.iter().find(|(key, _)| key == name).map(|(_, v)| *v)
}

/// Finds every part of an object with the tag `tool-return` that does not fit.
pub(super) fn misfits(members: &[Member<'_>]) -> Vec<Misfit> {
    let mut found = Vec::new();
    let mut fault = |path: &str, text: &str| found.push((path.to_owned(), text.to_owned()));
    match member(members, "return_value") {
        None => fault(
            ".return_value",
            "is required in a tool-return; it may be null",
        ),
        Some(value) if has_binary(value) => fault(".return_value", BINARY),
        Some(_) => {}
    }
    match member(members, "tools").map(Node::of) {
        None | Some(Node::Null) => {}
        Some(Node::Array(tools)) if tools.iter().all(|tool| is_string(tool)) => {}
        Some(_) => fault(".tools", "must be an array of strings, or null"),
    }
    match member(members, "content_file_digests").map(Node::of) {
        Some(Node::Array(digests)) if !digests.iter().all(|digest| is_string(digest)) => {
            fault(".content_file_digests", "must be an array of strings");
        }
        _ => {}
    }
    if let Some(content) = member(members, "content") {
        found.extend(
            content_misfits(content)
                .into_iter()
                .map(|(path, text)| (format!(".content{path}"), text)),
        );
    }
    found
}

/// What is said of binary data, which only a URL can carry through JSON.
pub(super) const BINARY: &str =
    "holds binary data, which the library does not take back from JSON here; give a URL instead";

/// Finds what does not fit as the content of a `tool-return`.
pub(super) fn content_misfits(content: &str) -> Vec<Misfit> {
    match Node::of(content) {
        Node::Null | Node::String(_) => Vec::new(),
        Node::Array(items) => {
            let mut found = Vec::new();
            for (at, item) in items.iter().enumerate() {
                if let Err(text) = content_item(item) {
                    found.push((format!("[{at}]"), text.to_owned()));
                }
            }
            found
        }
        _ => vec![(
            String::new(),
            "must be a string, an array, or null".to_owned(),
        )],
    }
}

const PROVIDERS: [&str; 8] = [
    "anthropic",
    "openai",
    "google",
    "google-cloud",
    "google-gla",
    "google-vertex",
    "bedrock",
    "xai",
];

fn content_item(item: &str) -> Result<(), &'static str> {
    let members = match Node::of(item) {
        Node::String(_) => return Ok(()),
        Node::Object(members) => members,
        _ => return Err("must be a string or an object"),
    };
    let fits = |name: &str, check: fn(&str) -> bool| member(&members, name).is_none_or(check);
    // The library reads its own private names, too, where the plain ones are not there.
    let either = |name: &str, private: &str| {
        let given = member(&members, name).or_else(|| member(&members, private));
        given.is_none_or(is_string_or_null)
    };
    let file = either("media_type", "_media_type")
        && either("identifier", "_identifier")
        && fits("vendor_metadata", is_object_or_null);
    let Some(kind) = member(&members, "kind") else {
        // Without a kind the library tries these in turn.
        let fits = text_content(&members) || structured(&members) || cache_point(&members);
        return if fits {
            Ok(())
        } else {
            Err("must have a `kind`, such as text-content")
        };
    };
    let Node::String(kind) = Node::of(kind) else {
        return Err("must have a `kind` that is a string");
    };
    let (taken, fault) = match kind.as_ref() {
        "image-url" | "audio-url" | "document-url" | "video-url" => (
            member(&members, "url").is_some_and(is_string)
                && file
                && fits("force_download", |v| {
                    matches!(Node::of(v), Node::Bool(_)) || is_one_of(v, &["allow-local"])
                }),
            "does not fit: `url` must be a string, `media_type` and `identifier` strings, `force_download` true, false or allow-local",
        ),
        "uploaded-file" => (
            member(&members, "file_id").is_some_and(is_string)
                && member(&members, "provider_name").is_some_and(|v| is_one_of(v, &PROVIDERS))
                && file,
            "does not fit: `file_id` must be a string and `provider_name` a provider that the library knows",
        ),
        "cache-point" => (
            cache_point(&members),
            "does not fit: `ttl` must be 5m or 1h",
        ),
        "text-content" => (
            text_content(&members),
            "does not fit: `content` must be a string",
        ),
        "structured-content" => (
            structured(&members),
            "does not fit: `value` is required, `content`, `tag` and `description` are strings, `format` is json or xml",
        ),
        "binary" => (false, BINARY),
        _ => (false, "has a `kind` that is no part of a tool's content"),
    };
    if taken { Ok(()) } else { Err(fault) }
}

fn text_content(members: &[Member<'_>]) -> bool {
    member(members, "content").is_some_and(is_string)
}

fn cache_point(members: &[Member<'_>]) -> bool {
    member(members, "ttl").is_none_or(|v| is_one_of(v, &["5m", "1h"]))
}

fn structured(members: &[Member<'_>]) -> bool {
    let fits = |name: &str, check: fn(&str) -> bool| member(members, name).is_none_or(check);
    let format = |v: &str| matches!(Node::of(v), Node::Null) || is_one_of(v, &["json", "xml"]);
    let Some(value) = member(members, "value") else {
        return false;
    };
    let fields = fits("content", is_string)
        && fits("tag", is_string_or_null)
        && fits("description", is_string_or_null)
        && fits("format", format);
    let written_out = member(members, "content").is_some_and(|v| !is_one_of(v, &[""]));
    fields && (written_out || renders(members, value))
}

/// Whether the library can write the value out itself, where no `content` does.
fn renders(members: &[Member<'_>], value: &str) -> bool {
    let given = |name: &str| match member(members, name).map(Node::of) {
        Some(Node::String(text)) => Some(text),
        _ => None,
    };
    let is_name = |tag: &str| {
        let mut chars = tag.chars();
        chars
            .next()
            .is_some_and(|c| c.is_ascii_lowercase() || c == '_')
            && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let tag = given("tag");
    let tag_fits = (tag.as_deref()).is_none_or(|tag| is_name(tag) && !RESERVED_TAGS.contains(&tag));
    let empty = match Node::of(value) {
        Node::Object(members) => members.is_empty(),
        Node::Array(items) => items.is_empty(),
        _ => false,
    };
    let xml = given("format").as_deref() == Some("xml");
    tag_fits && !(xml && empty && tag.is_none() && given("description").is_none())
}

const RESERVED_TAGS: [&str; 8] = [
    "assistant_thinking",
    "context",
    "context_diff",
    "conversation_summary",
    "retry_feedback",
    "system",
    "tool_result",
    "validation_errors",
];

/// Whether the library would read a retry from an object with the tag `retry-prompt`, and the text of it.
pub(super) fn retry_prompt(members: &[Member<'_>]) -> Option<String> {
    let fits = |name: &str, check: fn(&str) -> bool| member(members, name).is_none_or(check);
    let fitting = fits("tool_name", is_string_or_null)
        && fits("tool_call_id", is_string)
        && fits("part_kind", |v| is_one_of(v, &["retry-prompt"]))
        && member(members, "timestamp").is_none();
    match Node::of(member(members, "content")?) {
        Node::String(text) if fitting => Some(text.into_owned()),
        // A list of no errors.
        Node::Array(errors) if fitting && errors.is_empty() => Some(String::new()),
        _ => None,
    }
}

/// Whether a value is an object with a tag, which the library may take for something else than data.
pub(super) fn looks_tagged(value: &str) -> bool {
    match Node::of(value) {
        Node::Object(members) => {
            member(&members, "kind").is_some() || member(&members, "part_kind").is_some()
        }
        _ => false,
    }
}

/// Whether an object with base64 data of the kind `binary` stands anywhere in a value.
pub(super) fn has_binary(value: &str) -> bool {
    anywhere(value, &|members| {
        member(members, "kind").is_some_and(|kind| is_one_of(kind, &["binary"]))
            && member(members, "data").is_some_and(|data| match Node::of(data) {
                Node::String(data) => is_base64(&data),
                _ => false,
            })
    })
}

/// Whether an object stands anywhere in a value that the library makes a file of within a `tool-return`.
pub(super) fn has_file(value: &str) -> bool {
    const FILES: [&str; 4] = ["image-url", "audio-url", "document-url", "video-url"];
    anywhere(value, &|members| {
        member(members, "kind").is_some_and(|kind| is_one_of(kind, &FILES))
    })
}

/// Whether an object that is sought stands anywhere in a value. Its depth is bounded by the check of the text.
fn anywhere(value: &str, sought: &dyn Fn(&[Member<'_>]) -> bool) -> bool {
    // Most values hold no object with a kind at all, and this tells at once.
    if !value.contains("kind") && !value.contains('\\') {
        return false;
    }
    match Node::of(value) {
        Node::Array(items) => items.iter().any(|item| anywhere(item, sought)),
        Node::Object(members) => {
            sought(&members) || members.iter().any(|(_, v)| anywhere(v, sought))
        }
        _ => false,
    }
}

/// Base64 as the library takes it: of one alphabet, padded or not, with no bits to spare.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let standard = body
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    let url_safe = body
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let value = |b: u8| match b {
        b'A'..=b'Z' => b - b'A',
        b'a'..=b'z' => b - b'a' + 26,
        b'0'..=b'9' => b - b'0' + 52,
        b'+' | b'-' => 62,
        _ => 63,
    };
    let last = body.bytes().last().map_or(0, value);
    let (most, spare) = match body.len() % 4 {
        0 => (0, 0),
        2 => (2, last & 0b1111),
        3 => (1, last & 0b11),
        _ => return false,
    };
    (standard || url_safe) && padding <= most && spare == 0
}

pub(super) fn is_string(value: &str) -> bool {
    matches!(Node::of(value), Node::String(_))
}

fn is_string_or_null(value: &str) -> bool {
    matches!(Node::of(value), Node::String(_) | Node::Null)
}

fn is_object_or_null(value: &str) -> bool {
    matches!(Node::of(value), Node::Object(_) | Node::Null)
}

fn is_one_of(value: &str, texts: &[&str]) -> bool {
    match Node::of(value) {
        Node::String(text) => texts.contains(&text.as_ref()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_the_library_takes() {
        for text in [
            "", "AAAA", "QQ", "QQ==", "QQ=", "aGk", "aGk=", "-_-_", "+/+/",
        ] {
            assert!(is_base64(text), "{text}");
        }
        for text in [
            "A", "QR==", "aGl", "+_AA", "AA AA", "AAAA=", "aGk==", "QQ\n",
        ] {
            assert!(!is_base64(text), "{text}");
        }
    }

    #[test]
    fn a_file_by_its_private_names_is_held_to_their_types() {
        for (members, fits) in [
            (r#""_media_type":"image/png","_identifier":null"#, true),
            (r#""media_type":null,"_media_type":5"#, true),
            (r#""identifier":"a","_identifier":{}"#, true),
            (r#""_media_type":5"#, false),
            (r#""_identifier":["a"]"#, false),
        ] {
            for file in [
                r#""kind":"image-url","url":"u""#,
                r#""kind":"uploaded-file","file_id":"f","provider_name":"openai""#,
            ] {
                let content = format!("[{{{file},{members}}}]");
                let found = content_misfits(&content);
                assert_eq!(found.is_empty(), fits, "{content}: {found:?}");
            }
        }
    }

    #[test]
    fn tags_and_files_are_found_however_they_are_written() {
        assert!(has_binary(
            r#"[{"a":{"k\u0069nd":"b\u0069nary","data":"AAAA"}}]"#
        ));
        assert!(!has_binary(r#"{"kind":"binary","data":"A"}"#));
        assert!(has_file(r#"{"a":[{"kind":"image-url"}]}"#));
        assert!(!has_file(r#""image-url kind""#));
        assert!(looks_tagged(r#"{"part_kind":1}"#) && !looks_tagged(r#"[{"kind":1}]"#));
    }
}
