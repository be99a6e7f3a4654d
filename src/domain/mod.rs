//! The rules: what a wait is, what may be sent, who wins, and when it is too late.
//!
//! May import: nothing of ours. Pure and synchronous: the present time and random bytes come in as arguments, decisions go
//! out as data.
//!
//! Invariants
//! - [`transition::apply`] is the only place that ends a wait. Resolve, fail, cancel, expiry and heartbeat loss all pass it.
//! - Checked types ([`limits`], [`json`]) can only be made by their checks, so what is inside the rules is valid.
//! - A token never shows in `Debug` or `Display`.

pub mod deadline;
pub mod error;
pub mod json;
pub mod limits;
pub mod outcome;
pub mod question;
pub mod results;
pub mod schema;
mod suggest;
pub mod time;
pub mod token;
pub mod transition;
pub mod wait;

pub use error::{Faults, Refusal, Violation};
pub use json::JsonText;
pub use outcome::{Answer, Ending, ExpiryCause, Failure, Outcome, State};
pub use question::Question;
pub use results::{Decided, Results};
pub use time::Timestamp;
pub use token::{KeyRing, Token};
pub use transition::{Command, Decision, Effect, Moment, Submission, Verdict, apply};
pub use wait::{NewWait, Progress, Record, Spec, Summary, TimeoutSource, Wait, WaitId};
