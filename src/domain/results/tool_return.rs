//! What fits a `tool-return`, by the rules of Pydantic AI 2.68: a part that does not fit turns the whole result, tag and all, into a
//! value that the model is told, without an error. That is refused here instead.

use crate::domain::json::{Node, Reader};

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
        Some(value) => {
            if let Some(text) = value_misfit(value, member(members, "content_file_digests")) {
                fault(".return_value", text);
            }
        }
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

/// Why a value cannot stand in a `tool-return` with such a record of files.
pub(super) fn value_misfit(value: &str, digests: Option<&str>) -> Option<&'static str> {
    let special = special(value);
    // What the library recorded itself may be a file; which of the objects are is not worth a hash here.
    let recorded =
        matches!(digests.map(Node::of), Some(Node::Array(digests)) if !digests.is_empty());
    if special.binary {
        Some(BINARY)
    } else if special.odd_file && recorded {
        Some("holds a file whose `force_download` is neither true, false nor allow-local")
    } else {
        None
    }
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
    // Told at once for most values.
    if !value.trim_start().starts_with('{') || !may_hold_kinds(value) {
        return false;
    }
    match Node::of(value) {
        Node::Object(members) => {
            member(&members, "kind").is_some() || member(&members, "part_kind").is_some()
        }
        _ => false,
    }
}

/// Whether some key of a value may be `kind`, however it is written.
fn may_hold_kinds(value: &str) -> bool {
    value.contains("kind") || value.contains('\\')
}

/// Objects that the library does not take for data where they stand in a `tool-return`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Special {
    /// Base64 data of the kind `binary`, which undoes the whole result.
    pub(super) binary: bool,
    /// A link to a file, which may become one.
    pub(super) file: bool,
    /// A link whose `force_download` is neither a bool nor a word that is known: it undoes the result if it becomes a file.
    pub(super) odd_file: bool,
}

/// Looks for such objects anywhere in a value, in one pass.
pub(super) fn special(value: &str) -> Special {
    let mut found = Special::default();
    // Most values hold no object with a kind at all, and this tells at once.
    if may_hold_kinds(value) {
        look(&mut Reader::new(value), &mut found);
    }
    found
}

/// Its depth is bounded by the check of the text.
fn look(reader: &mut Reader<'_>, found: &mut Special) {
    match reader.peek() {
        b'{' => look_at_members(reader, found),
        b'[' => {
            reader.enter();
            while reader.more() {
                look(reader, found);
            }
        }
        b'"' => drop(reader.string()),
        _ => drop(reader.plain()),
    }
}

fn look_at_members(reader: &mut Reader<'_>, found: &mut Special) {
    let (mut binary, mut file, mut base64, mut odd) = (false, false, false, false);
    reader.enter();
    while reader.more() {
        let key = reader.key();
        match (key.as_ref(), reader.peek()) {
            ("kind", b'"') => {
                let kind = reader.string();
                binary = kind == "binary";
                file = FILES.contains(&kind.as_ref());
            }
            ("data", b'"') => base64 = is_base64(&reader.string()),
            ("force_download", b'"') => odd = reader.string() != "allow-local",
            ("force_download", b't' | b'f') => drop(reader.plain()),
            ("force_download", _) => {
                odd = true;
                look(reader, found);
            }
            _ => look(reader, found),
        }
    }
    found.binary |= binary && base64;
    found.file |= file;
    found.odd_file |= file && odd;
}

const FILES: [&str; 4] = ["image-url", "audio-url", "document-url", "video-url"];

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
        let binary = |text| special(text).binary;
        let file = |text| special(text).file;
        assert!(binary(
            r#"[{"a":{"k\u0069nd":"b\u0069nary","data":"AAAA"}}]"#
        ));
        assert!(!binary(r#"{"kind":"binary","data":"A"}"#));
        assert!(file(r#"{"a":[{"kind":"image-url"}]}"#));
        assert!(!file(r#""image-url kind""#));
        assert!(looks_tagged(r#"{"part_kind":1}"#) && !looks_tagged(r#"[{"kind":1}]"#));
    }
}
