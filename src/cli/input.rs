//! Tokens and JSON: where they come from.

use std::{
    convert::Infallible,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::Args;
use serde::de::IgnoredAny;

use super::{
    exit::{self, Failure},
    output,
};
use crate::client::{Error, Token};

/// What every token begins with.
pub(super) const PREFIX: &str = "abey_";
/// How many characters of base64url follow.
const TOKEN_CHARACTERS: usize = 44;
/// Holds the token where the command line names none.
pub(super) const TOKEN_VARIABLE: &str = "ABEYANCE_TOKEN";

/// What help says of tokens.
pub(super) const TOKEN_HELP: &str = "\
The token: a first argument that begins with abey_ is the token. Without one it is read from --token-file, else from the \
environment variable ABEYANCE_TOKEN; both keep it from other users of the machine, who can see arguments.";

/// What help says besides where calls follow the token.
pub(super) const CALL_HELP: &str = "\
With the token elsewhere, a first argument that begins so and is not whole (abey_ and 44 characters) is the id of a call.";

/// Whether a text has the form of a token.
pub(super) fn is_token(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|rest| {
        rest.len() == TOKEN_CHARACTERS && rest.chars().all(output::is_base64url)
    })
}

/// What the arguments of a command say.
pub(super) struct Given {
    pub(super) token: Token,
    /// Whether the token is one of them.
    pub(super) is_argument: bool,
    /// Those behind the token.
    pub(super) rest: Vec<String>,
}

/// JSON text, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum JsonSource {
    /// The text itself.
    Text(String),
    /// `@FILE`.
    File(PathBuf),
    /// `-`.
    Stdin,
}

/// Answers may be secret, and clap shows what it parsed in its errors' debug form.
impl std::fmt::Debug for JsonSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text(..)",
            Self::File(_) => "File(..)",
            Self::Stdin => "Stdin",
        })
    }
}

impl FromStr for JsonSource {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "-" => Self::Stdin,
            _ => match text.strip_prefix('@') {
                Some(path) => Self::File(path.into()),
                None => Self::Text(text.to_owned()),
            },
        })
    }
}

impl JsonSource {
    /// The text, byte for byte: whether it is JSON is for the broker to say.
    pub(super) fn read(&self) -> Result<String, Failure> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => read_file(path),
            Self::Stdin => read_stdin(),
        }
    }

    /// Adds to a failure what to do about this text, if the broker refused it as no JSON and that can be guessed.
    pub(super) fn explain(&self, failure: Failure, error: &Error) -> Failure {
        // Among decisions on tool calls it is one fault of the answer.
        match (error.reason(), self.hint()) {
            (Some("INVALID_JSON" | "INVALID_ANSWER"), Some(hint)) => failure.and(hint),
            _ => failure,
        }
    }

    fn hint(&self) -> Option<String> {
        let Self::Text(text) = self else { return None };
        let bare = !text.is_empty()
            && text.chars().count() <= 60
            && !text.starts_with(['{', '[', '"', '\''])
            && !text.contains('\'')
            && !text.chars().any(char::is_control)
            && serde_json::from_str::<IgnoredAny>(text).is_err();
        bare.then(|| {
            let quoted = serde_json::Value::from(output::without_tokens(text));
            format!("hint: JSON text is in double quotes, and the shell takes those away; write '{quoted}'")
        })
    }
}

/// Where the token is.
#[derive(Debug, Args)]
pub(super) struct TokenFile {
    /// Read the token from this file, or from stdin with `-`
    #[arg(long, value_name = "FILE|-")]
    pub(super) token_file: Option<PathBuf>,
}

impl TokenFile {
    /// Splits `arguments` into the token and the rest, by the rules of [`TOKEN_HELP`].
    pub(super) fn split(&self, arguments: Vec<String>) -> Result<Given, Failure> {
        let mut arguments = arguments.into_iter().peekable();
        // White space around it was caught when it was copied.
        let argument = arguments.next_if(|first| first.trim().starts_with(PREFIX));
        let is_argument = argument.is_some();
        let token = match argument {
            Some(token) => Token::new(token.trim()),
            None => match (self.elsewhere()?, arguments.peek()) {
                (Some(token), _) => token,
                (None, None) => return Err(no_token()),
                (None, Some(first)) => return Err(not_a_token(first)),
            },
        };
        Ok(Given {
            token,
            is_argument,
            rest: arguments.collect(),
        })
    }

    /// As [`TokenFile::split`] where ids of calls follow the token, and may begin as a token does. One that comes first is an id if
    /// the token is elsewhere; unless it has the whole form of a token.
    pub(super) fn split_calls(&self, arguments: Vec<String>) -> Result<Given, Failure> {
        let first = arguments.first().map_or("", |first| first.trim());
        if is_token(first) && self.token_file.is_some() {
            return Err(Failure::usage(
                "--token-file names a token, and the first argument has the form of one; if it is the id of a call, give the \
                 token before it, and not by --token-file",
            ));
        }
        if first.starts_with(PREFIX)
            && !is_token(first)
            && let Some(token) = self.elsewhere()?
        {
            return Ok(Given {
                token,
                is_argument: false,
                rest: arguments,
            });
        }
        self.split(arguments)
    }

    /// As [`TokenFile::split`] for a command that takes nothing but the token.
    pub(super) fn only(&self, argument: Option<String>) -> Result<Token, Failure> {
        let given = self.split(argument.into_iter().collect())?;
        match given.rest.first() {
            None => Ok(given.token),
            Some(_) => Err(Failure::usage(
                "the argument is no token: a token begins with abey_",
            )),
        }
    }

    /// The token from the file or from the environment.
    pub(super) fn elsewhere(&self) -> Result<Option<Token>, Failure> {
        if let Some(path) = &self.token_file {
            let text = if path.as_os_str() == "-" {
                read_stdin()?
            } else {
                read_file(path)?
            };
            let token = text.trim();
            if token.is_empty() {
                return Err(Failure::usage("--token-file: the file is empty"));
            }
            return Ok(Some(Token::new(token)));
        }
        Ok(std::env::var(TOKEN_VARIABLE)
            .ok()
            .filter(|token| !token.is_empty())
            .map(Token::new))
    }

    /// Whether the environment has another token than this one, which counts.
    pub(super) fn is_overruled(&self, token: &Token) -> bool {
        self.token_file.is_none()
            && std::env::var(TOKEN_VARIABLE)
                .is_ok_and(|other| !other.is_empty() && other != token.expose())
    }

    /// Checks that token and JSON are not both to come from stdin.
    pub(super) fn leaves_stdin_to(&self, json: &JsonSource) -> Result<(), Failure> {
        if self.reads_stdin() && *json == JsonSource::Stdin {
            return Err(Failure::usage("token and JSON cannot both come from stdin"));
        }
        Ok(())
    }

    fn reads_stdin(&self) -> bool {
        self.token_file.as_deref() == Some(Path::new("-"))
    }

    /// Where the token is, as it stands in a command that is shown, with the space before it: nothing where the next command finds
    /// it in the environment. `None` where it came from stdin.
    pub(super) fn word(&self) -> Option<String> {
        match &self.token_file {
            None => Some(String::new()),
            Some(_) if self.reads_stdin() => None,
            Some(path) => Some(format!(
                " --token-file {}",
                output::quoted(&path.to_string_lossy())
            )),
        }
    }
}

pub(super) fn no_token() -> Failure {
    Failure::usage(format!(
        "there is no token: give one as the first argument, by --token-file, or in {TOKEN_VARIABLE}"
    ))
}

/// What to say where the first argument should be the token and is something else.
fn not_a_token(first: &str) -> Failure {
    let seen = if first.trim().parse::<uuid::Uuid>().is_ok() {
        "the first argument is a wait id, which names a wait but answers nothing; this takes its token"
    } else {
        "the first argument is not a token"
    };
    Failure::usage(format!(
        "{seen}; a token begins with {PREFIX}; give it as the first argument, by --token-file, or in {TOKEN_VARIABLE}"
    ))
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|e| {
        Failure::new(
            exit::NO_INPUT,
            format!("error: cannot read {}: {e}", path.display()),
        )
    })?;
    utf8(bytes, &path.display().to_string())
}

fn read_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::new(exit::NO_INPUT, format!("error: cannot read stdin: {e}")))?;
    utf8(bytes, "stdin")
}

fn utf8(bytes: Vec<u8>, source: &str) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|e| {
        Failure::new(
            exit::REFUSED,
            format!(
                "error: {source} is not UTF-8: byte {} is wrong",
                e.utf8_error().valid_up_to() + 1
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_form() {
        let token = |rest: &str| is_token(&format!("abey_{rest}"));
        assert!(token(&"Aa0_-".repeat(9)[..44]));
        assert!(!token(&"A".repeat(43)));
        assert!(!token(&"A".repeat(45)));
        assert!(!token(&"ü".repeat(22)));
        assert!(!is_token(&"A".repeat(49)));
    }

    #[test]
    fn json_comes_from_the_argument_a_file_or_stdin() {
        let parse = |text: &str| text.parse::<JsonSource>().unwrap();
        assert_eq!(parse("-"), JsonSource::Stdin);
        assert_eq!(parse("@a.json"), JsonSource::File("a.json".into()));
        assert_eq!(parse("-5"), JsonSource::Text("-5".to_owned()));
    }

    #[test]
    fn a_bare_word_gets_a_hint_and_broken_json_none() {
        let hint = |text: &str| JsonSource::Text(text.to_owned()).hint();
        assert!(hint("yes").unwrap().ends_with(r#"write '"yes"'"#));
        assert!(hint("yes, do it").is_some());
        for text in ["{\"a\":", "[1,", "\"a", "", "it's", "5", "true"] {
            assert_eq!(hint(text), None, "{text}");
        }
    }
}
