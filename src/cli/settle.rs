//! `resolve`, `fail`, `cancel` and `heartbeat`: what whoever holds a token can do.

use std::time::SystemTime;

use clap::Args;
use serde::Serialize;

use super::{
    args::Broker,
    exit::Failure,
    input::{JsonSource, TOKEN_HELP, TokenFile},
    outcome, output, progress, record, time,
    way::Way,
};
use crate::client::{Answer, Settled, State};

/// Answer a wait
///
/// The worker gets the JSON byte for byte. The same answer again is fine; another one is refused.
///
/// An answer that does not fit what is asked is refused with every fault on a line of its own, and the wait stays as it was: mend the
/// answer and send it again. Tool calls are answered by DeferredToolResults, as Pydantic AI reads them; `approve`, `deny` and `answer`
/// write those for you.
#[derive(Debug, Args)]
#[command(
    after_help = TOKEN_HELP,
    after_long_help = "The token: a first argument that begins with abey_ is the token. Without one it is read from --token-file, \
else from the environment variable ABEYANCE_TOKEN; both keep it from other users of the machine, who can see arguments. `-` and \
`@FILE` are always the JSON.

Examples:
  abeyance resolve abey_AQGT... '{\"approved\": true}'
  abeyance resolve abey_AQGT... --by alice '{\"approvals\": {\"call_1\": true}, \"calls\": {\"call_2\": 5}}'
  abeyance resolve abey_AQGT... --partial '{\"calls\": {\"call_2\": {\"kind\": \"model-retry\", \"message\": \"Which?\"}}}'
  abeyance resolve --token-file token.txt @answer.json
  ABEYANCE_TOKEN=abey_AQGT... abeyance resolve '\"yes\"'",
    override_usage = "abeyance resolve [OPTIONS] [TOKEN] <JSON|@FILE|->"
)]
pub(super) struct ResolveArgs {
    /// The token, unless it comes from elsewhere, and the answer: JSON text, `@FILE`, or `-` for stdin
    #[arg(value_name = "ARGUMENT", num_args = 0..=2, allow_negative_numbers = true, hide = true)]
    arguments: Vec<String>,
    /// Decide only the tool calls that the answer names, and leave the others to somebody else
    #[arg(long)]
    partial: bool,
    /// Who answers, for the record
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    token: TokenFile,
    /// Print one JSON object: wait_id, state, settle_time, replayed, answered_by, progress
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

/// End a wait without an answer: the worker gets the reason
///
/// Tool calls that are not decided by then are denied. The same again is fine.
#[derive(Debug, Args)]
#[command(
    after_help = TOKEN_HELP,
    override_usage = "abeyance fail [OPTIONS] [TOKEN] <REASON|--reason TEXT>"
)]
pub(super) struct FailArgs {
    /// The token, unless it comes from elsewhere, and why, for people
    #[arg(value_name = "ARGUMENT", num_args = 0..=2, allow_negative_numbers = true, hide = true)]
    arguments: Vec<String>,
    /// Why, for people; the same as the argument
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// A name for the kind of failure that programs may branch on
    #[arg(long = "type", value_name = "TYPE")]
    error_type: Option<String>,
    /// More about it: JSON text, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    details: Option<JsonSource>,
    #[command(flatten)]
    token: TokenFile,
    /// Print one JSON object: wait_id, state, settle_time, replayed
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

/// Say that the answering side is alive
///
/// Prints until when that holds. Refused once the wait is settled: stop working on it.
#[derive(Debug, Args)]
#[command(after_help = TOKEN_HELP)]
pub(super) struct HeartbeatArgs {
    /// The token, unless it comes from elsewhere
    #[arg(value_name = "TOKEN")]
    argument: Option<String>,
    #[command(flatten)]
    token: TokenFile,
    /// Print one JSON object: heartbeat_expire_time, null where no heartbeat is demanded
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

/// Withdraw a wait whose answer is no longer needed
///
/// On a settled wait: tells its outcome.
#[derive(Debug, Args)]
#[command(after_help = TOKEN_HELP)]
pub(super) struct CancelArgs {
    /// The token, unless it comes from elsewhere
    #[arg(value_name = "TOKEN")]
    argument: Option<String>,
    /// Why, for people
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    token: TokenFile,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

pub(super) async fn resolve(args: ResolveArgs) -> Result<(), Failure> {
    let given = args.token.split(args.arguments)?;
    let way = Way::new(&args.broker, &args.token, given.is_argument);
    let answer = one(given.rest)?
        .ok_or_else(|| Failure::usage("the answer is missing: JSON, @FILE or -"))?;
    let Ok(answer) = answer.parse::<JsonSource>();
    args.token.leaves_stdin_to(&answer)?;
    let mut body = Answer::json(answer.read()?);
    if args.partial {
        body = body.partial();
    }
    if let Some(who) = args.by {
        body = body.by(who);
    }
    let client = args.broker.client()?;
    let settled = client
        .resolve(&given.token, body)
        .await
        .map_err(|e| answer.explain(way.failure(e.clone()), &e))?;
    tell(&settled, args.json)
}

pub(super) async fn fail(args: FailArgs) -> Result<(), Failure> {
    let given = args.token.split(args.arguments)?;
    let way = Way::new(&args.broker, &args.token, given.is_argument);
    let reason = match (one(given.rest)?, args.reason) {
        (Some(reason), None) | (None, Some(reason)) => reason,
        (None, None) => return Err(Failure::usage("the reason is missing")),
        (Some(_), Some(_)) => {
            return Err(Failure::usage(
                "the reason is given twice: as an argument and by --reason",
            ));
        }
    };
    let details = match &args.details {
        Some(details) => {
            args.token.leaves_stdin_to(details)?;
            Some(details.read()?)
        }
        None => None,
    };
    let client = args.broker.client()?;
    let settled = client
        .fail(
            &given.token,
            &reason,
            args.error_type.as_deref(),
            details.as_deref(),
        )
        .await
        .map_err(|e| match &args.details {
            Some(source) => source.explain(way.failure(e.clone()), &e),
            None => way.failure(e),
        })?;
    tell(&settled, args.json)
}

pub(super) async fn heartbeat(args: HeartbeatArgs) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Alive {
        heartbeat_expire_time: Option<String>,
    }
    let way = Way::new(&args.broker, &args.token, args.argument.is_some());
    let token = args.token.only(args.argument)?;
    let until = args
        .broker
        .client()?
        .heartbeat(&token)
        .await
        .map_err(|e| way.failure(e))?;
    if args.json {
        return output::json(&Alive {
            heartbeat_expire_time: until.map(time::rfc3339),
        });
    }
    output::line(&match until {
        Some(until) => format!("alive until {}", time::at(until, SystemTime::now())),
        None => "pending; no heartbeat is demanded".to_owned(),
    })
}

pub(super) async fn cancel(args: CancelArgs) -> Result<(), Failure> {
    let way = Way::new(&args.broker, &args.token, args.argument.is_some());
    let token = args.token.only(args.argument)?;
    let recorded = args
        .broker
        .client()?
        .cancel(&token, &args.reason)
        .await
        .map_err(|e| way.failure(e))?;
    if args.json {
        return output::json(&record::Ended::new(&recorded));
    }
    output::line(&outcome::describe(&recorded.verdict))
}

fn tell(settled: &Settled, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&record::Settled::new(settled, None));
    }
    output::line(&words(settled, SystemTime::now()))
}

fn words(settled: &Settled, now: SystemTime) -> String {
    let count = settled.decided.as_ref().map(progress::count);
    match (settled.state, settled.settle_time) {
        (State::Pending, _) => {
            let what = match settled.replayed {
                true => "the same was recorded before",
                false => "recorded",
            };
            match count {
                Some(count) => format!("{what}; {count}"),
                None => what.to_owned(),
            }
        }
        (state, Some(when)) if settled.replayed => {
            let what = format!("{state}, the same was recorded");
            let what = progress::by(&what, settled.answered_by.as_deref());
            format!("{what} at {}", time::at(when, now))
        }
        (state, _) => state.to_string(),
    }
}

/// The one argument beside the token, if it is there. Its text is not shown: a mistyped token is a secret all the same.
fn one(mut rest: Vec<String>) -> Result<Option<String>, Failure> {
    if rest.len() > 1 {
        return Err(Failure::usage(
            "the first of two arguments must be the token, which begins with abey_",
        ));
    }
    Ok(rest.pop())
}
