//! A refund that needs approval: an agent's tool call waits, and another process decides it.
//!
//! ```sh
//! cargo run --example refund -- 50     # approved
//! cargo run --example refund -- 150    # over 100: approved, but for 100
//! cargo run --example refund -- 500    # far over: denied
//! ```
//!
//! The second process is this program again. It gets nothing but the token and the broker's address, reads the tool call from the
//! broker, and decides: it could run anywhere, be written in any language, and take days.

mod common;

use std::{env, error::Error, time::Duration};

use abeyance::client::{
    Approval, Ask, Client, DeferredToolCall, DeferredToolRequests, DeferredToolResults,
    OpenOptions, Question, Ticket, Token,
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// What the decider may approve.
const LIMIT: f64 = 100.0;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let argument = env::args().nth(1).unwrap_or_else(|| "50".to_owned());
    if argument == "decide" {
        return decide().await;
    }
    let amount: f64 = argument
        .parse()
        .map_err(|_| format!("{argument:?} is no amount; try: cargo run --example refund -- 50"))?;
    refund(amount).await
}

/// The worker: a model wants to call a tool that needs approval. It asks, waits, and acts on the decision.
async fn refund(amount: f64) -> Result<(), Box<dyn Error>> {
    let server = common::broker().await?;
    let client = Client::connect(&server)?;

    let arguments = json!({ "order": "4711", "amount": amount }).to_string();
    let call = DeferredToolCall::approval("call_1", "issue_refund", &arguments)
        .description("Pays money back to a customer.");
    let options = OpenOptions::new()
        .timeout(Duration::from_secs(60))
        .label("example", "refund");
    let mut decider = None;
    let ask = async |ticket| {
        decider = Some(hand_on(ticket, &server)?);
        Ok::<_, std::io::Error>(Ask::HandedOn)
    };
    println!("[worker]   issue_refund({arguments}) needs approval");

    let input = client
        .request_input(
            "refund-approval",
            DeferredToolRequests::new().call(call),
            ask,
            options,
        )
        .await?;
    // Nobody's answer is a denial like any other; why there was none stands beside it.
    if let Some(why) = &input.unanswered {
        println!("[worker]   nobody decided: {why}");
    }
    match input.results.approvals.get("call_1") {
        Some(Approval::Approved { override_args_json }) => {
            let arguments = override_args_json.as_ref().unwrap_or(&arguments);
            println!("[worker]   approved: issue_refund({arguments}) runs");
        }
        Some(Approval::Denied { message }) => {
            let message = message.as_deref().unwrap_or_default();
            println!("[worker]   denied, and the model is told: {message}");
        }
        // Only a clear yes is a yes.
        _ => println!("[worker]   not approved"),
    }
    // The broker may live in this process, and the decider still waits for its last word.
    if let Some(mut decider) = decider {
        decider.wait().await?;
    }
    Ok(())
}

/// The ask: starts the process that decides. A real one would send a message with a link.
fn hand_on(ticket: Ticket, server: &str) -> Result<Child, std::io::Error> {
    println!(
        "[worker]   wait {} is open; handing its token on",
        ticket.wait_id
    );
    Command::new(env::current_exe()?)
        .arg("decide")
        // Not an argument: those can be seen by other users of the machine.
        .env("ABEYANCE_TOKEN", ticket.token.expose())
        .env("ABEYANCE_SERVER", server)
        .spawn()
}

/// The decider, in a process of its own.
async fn decide() -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&env::var("ABEYANCE_SERVER")?)?;
    let token = Token::new(env::var("ABEYANCE_TOKEN")?);

    let wait = client.describe(&token).await?;
    let Some(Question::Deferred(requests)) = wait.question else {
        return Err("the wait asks about no tool calls".into());
    };
    let mut results = DeferredToolResults::new();
    for call in &requests.calls {
        let arguments: Value = serde_json::from_str(&call.args_json)?;
        println!("[decider]  {} {}", call.tool_name, call.args_json);
        results = match arguments["amount"].as_f64() {
            Some(amount) if amount <= LIMIT => results.approve(&call.tool_call_id),
            Some(amount) if amount <= 2.0 * LIMIT => {
                let less = json!({ "order": arguments["order"], "amount": LIMIT });
                results.approve_with(&call.tool_call_id, less.to_string())
            }
            _ => results.deny(&call.tool_call_id, format!("Over {LIMIT} EUR.")),
        };
        results = results.answered_by(&call.tool_call_id, "the decider");
    }
    let settled = client.resolve(&token, results).await?;
    println!("[decider]  the wait is {}", settled.state);
    Ok(())
}
