//! Two tool calls, two people: each decides one, in any order, and the agent's run goes on when both have.
//!
//! ```sh
//! cargo run --example two_approvers
//! ```
//!
//! A clerk may approve the refund, and only the owner may delete the account. Both hold the same token. What one of them has decided
//! is recorded, the other sees it, and neither can undo it.

mod common;

use std::{error::Error, time::Duration};

use abeyance::client::{
    Answer, Approval, Client, DeferredToolRequests, DeferredToolResults, OpenOptions, Token,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&common::broker().await?)?;

    let requests = DeferredToolRequests::new()
        .approval("call_1", "issue_refund", r#"{"order":"4711","amount":50}"#)
        .approval("call_2", "delete_account", r#"{"customer":"c-20481"}"#);
    let options = OpenOptions::new()
        .timeout(Duration::from_secs(60))
        .label("example", "two_approvers")
        .calls(requests);
    let wait = client.wait("cleanup", options).await?;
    let token = wait.token().clone();
    println!("[agent]    two calls wait: issue_refund and delete_account");

    clerk(&client, &token).await?;
    show(&client, &token).await?;
    owner(&client, &token).await?;

    // Both have decided, so the outcome is there.
    let input = wait.outcome().await?.into_tool_results()?;
    for (id, approval) in &input.results.approvals {
        let who = input.results.answered_by.get(id);
        let who = who.map_or("somebody", String::as_str);
        match approval {
            Approval::Approved { .. } => println!("[agent]    {id} may run: {who} approved it"),
            Approval::Denied { message } => {
                let message = message.as_deref().unwrap_or_default();
                println!("[agent]    {id} must not run: {who} says: {message}");
            }
            // Only a clear yes is a yes.
            _ => println!("[agent]    {id} must not run"),
        }
    }
    Ok(())
}

/// The clerk decides the refund, and double-clicks.
async fn clerk(client: &Client, token: &Token) -> Result<(), Box<dyn Error>> {
    let yes = || Answer::from(DeferredToolResults::new().approve("call_1")).by("the clerk");
    client.decide(token, yes()).await?;
    println!("[clerk]    approves call_1");
    let again = client.decide(token, yes()).await?;
    println!("[clerk]    clicks twice; a repeat: {}", again.replayed);
    Ok(())
}

/// What everybody with the token sees meanwhile.
async fn show(client: &Client, token: &Token) -> Result<(), Box<dyn Error>> {
    let wait = client.describe(token).await?;
    if let Some(decided) = wait.decided {
        for decision in &decided.decisions {
            let who = decision.answered_by.as_deref().unwrap_or("somebody");
            println!(
                "[anybody]  {} is {} by {who}; {} call is not decided yet",
                decision.tool_call_id, decision.decision, decided.pending_calls
            );
        }
    }
    Ok(())
}

/// The owner would rather undo the refund, which cannot be done, and denies the other call.
async fn owner(client: &Client, token: &Token) -> Result<(), Box<dyn Error>> {
    let undo = DeferredToolResults::new().deny("call_1", "Not so fast.");
    if let Err(refused) = client.decide(token, undo).await {
        println!("[owner]    cannot undo it: {refused}");
    }
    let no = DeferredToolResults::new().deny("call_2", "The customer may come back.");
    client
        .decide(token, Answer::from(no).by("the owner"))
        .await?;
    println!("[owner]    denies call_2");
    Ok(())
}
