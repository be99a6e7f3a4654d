//! `list`: the waits, newest first.

use std::time::SystemTime;

use clap::Args;

use super::{
    args::{Broker, Which},
    exit::Failure,
    output::{self, clean},
    progress, record, time,
};
use crate::client::{State, WaitInfo};

/// List waits, newest first
///
/// Without their questions and answers; `abeyance show WAIT_ID` shows those.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  abeyance list --state pending --label team=billing
  abeyance list --json --limit 0 | jq -r .wait_id")]
pub(super) struct ListArgs {
    #[command(flatten)]
    which: Which,
    /// List at most this many; 0 lists all
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
    /// Print one JSON object for each wait, one on a line: as `show --json`, without question and outcome
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

const HEAD: [&str; 6] = [
    "WAIT ID",
    "STATE",
    "NAME",
    "OPENED",
    "EXPIRES",
    "KEY AND LABELS",
];
/// What one call asks for. Columns are as wide as a page of this size needs.
const PAGE: u16 = 500;

pub(super) async fn run(args: ListArgs) -> Result<(), Failure> {
    output::until_reader_leaves(list(args).await)
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let limit = if args.limit == 0 {
        usize::MAX
    } else {
        args.limit
    };
    // One more than the limit, so that it can be said that there are more.
    let page_size = u16::try_from(limit.saturating_add(1)).map_or(PAGE, |n| n.min(PAGE));
    let mut pages = args
        .broker
        .client()?
        .list(&args.which.filter())
        .page_size(page_size);
    let mut listed = 0;
    while let Some(mut waits) = pages
        .next_page()
        .await
        .map_err(|e| args.broker.failure(e))?
    {
        let more = waits.len() > limit - listed;
        waits.truncate(limit - listed);
        print(&waits, args.json, listed == 0)?;
        listed += waits.len();
        if more {
            output::note(format!("there are more than {listed}; --limit 0 lists all"));
            return Ok(());
        }
    }
    if listed == 0 && !args.json {
        output::note("there are none");
    }
    Ok(())
}

fn print(waits: &[WaitInfo], json: bool, first: bool) -> Result<(), Failure> {
    if json {
        return waits
            .iter()
            .try_for_each(|wait| output::json(&record::Wait::listed(wait)));
    }
    let now = SystemTime::now();
    let rows: Vec<_> = waits.iter().map(|wait| row(wait, now)).collect();
    let table = output::table(&HEAD, &rows);
    let table = if first {
        table.as_str()
    } else {
        table.split_once('\n').map_or("", |(_, rows)| rows)
    };
    output::stdout(table.as_bytes())
}

fn row(wait: &WaitInfo, now: SystemTime) -> Vec<String> {
    vec![
        wait.wait_id.clone(),
        progress::state(wait),
        clean(&wait.name).into_owned(),
        time::relative(wait.create_time, now),
        match wait.state {
            State::Pending => time::relative(wait.expire_time, now),
            _ => "-".to_owned(),
        },
        key_and_labels(wait),
    ]
}

/// `key  a=b c=d`, as far as there are any.
pub(super) fn key_and_labels(wait: &WaitInfo) -> String {
    let labels = wait.labels.iter().map(|(k, v)| format!("{k}={v}"));
    let all: Vec<String> = wait.key.iter().cloned().chain(labels).collect();
    clean(&all.join(" ")).into_owned()
}
