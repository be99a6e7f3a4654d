//! `show`: what is asked, until when, what is decided so far, and the outcome.

mod calls;
mod form;
mod page;
mod schema;

use std::time::SystemTime;

use clap::Args;

use self::page::Page;
use super::{
    args::Broker,
    exit::Failure,
    input::{TOKEN_HELP, TokenFile},
    outcome, output, progress, record, time,
    way::Way,
};
use crate::client::{Decided, Question, State, Verdict, WaitInfo};

/// What help says of `--json`.
const JSON_HELP: &str = "\
With --json, one object; what is not there is left out, and JSON of others is text in a field that
ends in _json, byte for byte:
  wait_id, namespace, name, key, labels, state, create_time, expire_time, settle_time, ask_time,
  timeout_seconds, timeout_source, heartbeat_timeout_seconds, heartbeat_expire_time
  question_json   of a free question
  deferred        of tool calls: may_leave_pending; calls[]: tool_call_id, tool_name, args_json,
                  kind (approval, external, question), metadata_json, description
  form            of a form: message, payload_json, response_schema_json
  progress        of tool calls: decided_calls, pending_calls; pending[]: ids of calls that nobody
                  decided; decided[]: tool_call_id, answered_by, decide_time,
                  decision (approved, approved_with_override, denied, returned, failed, retry),
                  and what came with it: override_args_json, message, return_value_json,
                  content_json, return_metadata_json, tools, metadata_json
  outcome         once it is settled: state, settle_time, payload_json, answered_by, reason, cause,
                  error_type, details_json; results_json of tool calls, however it ended";

/// Show what is asked, until when, what is decided, and the outcome if there is one
///
/// Tool calls are shown one by one, with their arguments, and with the commands that decide them; a form with what fits it.
#[derive(Debug, Args)]
#[command(
    after_help = TOKEN_HELP,
    after_long_help = format!("{TOKEN_HELP}

{JSON_HELP}

Examples:
  abeyance show abey_AQGT...
  abeyance show --json --token-file token.txt | jq -r .progress.pending[]")
)]
pub(super) struct ShowArgs {
    /// The token, unless it comes from elsewhere; or the wait id, as `list` shows it
    #[arg(value_name = "TOKEN|WAIT_ID")]
    argument: Option<String>,
    /// Show long values to their end
    #[arg(long)]
    full: bool,
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
    let way = Way::new(&args.broker, &args.token, args.argument.is_some());
    let wait = shown.map_err(|e| way.failure(e))?;
    if args.json {
        return output::json(&record::Wait::new(&wait));
    }
    let page = describe(Page::new(args.full), &wait, &way, SystemTime::now());
    output::stdout(page.as_bytes())
}

fn describe(mut page: Page, wait: &WaitInfo, way: &Way, now: SystemTime) -> String {
    about(&mut page, wait, now);
    match &wait.question {
        Some(Question::Json(question)) => page.row("question", question),
        Some(Question::Form(form)) => form::describe(&mut page, wait, form, way),
        Some(Question::Deferred(_)) | None => {}
        Some(_) => page.row("question", "of a kind that this version does not know"),
    }
    outcome(&mut page, wait);
    if let Some(Question::Deferred(requests)) = &wait.question {
        calls::describe(&mut page, wait, requests, way, now);
    }
    page.finish()
}

/// What is the same for every question.
fn about(page: &mut Page, wait: &WaitInfo, now: SystemTime) {
    let mut row = |head: &str, value: &str| page.row(head, value);
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
    match &wait.decided {
        Some(decided) if wait.state == State::Pending && has_calls(decided) => {
            row("state", &format!("pending, {}", progress::count(decided)));
        }
        _ => row("state", wait.state.name()),
    }
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
}

fn has_calls(decided: &Decided) -> bool {
    decided.decided_calls + decided.pending_calls > 0
}

fn outcome(page: &mut Page, wait: &WaitInfo) {
    match wait.outcome.as_ref().map(|o| &o.verdict) {
        // The results of tool calls are told call by call.
        Some(Verdict::Resolved { .. }) if matches!(wait.question, Some(Question::Deferred(_))) => {}
        Some(Verdict::Resolved {
            payload_json,
            answered_by,
        }) => {
            page.row("answer", payload_json);
            if let Some(who) = answered_by {
                page.row("by", who);
            }
        }
        Some(verdict) => {
            page.row("outcome", &outcome::describe(verdict));
            if let Verdict::Failed {
                details_json: Some(details),
                ..
            } = verdict
            {
                page.row("details", details);
            }
        }
        None => {}
    }
}
