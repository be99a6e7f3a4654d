//! Writing to stdout and stderr.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, Write},
};

use super::{
    exit::{self, Failure},
    input::PREFIX,
};

/// Writes to stdout and flushes.
pub(super) fn stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe => Failure::quiet(exit::OUTPUT),
            _ => Failure::new(exit::OUTPUT, format!("error: cannot write the output: {e}")),
        })
}

/// Writes a line to stdout.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    stdout(format!("{text}\n").as_bytes())
}

/// Writes one JSON object on a line of its own.
pub(super) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    // The types that are written here have string keys and no other fallible parts.
    let text = serde_json::to_string(value)
        .map_err(|e| Failure::new(exit::OUTPUT, format!("error: cannot write JSON: {e}")))?;
    line(&text)
}

/// A reader that has seen enough, such as `head`, is no failure of a list.
pub(super) fn until_reader_leaves(result: Result<(), Failure>) -> Result<(), Failure> {
    match result {
        Err(failure) if failure.code() == exit::OUTPUT && failure.is_quiet() => Ok(()),
        result => result,
    }
}

/// Tells people something, on stderr. If nobody reads it, so be it.
pub(super) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// What others wrote, made safe to show on a terminal: control characters, which could rewrite the screen, as escapes.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

/// JSON as [`clean`] makes text: still the same JSON, with what could rewrite the screen as escapes. White space between its tokens
/// stays.
pub(super) fn for_terminal(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unsafe(c) && !c.is_ascii_whitespace() {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Controls, and the marks that break lines or turn the direction of what follows. All are below U+10000.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// The id of a tool call, or a tool's name, such that no two look alike: as it is if it has nothing but visible characters of ASCII, else in quotes and
/// with escapes for everything else.
pub(super) fn id(id: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    if !id.is_empty() && id.chars().all(is_plain) {
        return Cow::Borrowed(id);
    }
    let mut shown = String::from('"');
    for c in id.chars() {
        match c {
            '"' | '\\' => shown.extend(['\\', c]),
            ' '..='~' => shown.push(c),
            // Not as `clean` does it, which leaves what can be shown.
            _ => shown.extend(c.escape_unicode()),
        }
    }
    shown.push('"');
    Cow::Owned(shown)
}

/// Text of whoever reads it, such as the name of a file, as one word of a shell command.
pub(super) fn quoted(text: &str) -> String {
    if text.chars().any(is_unsafe) {
        return escaped(text);
    }
    // zsh takes a word that begins with `=` for the name of a program.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('=') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The id of a tool call as one word of a shell command, which is exactly this id however it looks.
pub(super) fn quoted_id(id: &str) -> String {
    let is_printed = id.chars().all(|c| matches!(c, ' '..='~'));
    if !is_printed || id.starts_with(' ') || id.ends_with(' ') {
        return escaped(id);
    }
    quoted(id)
}

/// Text as a word of bash and zsh with an escape for each byte that is not plain. Bytes, since what `\u` means depends on the locale.
fn escaped(text: &str) -> String {
    let mut word = String::from("$'");
    let last = text.len().saturating_sub(1);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b' ' if at > 0 && at < last => word.push(' '),
            b'\'' | b'\\' | b'!' => word.push_str(&format!("\\x{byte:02x}")),
            byte if byte.is_ascii_graphic() => word.push(byte.into()),
            _ => word.push_str(&format!("\\x{byte:02x}")),
        }
    }
    word.push('\'');
    word
}

pub(super) fn is_base64url(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// The text with a mark in place of whatever may be a token, even one that was cut.
pub(super) fn without_tokens(text: &str) -> String {
    mask(text, 0)
}

/// The text with a mark in place of what would give a token away. The first half of a token is no secret, so that the ids of calls
/// may begin as tokens do.
pub(super) fn without_secrets(text: &str) -> String {
    mask(text, 23)
}

/// Masks what follows the beginning of a token, where it has at least so many characters.
fn mask(text: &str, least: usize) -> String {
    let mut parts = text.split(PREFIX);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(PREFIX);
        let rest = part.trim_start_matches(is_base64url);
        if part.len() - rest.len() < least {
            shown.push_str(part);
        } else {
            shown.extend(["…", rest]);
        }
    }
    shown
}

/// Rows under a head, in columns as wide as their widest cell, two spaces apart. The last column is not padded.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut add = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    add(&mut head.iter().copied());
    for row in rows {
        add(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_without_trailing_spaces() {
        let rows = [
            vec!["a".to_owned(), "längere".to_owned(), String::new()],
            vec!["bbb".to_owned(), "c".to_owned(), "d".to_owned()],
        ];
        assert_eq!(
            table(&["X", "YY", "Z"], &rows),
            "X    YY       Z\na    längere\nbbb  c        d\n"
        );
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("order-4711"), "order-4711");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("=ls"), "'=ls'");
        assert_eq!(quoted("é"), "'é'");
        assert_eq!(quoted("a\nb"), r"$'a\x0ab'");
        assert_eq!(quoted_id("a b"), "'a b'");
        assert_eq!(quoted_id("\u{200b}a b "), r"$'\xe2\x80\x8ba b\x20'");
    }

    #[test]
    fn no_two_ids_look_alike() {
        let ids = [
            "call_1",
            "it's",
            "a b",
            "a ",
            "a",
            " a",
            "\u{202e}x",
            "\\u{202e}x",
            "\"\\u{202e}x\"",
            "\u{200b}x",
            "x",
            "\u{e9}",
            "e\u{301}",
            "\u{430}",
            "\u{1f600}",
            "\\",
            "\\\\",
            "\"",
        ];
        let all: std::collections::BTreeSet<_> = ids.iter().map(|text| id(text)).collect();
        assert_eq!(all.len(), ids.len(), "{all:?}");
        for shown in all {
            assert!(shown.bytes().all(|b| matches!(b, b' '..=b'~')), "{shown}");
        }
        assert_eq!(id("call_1"), "call_1");
        assert_eq!(id("\u{202e}x"), r#""\u{202e}x""#);
        assert_eq!(id("\\u{202e}x"), r#""\\u{202e}x""#);
    }

    #[test]
    fn no_token_is_left_in_a_text() {
        assert_eq!(
            without_tokens("unexpected 'abey_A-b_9' and abey_Zz, found"),
            "unexpected 'abey_…' and abey_…, found"
        );
        assert_eq!(without_tokens("unexpected '-x'"), "unexpected '-x'");
        let token = format!("abey_{}", "A-b_".repeat(11));
        assert_eq!(
            without_secrets(&format!("by {token}, abey_call_1 begins with abey_")),
            "by abey_…, abey_call_1 begins with abey_"
        );
    }

    #[test]
    fn a_terminal_gets_the_same_value_and_no_control() {
        let json = "{\n  \"a\": \"\u{9b}31m\u{7f}\u{202e}\u{2028}é\"\n}";
        let safe = for_terminal(json);
        assert_eq!(safe, "{\n  \"a\": \"\\u009b31m\\u007f\\u202e\\u2028é\"\n}");
        let value = |text| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(json), value(&safe));
    }

    #[test]
    fn nothing_that_others_wrote_can_rewrite_the_screen() {
        assert_eq!(
            clean("no budget \u{2014} ask Eve"),
            "no budget \u{2014} ask Eve"
        );
        assert_eq!(clean("a\u{1b}[2Jb\rc\u{9b}d"), "a\\u{1b}[2Jb\\rc\\u{9b}d");
        assert_eq!(clean("\u{202e}evil"), "\\u{202e}evil");
    }
}
