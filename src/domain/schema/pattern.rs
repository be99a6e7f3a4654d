//! What a pattern costs, told before the regex engine compiles it.
//!
//! The engine is linear in the text but not in the pattern: in the worst case each byte of an answer costs a step for each
//! place in the pattern that may match there, with its repetitions written out.

use regex_syntax::hir::{Class, Hir, HirKind};

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
}

/// Measures `pattern`, or says why it is not taken.
pub(super) fn measure(pattern: &str) -> Result<Measure, String> {
    if let Some(construct) = nonlinear(pattern) {
        return Err(format!(
            "holds {construct}, which cannot be checked in linear time; write the pattern without it"
        ));
    }
    let translated = jsonschema_regex::to_rust_regex(pattern)
        .map_err(|()| "is not a valid pattern".to_owned())?;
    let hir = regex_syntax::parse(&translated).map_err(|error| match error {
        regex_syntax::Error::Parse(e) => format!("is not a valid pattern: {}", e.kind()),
        regex_syntax::Error::Translate(e) => format!("is not a valid pattern: {}", e.kind()),
        _ => "is not a valid pattern".to_owned(),
    })?;
    let measure = of(&hir);
    if measure.size > MAX_SIZE {
        return Err(format!(
            "is a pattern of {} places with its repetitions written out; at most {MAX_SIZE} are taken",
            measure.size
        ));
    }
    Ok(measure)
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
            }
        }
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            let (one, times) = (of(&repetition.sub), u64::from(times.max(1)));
            Measure {
                width: one.width.saturating_mul(times).saturating_add(1),
                size: one.size.saturating_mul(times).saturating_add(1),
            }
        }
        HirKind::Capture(capture) => of(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(of).fold(flat(1), |sum, part| Measure {
                width: sum.width.saturating_add(part.width),
                size: sum.size.saturating_add(part.size),
            })
        }
    }
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
            let fault = measure(pattern).expect_err(pattern);
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
            let measure = measure(pattern).expect(pattern);
            assert!(measure.width <= most, "{pattern}: {measure:?}");
        }
    }
}
