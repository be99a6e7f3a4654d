//! A token changes hands, and the worker dies meanwhile.
//!
//! ```sh
//! cargo run --example handoff
//! ```
//!
//! Four processes, all of them this program: the one you start, which plays fate; a worker that opens a wait by key and hands its
//! token on; the same worker again, after the first was killed, which finds its wait, asks nobody, and gets the answer; and a
//! resolver, which got the token long before and answers late.

mod common;

use std::{env, error::Error, process::Stdio};

use abeyance::client::{Ask, Client, OpenOptions, Token};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    match arguments.next().as_deref() {
        Some("worker") => worker(&arguments.next().ok_or("a key is missing")?).await,
        Some("resolver") => resolver().await,
        _ => fate().await,
    }
}

/// What a process says, line by line.
type Said = Lines<BufReader<ChildStdout>>;

async fn fate() -> Result<(), Box<dyn Error>> {
    let server = common::broker().await?;
    // A key of its own for each run of the example. A real one names the thing that is waited for, such as an order.
    let key = format!("handoff-{}", uuid::Uuid::now_v7());

    let (mut first, mut said) = start(&server, &["worker", &key])?;
    let token = line(&mut said).await?;
    println!("[fate]     the worker handed its token on");
    // The worker says so once the broker knows it: from then on nobody is asked again.
    println!("{}", line(&mut said).await?);

    let (mut resolver, mut resolver_said) = start(&server, &["resolver"])?;
    let mut tell = resolver.stdin.take().ok_or("no stdin")?;
    tell.write_all(format!("{token}\n").as_bytes()).await?;
    println!("{}", line(&mut resolver_said).await?);

    first.kill().await?;
    println!("[fate]     the worker is killed; the wait does not mind");

    let (mut second, mut said) = start(&server, &["worker", &key])?;
    println!("{}", line(&mut said).await?);
    tell.write_all(b"answer now\n").await?;
    println!("{}", line(&mut resolver_said).await?);
    println!("{}", line(&mut said).await?);

    let ended = (second.wait().await?, resolver.wait().await?);
    if !ended.0.success() || !ended.1.success() {
        return Err("a process failed".into());
    }
    Ok(())
}

/// Opens a wait by its key, or finds it again; asks if nobody was asked; and waits.
async fn worker(key: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&env::var("ABEYANCE_SERVER")?)?;
    let options = OpenOptions::new()
        .key(key)
        .question(r#"{"text":"Which colour?"}"#);
    // `wait_for_external_event` does these steps in one; here they are apart, so that each can be told.
    let wait = client.wait("handoff", options).await?;
    if wait.opened().asked {
        println!("[worker]   found my wait again; it was asked, so I ask nobody");
    }
    client
        .ask(&wait, async |ticket| {
            // The first line that this process writes is how it hands the token on.
            println!("{}", ticket.token.expose());
            Ok::<_, std::io::Error>(Ask::HandedOn)
        })
        .await?;
    if !wait.opened().asked {
        println!("[worker]   waiting");
    }
    let answer = wait.outcome().await?.into_answer()?;
    println!("[worker]   the answer is {answer}");
    Ok(())
}

/// Holds a token, and answers when it is told to.
async fn resolver() -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&env::var("ABEYANCE_SERVER")?)?;
    // Blocks, while this process has nothing else to do.
    let mut input = std::io::stdin().lines();
    let token = Token::new(input.next().ok_or("no token")??);
    println!("[resolver] I have the token, and think about it");
    input.next().ok_or("not told to answer")??;
    let settled = client.resolve(&token, r#""green""#).await?;
    println!("[resolver] answered; the wait is {}", settled.state);
    Ok(())
}

fn start(server: &str, arguments: &[&str]) -> Result<(Child, Said), Box<dyn Error>> {
    let mut child = Command::new(env::current_exe()?)
        .args(arguments)
        .env("ABEYANCE_SERVER", server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.stdout.take().ok_or("no stdout")?;
    Ok((child, BufReader::new(output).lines()))
}

async fn line(lines: &mut Said) -> Result<String, Box<dyn Error>> {
    Ok(lines.next_line().await?.ok_or("a process ended early")?)
}
