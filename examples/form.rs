//! A question with a form: the answer must fit a JSON Schema, as `RequestInput` of Google ADK asks it.
//!
//! ```sh
//! cargo run --example form
//! ```
//!
//! An answer that does not fit is refused to whoever sent it, with every fault named, and the wait stays open. The worker only ever
//! gets an answer that fits.

mod common;

use std::{error::Error, time::Duration};

use abeyance::client::{Client, Error as ClientError, Form, OpenOptions};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&common::broker().await?)?;

    let schema = json!({
        "type": "object",
        "properties": {
            "days": { "type": "integer", "minimum": 1, "maximum": 30 },
            "from": { "type": "string", "format": "date" },
            "reason": { "enum": ["holiday", "illness", "other"] },
        },
        "required": ["days", "from", "reason"],
        "additionalProperties": false,
    });
    let form = Form::new("How long will you be away?")
        .payload(json!({ "employee": "e-17", "days_left": 12 }).to_string())
        .schema(schema.to_string());
    let options = OpenOptions::new()
        .timeout(Duration::from_secs(60))
        .label("example", "form")
        .form(form);
    let wait = client.wait("time-off", options).await?;
    println!("[worker]   asks: How long will you be away?");

    let bad = json!({ "days": "3", "from": "tomorrow", "why": "holiday" });
    println!("[person]   answers {bad}");
    match client.resolve(wait.token(), bad.to_string()).await {
        Err(error) => explain(&error),
        Ok(_) => return Err("a bad answer was taken".into()),
    }

    let good = json!({ "days": 3, "from": "2027-02-01", "reason": "holiday" });
    println!("[person]   answers {good}");
    client.resolve(wait.token(), good.to_string()).await?;

    let answer: Value = serde_json::from_str(&wait.outcome().await?.into_answer()?)?;
    println!("[worker]   {} days are booked", answer["days"]);
    Ok(())
}

/// What a page would show beside its fields.
fn explain(error: &ClientError) {
    println!("[person]   that did not fit, and nothing was recorded:");
    for violation in error.violations() {
        println!(
            "[person]     {}: {}",
            violation.field, violation.description
        );
    }
}
