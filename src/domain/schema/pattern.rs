//! What a pattern costs, told before the regex engine compiles it.
//!
//! The engine is linear in the text but not in the pattern: in the worst case each byte of an answer costs a step for each
//! place in the pattern that may match there, with its repetitions written out.

use std::collections::HashMap;

use regex_syntax::hir::{Class, Hir, HirKind};

/// The longest text of a pattern, in bytes.
const MAX_TEXT: usize = 16 << 10;

/// The most classes that a pattern may name by a property, as `\p{L}` does. Each is a list of some hundred ranges.
const MAX_PROPERTIES: usize = 64;

/// The most classes of a pattern that minds no case: each is folded character by character, which takes half a millisecond.
const MAX_FOLDED: usize = 64;

/// The largest a pattern may be, in places, with its repetitions written out.
pub(super) const MAX_SIZE: u64 = 20_000;

/// The same for all patterns of a schema together.
pub(super) const MAX_TOTAL: u64 = 100_000;

/// How large a pattern is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measure {
    /// Places that may match at once, which bounds the time for one byte of text.
    pub(super) width: u64,
    /// Places in all, which bounds the time and memory of compiling.
    pub(super) size: u64,
    /// Groups that capture, with their repetitions as one.
    pub(super) groups: u64,
    /// Ways that may be left for later between two characters of the text, with repetitions written out.
    pub(super) branches: u64,
}

/// The patterns of a schema, each measured once.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    known: HashMap<String, Result<Measure, String>>,
    /// Places of all that were measured, also of those that were then not taken.
    parsed: u64,
}

impl Patterns {
    /// Measures `pattern`, or says why it is not taken.
    pub(super) fn measure(&mut self, pattern: &str) -> Result<Measure, String> {
        if let Some(known) = self.known.get(pattern) {
            return known.clone();
        }
        // To measure takes time as well, so it ends where the schema is refused in any case.
        if self.parsed > MAX_TOTAL {
            return Err(format!(
                "is beyond the {MAX_TOTAL} places that all patterns may have together"
            ));
        }
        let (measure, places) = measure(pattern);
        self.parsed = self.parsed.saturating_add(places);
        self.known.insert(pattern.to_owned(), measure.clone());
        measure
    }

    /// Those that are taken. The engine compiles each once, wherever it stands.
    pub(super) fn taken(&self) -> impl Iterator<Item = Measure> {
        self.known.values().filter_map(|known| known.clone().ok())
    }
}

/// Measures `pattern`, or says why it is not taken; and tells how many places were looked at.
fn measure(pattern: &str) -> (Result<Measure, String>, u64) {
    let hir = match parse(pattern) {
        Ok(hir) => hir,
        Err(fault) => return (Err(fault), pattern.len() as u64),
    };
    let measure = of(&hir);
    if measure.size <= MAX_SIZE {
        return (Ok(measure), measure.size);
    }
    let fault = format!(
        "is a pattern of {} places with its repetitions written out; at most {MAX_SIZE} are taken",
        measure.size
    );
    (Err(fault), measure.size)
}

fn parse(pattern: &str) -> Result<Hir, String> {
    if pattern.len() > MAX_TEXT {
        return Err(format!(
            "is a pattern of {} bytes; at most {MAX_TEXT} are taken",
            pattern.len()
        ));
    }
    if let Some(construct) = nonlinear(pattern) {
        return Err(format!(
            "holds {construct}, which cannot be checked in linear time; write the pattern without it"
        ));
    }
    let translated = jsonschema_regex::to_rust_regex(pattern)
        .map_err(|()| "is not a valid pattern".to_owned())?;
    check_classes(&translated)?;
    regex_syntax::parse(&translated).map_err(|error| match error {
        regex_syntax::Error::Parse(e) => format!("is not a valid pattern: {}", e.kind()),
        regex_syntax::Error::Translate(e) => format!("is not a valid pattern: {}", e.kind()),
        _ => "is not a valid pattern".to_owned(),
    })
}

/// Bounds the work and the memory of the parser, which writes every class out before anybody can count its ranges.
fn check_classes(pattern: &str) -> Result<(), String> {
    let properties = pattern.matches("\\p").count() + pattern.matches("\\P").count();
    if properties > MAX_PROPERTIES {
        return Err(format!(
            "names {properties} classes by their properties; at most {MAX_PROPERTIES} are taken"
        ));
    }
    if !minds_no_case(pattern) {
        return Ok(());
    }
    let other = pattern.matches(['[', '.']).count();
    let escapes = pattern.matches('\\').count();
    let classes = other + escapes;
    if classes > MAX_FOLDED {
        return Err(format!(
            "minds no case and has {classes} classes and escapes; at most {MAX_FOLDED} are taken with it"
        ));
    }
    Ok(())
}

/// Whether a group sets the flag `i`. It may find one where there is none, as in a class, and never the other way.
pub(super) fn minds_no_case(pattern: &str) -> bool {
    pattern.split("(?").skip(1).any(|flags| {
        let flags = flags.split(|c: char| !c.is_ascii_alphabetic() && c != '-');
        flags.into_iter().next().is_some_and(|f| f.contains('i'))
    })
}

/// Finds look-around and back-references. The engine would refuse most of them too, but not in words.
fn nonlinear(pattern: &str) -> Option<&'static str> {
    let bytes = pattern.as_bytes();
    let (mut at, mut in_class) = (0, false);
    while at < bytes.len() {
        let rest = &bytes[at..];
        match rest {
            [b'\\', b'1'..=b'9', ..] if !in_class => return Some("a back-reference"),
            [b'\\', b'k', b'<', ..] if !in_class => return Some("a back-reference"),
            [b'\\', ..] => at += 1,
            [b'[', ..] => in_class = true,
            [b']', ..] => in_class = false,
            [b'(', b'?', b'=' | b'!', ..] | [b'(', b'?', b'<', b'=' | b'!', ..] if !in_class => {
                return Some("look-around");
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The parser bounds how deep a pattern nests, and so this recursion.
fn of(hir: &Hir) -> Measure {
    let flat = |n: usize| Measure {
        width: n as u64,
        size: n as u64,
        groups: 0,
        branches: 0,
    };
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => flat(1),
        HirKind::Literal(literal) => flat(literal.0.len()),
        HirKind::Class(class) => {
            let ranges = match class {
                Class::Unicode(class) => class.ranges().len(),
                Class::Bytes(class) => class.ranges().len(),
            };
            // A character is at most four bytes, and within a class one path of them is followed at a time.
            Measure {
                width: ranges.clamp(1, 4) as u64,
                size: 1 + ranges as u64,
                ..flat(0)
            }
        }
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            let (one, times) = (of(&repetition.sub), u64::from(times.max(1)));
            Measure {
                width: one.width.saturating_mul(times).saturating_add(1),
                size: one.size.saturating_mul(times).saturating_add(1),
                groups: one.groups,
                branches: if nullable(&repetition.sub) {
                    one.branches.saturating_add(1).saturating_mul(times)
                } else {
                    // The end of one and the beginning of the next.
                    one.branches.saturating_mul(2).saturating_add(1)
                },
            }
        }
        HirKind::Capture(capture) => {
            let one = of(&capture.sub);
            Measure {
                // Where it begins and where it ends.
                size: one.size.saturating_add(2),
                groups: one.groups.saturating_add(1),
                ..one
            }
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            let ways = match hir.kind() {
                HirKind::Alternation(_) => parts.len() as u64,
                _ => 0,
            };
            let (mut sum, mut most, mut row) = (flat(1), 0, 0_u64);
            for part in parts {
                let one = of(part);
                sum = Measure {
                    width: sum.width.saturating_add(one.width),
                    size: sum.size.saturating_add(one.size),
                    groups: sum.groups.saturating_add(one.groups),
                    branches: 0,
                };
                // In a row: what must match a character, all behind it that need not, and what must again.
                row = row.saturating_add(one.branches);
                most = most.max(row);
                if ways > 0 {
                    row = 0;
                } else if !nullable(part) {
                    row = one.branches;
                }
            }
            Measure {
                branches: most.saturating_add(ways),
                ..sum
            }
        }
    }
}

/// Whether it matches no text at all.
fn nullable(hir: &Hir) -> bool {
    hir.properties()
        .minimum_len()
        .is_none_or(|least| least == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_around_and_back_references_are_named() {
        for (pattern, word) in [
            ("(?=a)b", "look-around"),
            ("^(?=a)b", "look-around"),
            ("(?!a)b", "look-around"),
            ("(?<=a)b", "look-around"),
            ("(?<!a)b", "look-around"),
            (r"^((a|a)+)\1b$", "back-reference"),
            (r"(?<n>a)\k<n>", "back-reference"),
            ("(", "not a valid pattern"),
            ("(a{1,1000}){1,1000}", "at most 20000"),
        ] {
            let fault = measure(pattern).0.expect_err(pattern);
            assert!(fault.contains(word), "{pattern}: {fault}");
        }
    }

    #[test]
    fn linear_patterns_are_measured() {
        for (pattern, most) in [
            ("^(a+)+$", 20),
            (r"^[a-z]{1,64}$", 70),
            (r"[(?=]\\1", 10),
            (r"^\d{4}-\d{2}$", 20),
            (r"^[\p{L} '-]{1,20}$", 100),
        ] {
            let measure = measure(pattern).0.expect(pattern);
            assert!(measure.width <= most, "{pattern}: {measure:?}");
        }
    }

    #[test]
    fn what_takes_long_to_parse_is_refused_unparsed() {
        for (pattern, word) in [
            (r"\p{L}".repeat(65), "65 classes by their properties"),
            (r"\pL".repeat(4_000), "4000 classes by their properties"),
            (format!("(?i){}", "[^a]".repeat(65)), "minds no case"),
            (format!("(?s-mi:{})", ".".repeat(65)), "minds no case"),
            ("a".repeat(MAX_TEXT + 1), "is a pattern of 16385 bytes"),
        ] {
            let fault = measure(&pattern).0.expect_err(&pattern);
            assert!(fault.contains(word), "{fault}");
        }
        for pattern in [
            r"^(?i)[a-z]+\.[\p{L}]$".to_owned(),
            format!("(?<times>{})", "[^a]".repeat(65)),
            r"\p{L}".repeat(20),
        ] {
            measure(&pattern).0.expect(&pattern);
        }
    }

    #[test]
    fn measuring_ends_where_the_schema_is_refused() {
        let mut patterns = Patterns::default();
        for at in 0..6 {
            let pattern = format!("a{{1,18000}}{at}");
            patterns.measure(&pattern).expect("a pattern");
            patterns.measure(&pattern).expect("counted once");
        }
        assert_eq!(patterns.taken().count(), 6);
        let fault = patterns.measure("a").expect_err("no more");
        assert!(fault.contains("all patterns"), "{fault}");
    }
}
