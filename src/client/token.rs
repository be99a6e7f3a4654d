//! The token, as clients hold it.

use std::fmt;

/// The bearer credential of one wait. A secret: whoever holds it can answer.
///
/// `Debug` shows nothing of it and there is no `Display`, so it cannot slip into a log. The client does not check it: the
/// broker refuses one that it did not give out.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes the text of a token, as it was handed on.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to hand to whoever may answer. Never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_part_of_a_token() {
        let shown = format!("{:?}", Token::new("abey_AQGT0Zlq"));
        assert_eq!(shown, "Token(hidden)");
    }
}
