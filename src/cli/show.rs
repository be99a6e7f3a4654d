//! `show`: what is asked, until when, and the outcome.

use std::time::SystemTime;

use clap::Args;

use super::{
    args::Broker,
    exit::Failure,
    input::{TOKEN_HELP, TokenFile},
    outcome,
    output::{self, clean},
    record, time,
};
use crate::client::{Verdict, WaitInfo};

/// Show what is asked, until when, and the outcome if there is one
#[derive(Debug, Args)]
#[command(after_help = TOKEN_HELP)]
pub(super) struct ShowArgs {
    /// The token, unless it comes from elsewhere; or the wait id, as `list` shows it
    #[arg(value_name = "TOKEN|WAIT_ID")]
    argument: Option<String>,
    #[command(flatten)]
    token: TokenFile,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

pub(super) async fn run(args: ShowArgs) -> Result<(), Failure> {
    let client = args.broker.client()?;
    let shown = match &args.argument {
        Some(id) if uuid::Uuid::try_parse(id).is_ok() => client.get(&id.to_lowercase()).await,
        _ => {
            let token = args.token.only(args.argument.clone())?;
            client.describe(&token).await
        }
    };
    let wait = shown.map_err(|e| args.broker.failure(e))?;
    if args.json {
        return output::json(&record::Wait::new(&wait));
    }
    output::stdout(describe(&wait, SystemTime::now()).as_bytes())
}

fn describe(wait: &WaitInfo, now: SystemTime) -> String {
    let mut text = String::new();
    let mut row = |head: &str, value: &str| {
        text.push_str(&format!("{head:<10} {}\n", clean(value)));
    };
    row("wait id", &wait.wait_id);
    row("name", &wait.name);
    if wait.namespace != "default" {
        row("namespace", &wait.namespace);
    }
    if let Some(key) = &wait.key {
        row("key", key);
    }
    for (key, value) in &wait.labels {
        row("label", &format!("{key}={value}"));
    }
    row("state", wait.state.name());
    row("opened", &time::at(wait.create_time, now));
    match wait.ask_time {
        Some(asked) => row("asked", &time::at(asked, now)),
        None => row("asked", "not yet"),
    }
    match wait.settle_time {
        Some(settled) => row("ended", &time::at(settled, now)),
        None => row("expires", &time::at(wait.expire_time, now)),
    }
    if let Some(timeout) = wait.heartbeat_timeout {
        let until = wait
            .heartbeat_expire_time
            .map(|until| format!(", next until {}", time::at(until, now)))
            .unwrap_or_default();
        row(
            "heartbeat",
            &format!("every {}{until}", time::length(timeout)),
        );
    }
    if let Some(question) = wait.question_json() {
        row("question", question);
    }
    match wait.outcome.as_ref().map(|o| &o.verdict) {
        Some(Verdict::Resolved { payload_json, .. }) => row("answer", payload_json),
        Some(verdict) => {
            row("outcome", &outcome::describe(verdict));
            if let Verdict::Failed {
                details_json: Some(details),
                ..
            } = verdict
            {
                row("details", details);
            }
        }
        None => {}
    }
    text
}
