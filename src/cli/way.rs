//! Commands that are shown to people: such that pasting one does what it says, and with no token in any.

use super::{
    args::Broker,
    exit::Failure,
    input::{self, TokenFile},
    output::quoted_id,
    refusal,
};
use crate::client::{CallKind, DeferredToolCall, Error};

/// How whoever reads this talks to the wait.
#[derive(Debug)]
pub(super) struct Way {
    /// The address, for errors.
    address: String,
    /// The flag for it, if the next command needs one.
    server: String,
    /// Where the token is, as words of a command.
    token: String,
}

/// Stands for a token that whoever pastes the command puts there.
const TOKEN: &str = " TOKEN";

impl Way {
    /// `is_argument`: whether the token came as one, or would.
    pub(super) fn new(broker: &Broker, token: &TokenFile, is_argument: bool) -> Self {
        Self {
            address: broker.server.clone(),
            server: broker.flag(),
            token: match is_argument {
                true => TOKEN.to_owned(),
                false => token.word().unwrap_or_else(|| TOKEN.to_owned()),
            },
        }
    }

    /// The beginning of a command, up to the token.
    pub(super) fn command(&self, name: &str) -> String {
        format!("abeyance {name}{}{}", self.server, self.token)
    }

    /// A command about one call, with `rest` behind its id.
    fn on_call(&self, name: &str, id: &str, flags: &str, rest: &str) -> String {
        // An id that has the form of a token would be taken for the token, if it came first.
        let token = match input::is_token(id.trim()) {
            true => TOKEN,
            false => &self.token,
        };
        // What follows two dashes is no flag, and it is one in quotes too.
        let (before, behind) = match id.starts_with('-') {
            true => (format!("{flags} --"), ""),
            false => (String::new(), flags),
        };
        format!(
            "abeyance {name}{}{token}{before} {}{behind}{rest}",
            self.server,
            quoted_id(id)
        )
    }

    /// The commands that decide a call: the one it waits for, and the one that denies it.
    pub(super) fn decide(&self, call: &DeferredToolCall) -> [String; 2] {
        let id = &call.tool_call_id;
        let first = match call.kind {
            CallKind::Approval => self.on_call("approve", id, "", ""),
            _ => self.on_call("answer", id, "", " JSON"),
        };
        [first, self.on_call("deny", id, " --message TEXT", "")]
    }

    /// A failed call, with the command that shows the wait where the broker points to it.
    pub(super) fn failure(&self, error: Error) -> Failure {
        refusal::failure(&self.address, error, &self.command("show"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(token: &str) -> Way {
        Way {
            address: String::new(),
            server: String::new(),
            token: token.to_owned(),
        }
    }

    fn commands(token: &str, id: &str) -> [String; 2] {
        let way = way(token);
        let [approve, deny] = way.decide(&DeferredToolCall::approval(id, "t", "{}"));
        let [answer, _] = way.decide(&DeferredToolCall::external(id, "t", "{}"));
        assert!(deny.contains("--message TEXT"), "{deny}");
        [approve, answer]
    }

    #[test]
    fn commands_can_be_pasted_whatever_the_id_is() {
        for (id, words) in [
            ("it's", r"TOKEN 'it'\''s'"),
            ("-x y", "TOKEN -- '-x y'"),
            ("a!b", "TOKEN 'a!b'"),
            ("\u{202e}x", r"TOKEN $'\xe2\x80\xaex'"),
            ("\\u{202e}x", r"TOKEN '\u{202e}x'"),
            ("-\u{202e}'!\\", r"TOKEN -- $'-\xe2\x80\xae\x27\x21\x5c'"),
            ("a ", r"TOKEN $'a\x20'"),
        ] {
            let [approve, answer] = commands(TOKEN, id);
            assert_eq!(approve, format!("abeyance approve {words}"));
            assert_eq!(answer, format!("abeyance answer {words} JSON"));
        }
        let [_, deny] = way(TOKEN).decide(&DeferredToolCall::external("-x", "t", "{}"));
        assert_eq!(deny, "abeyance deny TOKEN --message TEXT -- -x");
    }

    #[test]
    fn an_id_that_has_the_form_of_a_token_follows_the_token() {
        let id = format!("abey_{}", "A".repeat(44));
        for token in ["", " --token-file t", TOKEN] {
            let [approve, _] = commands(token, &id);
            assert_eq!(approve, format!("abeyance approve TOKEN {id}"));
            let [approve, _] = commands(token, "abey_1");
            assert_eq!(approve, format!("abeyance approve{token} abey_1"));
        }
    }
}
