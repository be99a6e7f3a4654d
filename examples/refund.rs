//! A refund that needs approval: a worker waits, and another process decides.
//!
//! ```sh
//! cargo run --example refund -- 50     # approved
//! cargo run --example refund -- 150    # over 100: denied
//! ```
//!
//! The second process is this program again. It gets nothing but the token and the broker's address, reads the question from the
//! broker, and answers: it could run anywhere, be written in any language, and take days.

mod common;

use std::{env, error::Error, time::Duration};

use abeyance::client::{Ask, Client, OpenOptions, Ticket, Token, WaitError};
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

/// The worker: asks, waits, and acts on the answer.
async fn refund(amount: f64) -> Result<(), Box<dyn Error>> {
    let server = common::broker().await?;
    let client = Client::connect(&server)?;

    let question = json!({ "text": "May this be refunded?", "amount": amount, "currency": "EUR" });
    let options = OpenOptions::new()
        .timeout(Duration::from_secs(60))
        .label("example", "refund")
        .question(question.to_string());
    let mut decider = None;
    let ask = async |ticket| {
        decider = Some(hand_on(ticket, &server)?);
        Ok::<_, std::io::Error>(Ask::HandedOn)
    };
    println!("[worker]   a refund of {amount} EUR needs approval");

    let answer = client
        .wait_for_external_event("refund-approval", ask, options)
        .await;
    match answer {
        Ok(answer) => {
            let answer: Value = serde_json::from_str(&answer)?;
            // Only a clear yes is a yes.
            if answer["approved"] == json!(true) {
                println!("[worker]   approved: {amount} EUR are on their way");
            } else {
                println!("[worker]   denied: {}", text(&answer["reason"]));
            }
        }
        Err(WaitError::Expired { reason, .. }) => {
            println!("[worker]   nobody decided, so nothing is refunded: {reason}");
        }
        Err(error) => return Err(error.into()),
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
    let question: Value = serde_json::from_str(wait.question_json().unwrap_or_default())?;
    let amount = question["amount"]
        .as_f64()
        .ok_or("the question has no amount")?;
    let (asked, currency) = (text(&question["text"]), text(&question["currency"]));
    println!("[decider]  {asked} {amount} {currency}");

    let answer = if amount <= LIMIT {
        json!({ "approved": true })
    } else {
        json!({ "approved": false, "reason": format!("over {LIMIT} EUR") })
    };
    let settled = client.resolve(&token, answer.to_string()).await?;
    println!("[decider]  the wait is {}: {answer}", settled.state);
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
