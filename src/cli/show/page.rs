//! The text that `show` prints: heads on the left, and what belongs to them beside them.

use crate::cli::output::clean;

/// How wide a head is.
const HEAD: usize = 10;
/// How many lines of one value are shown, unless all are.
const LINES: usize = 60;
/// How many characters of one line are shown, unless all are.
const CHARACTERS: usize = 500;

/// Text in the making. Nothing that others wrote gets into it unless it is cleaned.
pub(super) struct Page {
    text: String,
    indent: &'static str,
    full: bool,
    cut: bool,
}

impl Page {
    /// `full`: whatever is long is shown to its end.
    pub(super) fn new(full: bool) -> Self {
        Self {
            text: String::new(),
            indent: "",
            full,
            cut: false,
        }
    }

    /// A value on one line.
    pub(super) fn row(&mut self, head: &str, value: &str) {
        self.add(head, &clean(value));
    }

    /// Words of several lines.
    pub(super) fn words(&mut self, head: &str, text: &str) {
        let lines = text.lines().map(|line| clean(line).into_owned()).collect();
        self.block(head, lines);
    }

    /// JSON that is laid out, and safe to show.
    pub(super) fn json(&mut self, head: &str, laid_out: &str) {
        self.block(head, laid_out.lines().map(str::to_owned).collect());
    }

    /// A line that begins a part; what follows is indented beneath it.
    pub(super) fn part(&mut self, line: &str) {
        self.text.push_str(&format!("\n{line}\n"));
        self.indent = "  ";
    }

    pub(super) fn finish(mut self) -> String {
        if self.cut {
            self.text
                .push_str("\nlong values are cut, where it says so; --full shows all of them\n");
        }
        self.text
    }

    fn block(&mut self, head: &str, mut lines: Vec<String>) {
        let left = lines.len().saturating_sub(LINES);
        if !self.full {
            lines.truncate(LINES);
        }
        let mut head = head;
        for line in &lines {
            let long = line.char_indices().nth(CHARACTERS).filter(|_| !self.full);
            match long {
                Some((end, _)) => {
                    let more = line[end..].chars().count();
                    let note = format!("{}[cut: {more} more characters]", &line[..end]);
                    self.cut = true;
                    self.add(head, &note);
                }
                None => self.add(head, line),
            }
            head = "";
        }
        if left > 0 && !self.full {
            self.cut = true;
            self.add("", &format!("[cut: {left} more lines]"));
        }
    }

    fn add(&mut self, head: &str, line: &str) {
        let line = format!("{}{head:<HEAD$} {line}", self.indent);
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so() {
        let mut page = Page::new(false);
        page.words("long", &"a".repeat(502));
        page.json("many", &"x\n".repeat(61));
        let text = page.finish();
        assert!(
            text.contains("a[cut: 2 more characters]\nmany       x\n"),
            "{text}"
        );
        assert!(
            text.contains("           x\n           [cut: 1 more lines]\n"),
            "{text}"
        );
        assert!(text.ends_with("--full shows all of them\n"), "{text}");

        let mut page = Page::new(true);
        page.words("long", &"a".repeat(502));
        page.json("many", &"x\n".repeat(61));
        assert!(!page.finish().contains("cut"));
    }

    #[test]
    fn words_of_others_cannot_pass_for_a_head() {
        let mut page = Page::new(false);
        page.words("about", "one\ndecided    approved\r\u{1b}[2J");
        assert_eq!(
            page.finish(),
            "about      one\n           decided    approved\\r\\u{1b}[2J\n"
        );
    }
}
