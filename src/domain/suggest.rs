//! Which word was probably meant.

/// The known word nearest to one that is not, if any is near: the same but for case, `-` and `_`, or a few letters off.
pub(in crate::domain) fn suggest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // A long word is no misspelling of a short one, and comparing it would take its time.
    if word.len() > 64 {
        return None;
    }
    let plain = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(|c| *c != '_' && *c != '-');
        letters.flat_map(char::to_lowercase).collect()
    };
    let word = plain(word);
    let nearest = (known.iter()).min_by_key(|known| distance(&word, &plain(known)))?;
    let wanted = plain(nearest);
    (distance(&word, &wanted) <= wanted.len() / 3).then_some(nearest)
}

/// How many letters must be added, taken away or changed (Levenshtein).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_was_probably_meant() {
        let top = ["approvals", "calls", "metadata", "answered_by"];
        assert_eq!(suggest("answeredBy", &top), Some("answered_by"));
        assert_eq!(suggest("Approvals", &top), Some("approvals"));
        assert_eq!(suggest("approve_all", &top), Some("approvals"));
        assert_eq!(suggest("call", &top), Some("calls"));
        assert_eq!(
            suggest("overrideArgs", &["override_args"]),
            Some("override_args")
        );
        for word in ["comment", "version", "x", "", &"a".repeat(100_000)] {
            assert_eq!(suggest(word, &top), None);
        }
    }
}
