//! `open`: opens a wait, prints its token, and exits.

use std::time::SystemTime;

use clap::Args;

use super::{
    args::{Broker, Namespace, Spec},
    exit::Failure,
    output, record, time,
};

/// Open a wait, print its token, and exit
///
/// Prints token, wait id and expire time. The wait is marked asked: printing the token hands it on. Somebody can wait for it with `abeyance wait --token-file FILE`, or
/// with `abeyance wait --key KEY`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  abeyance open --name refund --key order-4711 --timeout 2d --question '{\"text\":\"Refund 50 EUR?\"}'
  abeyance open --name refund --calls @requests.json      # then show, approve, deny, answer
  abeyance open --name stay --form @schema.json --message 'How many nights?'
  TOKEN=$(abeyance open --name deploy --json | jq -r .token)")]
pub(super) struct OpenArgs {
    #[command(flatten)]
    spec: Spec,
    #[command(flatten, next_help_heading = "The wait")]
    namespace: Namespace,
    /// Print one JSON object: token, wait_id, expire_time, resumed, asked (before this call), and outcome if there is one
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

pub(super) async fn run(args: OpenArgs) -> Result<(), Failure> {
    let Some(name) = &args.spec.name else {
        return Err(Failure::usage("--name is required"));
    };
    let options = args.spec.options(&args.namespace)?;
    let client = args.broker.client()?;
    let wait = client
        .open(name, options)
        .await
        .map_err(|e| args.spec.asked.explain(args.broker.failure(e.clone()), &e))?;
    let opened = &wait.opened;

    if args.json {
        output::json(&record::Opened::new(&wait))?;
    } else {
        let state = match (&wait.outcome, opened.resumed) {
            (Some(outcome), _) => format!("state    {}\n", outcome.state()),
            (None, true) => "state    pending, opened before\n".to_owned(),
            (None, false) => String::new(),
        };
        output::stdout(
            format!(
                "token    {}\nwait id  {}\nexpires  {}\n{state}",
                opened.token.expose(),
                opened.wait_id,
                time::at(opened.expire_time, SystemTime::now()),
            )
            .as_bytes(),
        )?;
    }
    // Only now is it handed on; if this fails, opening again by key prints the token again.
    if !opened.asked && wait.outcome.is_none() {
        client
            .mark_asked(&opened.token)
            .await
            .map_err(|e| args.broker.failure(e))?;
    }
    Ok(())
}
