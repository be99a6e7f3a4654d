//! Logs: how they are written and what things are called in them.
//!
//! May import: nothing of ours. All rooms but `domain` may use it.
//!
//! Invariant: no part of a token is ever logged. The types that hold one are blind in `Debug`; the wait id names a wait.

pub mod names;

use std::{io, str::FromStr};

use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, util::SubscriberInitExt as _};

/// How logs are written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The form of each line. Default: text.
    pub format: Format,
    /// Which events are logged, in the syntax of tracing-subscriber's `EnvFilter`: a level, or `target=level` parts divided by
    /// commas. Default: `info`. Below `info`, a busy broker writes several lines for each call.
    pub filter: Filter,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: Format::Text,
            filter: Filter("info".to_owned()),
        }
    }
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object for each line.
    Json,
}

/// A filter that was found to be well formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(String);

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        EnvFilter::try_new(text).map_err(|e| e.to_string())?;
        Ok(Self(text.to_owned()))
    }
}

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("logs could not be set up: {0}")]
pub struct Error(#[from] tracing_subscriber::util::TryInitError);

/// Sends the logs of the whole process to stderr. Called once, by `main`; a program that embeds the broker sets up its own.
///
/// # Errors
/// If the process has a subscriber already.
pub fn init(options: &Options) -> Result<(), Error> {
    Ok(subscriber(options, io::stderr).try_init()?)
}

/// What is said less of than the filter asks for, unless it names these itself: the migrations tell at each start that there is
/// nothing to do.
const QUIET: &str = "refinery_core=warn";

/// What writes logs to `writer`.
pub fn subscriber<W>(options: &Options, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt()
        // A `Filter` was parsed before, so nothing of it is dropped here.
        .with_env_filter(EnvFilter::new(format!("{QUIET},{}", options.filter.0)))
        .with_ansi(false)
        .with_writer(writer);
    match options.format {
        Format::Text => Box::new(lines.finish()),
        Format::Json => Box::new(lines.json().flatten_event(true).finish()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("a lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(options: &Options) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(options, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!({ names::PEER } = "somebody", "came");
            tracing::debug!("and went");
        });
        let bytes = sink.0.lock().expect("a lock").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn json_lines_hold_the_fields_by_their_names() {
        let options = Options {
            format: Format::Json,
            ..Options::default()
        };
        let line: serde_json::Value = serde_json::from_str(&logged(&options)).expect("one object");
        assert_eq!(
            (&line["peer"], &line["message"]),
            (&"somebody".into(), &"came".into())
        );
    }

    #[test]
    fn the_filter_decides_what_is_written() {
        let options = |filter: &str| Options {
            filter: filter.parse().expect("a filter"),
            ..Options::default()
        };
        assert!(!logged(&options("info")).contains("and went"));
        assert!(logged(&options("debug")).contains("and went"));
        assert_eq!(logged(&options("off")), "");
        assert!("abeyance=loud".parse::<Filter>().is_err());
    }
}
