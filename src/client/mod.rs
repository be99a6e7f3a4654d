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
//! An agent whose tool calls need somebody's decision calls [`Client::request_input`] instead; whoever decides calls
//! [`Client::decide`], call by call, or [`Client::resolve`]:
//!
//! ```no_run
//! use abeyance::client::{Ask, Client, DeferredToolRequests, DeferredToolResults, OpenOptions};
//!
//! # async fn run(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let requests = DeferredToolRequests::new()
//!     .approval("call_1", "issue_refund", r#"{"amount":500}"#)
//!     .external("call_2", "ship", r#"{"order":"4711"}"#);
//! let input = client
//!     .request_input("refund", requests, async |ticket| {
//!         // Somewhere else, and later.
//!         let decisions = DeferredToolResults::new()
//!             .deny("call_1", "Over the limit.")
//!             .value("call_2", r#"{"status":"shipped"}"#);
//!         client.resolve(&ticket.token, decisions).await?;
//!         Ok::<_, abeyance::client::Error>(Ask::HandedOn)
//!     }, OpenOptions::new().key("run-17/step-3"))
//!     .await?;
//! // Results in every ending: if nobody decides in time, ready-made denials, and why.
//! for (call, approval) in &input.results.approvals {
//!     println!("{call}: {}", if approval.is_approved() { "run" } else { "do not run" });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! May import: `proto`. Knows nothing of the broker's rules; it carries them over the wire.
//!
//! Invariants
//! - A cut stream is never an answer. Only an `outcome` event is; any other end of a stream means "attach again".
//! - What is not known, as a decision or as an end, is never taken for an approval or an answer.
//! - A stream is read eagerly by a task of its own and to its end, so that no frames pile up and no reset is sent.
//! - A connection that went silent is left for a new one, and all waits of a client share the making of it.
//! - No stream is held for longer than an hour, and no timer is longer, however long the wait.
//! - Every open carries a `request_id`, so that every call may be repeated without harm.
//! - `Debug` of a [`Token`] shows nothing, and no log line carries one.

mod answer;
mod attached;
mod backoff;
mod calls;
mod convert;
mod decided;
mod error;
mod external;
mod inbox;
mod line;
mod options;
mod outcome;
mod overheard;
mod question;
mod request_input;
mod requests;
mod results;
mod settings;
mod token;
mod types;
mod wait;
mod watch;

pub use answer::Answer;
pub use attached::Progress;
pub use backoff::Backoff;
pub use calls::{Client, OpenedWait};
pub use decided::{CallDecision, Decided, Decision};
pub use error::{Error, Refusal, Violation, WaitError};
pub use external::{Ask, Ticket};
pub use inbox::{Filter, List};
pub use options::OpenOptions;
pub use outcome::{ExpiryCause, Outcome, Verdict};
pub use question::{DeferredToolRequestsJson, Form, Question, ToolRequests};
pub use request_input::ToolResults;
pub use requests::{CallKind, DeferredToolCall, DeferredToolRequests};
pub use results::{Approval, CallResult, DeferredToolResults, ToolReturn};
pub use settings::Settings;
pub use token::Token;
pub use tonic::Code;
pub use types::{Opened, Settled, State, TimeoutSource, WaitInfo};
pub use wait::Wait;
pub use watch::{Watch, WatchEvent};
