//! The client: open a wait, stay attached until its outcome, answer somebody else's.
//!
//! ```no_run
//! use abeyance::client::{Ask, Client, OpenOptions};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("http://127.0.0.1:2239")?;
//! let options = OpenOptions::new()
//!     .key("refund-4711")
//!     .timeout(std::time::Duration::from_secs(1800))
//!     .question(r#"{"text":"Refund 50 euros?"}"#);
//! let answer = client
//!     .wait_for_external_event("refund", async |ticket| {
//!         // Hand the token to whoever can answer: a chat message, a queue, a page.
//!         println!("abeyance resolve {} true", ticket.token.expose());
//!         Ok::<_, std::io::Error>(Ask::HandedOn)
//!     }, options)
//!     .await?;
//! println!("the answer, as JSON: {answer}");
//! # Ok(())
//! # }
//! ```
//!
//! May import: `proto`. Knows nothing of the broker's rules; it carries them over the wire.
//!
//! Invariants
//! - A cut stream is never an answer. Only an `outcome` event is; any other end of a stream means "attach again".
//! - A stream is read eagerly by a task of its own and to its end, so that no frames pile up and no reset is sent.
//! - Every open carries a `request_id`, so that every call may be repeated without harm.
//! - `Debug` of a [`Token`] shows nothing, and no log line carries one.

mod attached;
mod backoff;
mod calls;
mod convert;
mod error;
mod external;
mod inbox;
mod options;
mod outcome;
mod settings;
mod token;
mod types;
mod wait;
mod watch;

pub use attached::Progress;
pub use backoff::Backoff;
pub use calls::{Client, OpenedWait};
pub use error::{Error, Refusal, Violation, WaitError};
pub use external::{Ask, Ticket};
pub use inbox::{Filter, List};
pub use options::OpenOptions;
pub use outcome::{ExpiryCause, Outcome, Verdict};
pub use settings::Settings;
pub use token::Token;
pub use tonic::Code;
pub use types::{Opened, Settled, State, TimeoutSource, WaitInfo};
pub use wait::Wait;
pub use watch::{Watch, WatchEvent};
