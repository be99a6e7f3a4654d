//! The Rust driver of `tests/interop`: does with the client what lines of JSON ask for. `tests/interop/README.md` is the protocol.

mod forms;
mod ops;
mod stock;
mod warnings;

use std::{
    io::{BufRead, Write},
    sync::Arc,
};

use serde_json::{Value, json};

use crate::ops::Driver;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let warnings = warnings::collect();
    let driver = Arc::new(Driver::new(warnings));
    say(&json!({"ready": {"language": "rust"}}))?;
    let (requests, mut asked) = tokio::sync::mpsc::unbounded_channel();
    // A thread of its own, since reading standard input cannot be cancelled.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            // Nobody listens once the driver stops.
            let _ = requests.send(line);
        }
    });
    while let Some(line) = asked.recv().await {
        let request: Value = serde_json::from_str(&line?)?;
        let driver = driver.clone();
        tokio::spawn(async move {
            let id = request["id"].clone();
            let answer = match driver.carry_out(&request).await {
                Ok(answer) => json!({"id": id, "ok": answer}),
                Err(error) => json!({"id": id, "error": error.to_json()}),
            };
            // The runner is gone: there is nobody to tell.
            let _ = say(&answer);
        });
    }
    Ok(())
}

fn say(line: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
