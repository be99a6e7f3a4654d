//! What a caller may send: the only constructors of checked text, and the sizes that the operator sets.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use super::{
    error::{Refusal, Violation},
    json::JsonText,
    results::UnknownKeys,
};

/// The sizes and lengths of time that the operator sets.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest question, answer or details, in bytes of JSON text. Default: 1 MiB.
    pub payload_bytes: usize,
    /// The longest timeout of a wait, which is also what a wait without one gets. Default: 366 days.
    pub max_timeout: Duration,
    /// How long before a gRPC deadline that is a wait's timeout the wait is settled, at most; a tenth of a shorter deadline.
    /// Default: 250 ms.
    pub deadline_margin: Duration,
    /// What becomes of keys in answers that this version does not know. Default: they are refused.
    pub unknown_keys: UnknownKeys,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes: 1 << 20,
            max_timeout: Duration::from_secs(366 * 86_400),
            deadline_margin: Duration::from_millis(250),
            unknown_keys: UnknownKeys::Refuse,
        }
    }
}

impl Limits {
    /// Checks the size and the syntax of JSON text that came in `field`.
    ///
    /// # Errors
    /// [`Refusal::InvalidFields`] if it is too large, [`Refusal::InvalidJson`] if it is not JSON.
    pub fn json(&self, field: &str, text: &str) -> Result<JsonText, Refusal> {
        if text.len() > self.payload_bytes {
            return Err(Refusal::field(
                field,
                format!(
                    "is {} bytes long; at most {} are taken",
                    text.len(),
                    self.payload_bytes
                ),
            ));
        }
        JsonText::new(text).map_err(|fault| Refusal::InvalidJson(Violation::new(field, fault)))
    }
}

/// Checks length, in characters, and that no control character is among them.
fn plain(text: &str, what: &str, min: usize, max: usize) -> Result<Arc<str>, String> {
    let length = text.chars().count();
    if length < min {
        return Err(format!(
            "is required; give {what} of {min} to {max} characters"
        ));
    }
    if length > max {
        return Err(format!(
            "is {length} characters long; at most {max} are taken"
        ));
    }
    if text.chars().any(char::is_control) {
        return Err("holds a control character; use printable text".to_owned());
    }
    Ok(text.into())
}

/// Checks the length of text that people read, in which line breaks are welcome.
fn long(text: &str) -> Result<Arc<str>, String> {
    match text.chars().count() {
        n if n > 4096 => Err(format!("is {n} characters long; at most 4096 are taken")),
        _ => Ok(text.into()),
    }
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, |$text:ident| $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text`.
            ///
            /// # Errors
            /// What is wrong with it, to be put behind the field's name.
            pub fn new($text: &str) -> Result<Self, String> {
                $check.map(Self)
            }

            /// Takes text that was checked when it was stored.
            pub fn from_store(text: String) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.0)
            }
        }
    };
}

checked_text! {
    /// The name of a kind of wait: 1 to 256 characters, none of them a control character.
    Name, |text| plain(text, "a name", 1, 256)
}

checked_text! {
    /// The worker's own name for a wait: 1 to 512 characters, none of them a control character.
    Key, |text| plain(text, "a key", 1, 512)
}

checked_text! {
    /// The caller's id for a request (AIP-155): 1 to 128 characters, none of them a control character.
    RequestId, |text| plain(text, "an id", 1, 128)
}

checked_text! {
    /// A name for a kind of failure: up to 256 characters, none of them a control character.
    ErrorType, |text| plain(text, "a type", 0, 256)
}

checked_text! {
    /// Why something ended, in somebody's words: up to 4096 characters. Line breaks are welcome.
    Reason, |text| long(text)
}

checked_text! {
    /// The id of a tool call: 1 to 256 characters, none of them a control character.
    CallId, |text| plain(text, "an id", 1, 256)
}

checked_text! {
    /// The name of a tool: 1 to 256 characters, none of them a control character.
    ToolName, |text| plain(text, "a tool's name", 1, 256)
}

checked_text! {
    /// Who answers, as they say: up to 256 characters, none of them a control character.
    AnsweredBy, |text| plain(text, "a name", 0, 256)
}

checked_text! {
    /// What is asked, in words for people: up to 4096 characters. Line breaks are welcome.
    Description, |text| long(text)
}

checked_text! {
    /// A namespace: 1 to 64 of `a-z`, `0-9`, `-`, `_` and `.`, beginning with a letter or a digit. Empty means `default`.
    Namespace, |text| namespace(text)
}

fn namespace(text: &str) -> Result<Arc<str>, String> {
    let text = if text.is_empty() { "default" } else { text };
    let ok = text.len() <= 64
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b))
        && text.as_bytes()[0].is_ascii_alphanumeric();
    if ok {
        Ok(text.into())
    } else {
        Err("is not a namespace; use 1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or a digit".to_owned())
    }
}

/// Labels: at most 64, keys of 1 to 63 characters, values of up to 256, neither with control characters.
///
/// Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Arc<BTreeMap<String, String>>);

impl Labels {
    /// The most labels that a wait can have.
    pub const MAX: usize = 64;

    /// Checks labels that came in `field`.
    ///
    /// # Errors
    /// Every fault, in the order of the keys.
    pub fn new(field: &str, labels: BTreeMap<String, String>) -> Result<Self, Vec<Violation>> {
        let mut faults = Vec::new();
        if labels.len() > Self::MAX {
            faults.push(Violation::new(
                field,
                format!(
                    "has {} entries; at most {} are taken",
                    labels.len(),
                    Self::MAX
                ),
            ));
        }
        for (key, value) in &labels {
            let at = |fault| Violation::new(format!("{field}[{}]", quoted(key)), fault);
            if let Err(fault) = plain(key, "a label key", 1, 63) {
                faults.push(at(format!("key {fault}")));
            }
            if let Err(fault) = plain(value, "a label value", 0, 256) {
                faults.push(at(format!("value {fault}")));
            }
        }
        if faults.is_empty() {
            Ok(Self(Arc::new(labels)))
        } else {
            Err(faults)
        }
    }

    /// Takes labels that were checked when they were stored.
    pub fn from_store(labels: BTreeMap<String, String>) -> Self {
        Self(Arc::new(labels))
    }

    /// The labels.
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

/// A map's key as it stands in the path of a fault: quoted, escaped, and cut if it is long.
pub(crate) fn quoted(key: &str) -> String {
    let mut short: String = key.chars().take(64).collect();
    if short.len() < key.len() {
        short.push('…');
    }
    format!("{short:?}")
}

/// Checks a length of time that a worker gave, and cuts it to microseconds, which is what stores keep.
///
/// # Errors
/// What is wrong with it: not well formed, not positive, below a microsecond, or above `max`.
pub fn duration(seconds: i64, nanos: i32, max: Duration) -> Result<Duration, String> {
    // As `google/protobuf/duration.proto` defines it.
    let well_formed = seconds.unsigned_abs() <= 315_576_000_000
        && nanos.unsigned_abs() <= 999_999_999
        && (seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0));
    if !well_formed {
        return Err("is not a valid google.protobuf.Duration".to_owned());
    }
    if seconds < 0 || nanos < 0 || (seconds, nanos) == (0, 0) {
        return Err("must be longer than zero".to_owned());
    }
    // Neither is negative here.
    let length = Duration::new(seconds.unsigned_abs(), nanos.unsigned_abs());
    let length = Duration::from_micros(u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
    if length.is_zero() {
        return Err("is shorter than a microsecond, the shortest that is taken".to_owned());
    }
    if length > max {
        return Err(format!(
            "is {} s; at most {} s ({} days) are taken",
            length.as_secs(),
            max.as_secs(),
            max.as_secs() / 86_400
        ));
    }
    Ok(length)
}
