//! The broker's process: this very program with `--serve`, on a core of its own.
//!
//! It says `ready ADDRESS` when it serves. Each line that it reads asks for what was committed since the last one; at the end of
//! its input it stops.

use std::{
    ffi::OsStr,
    io::{self, BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};

use abeyance::config::{ServeArgs, flags::ProcessEnvironment};
use clap::Parser;
use tokio::sync::oneshot;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::{
    Result,
    commits::{Collector, Commits},
    machine, noop,
};

/// Serves in `data` until the input ends.
pub fn serve(data: &Path) -> Result<()> {
    // Before any thread starts, so that all of them stay there. If it fails, the load's own warning says so.
    let _ = machine::pin(machine::SERVER_CORE);
    let collector = Collector::default();
    let subscriber = tracing_subscriber::registry().with(collector.clone());
    tracing::subscriber::set_global_default(subscriber)?;
    let flags = [
        OsStr::new("serve"),
        "--listen=127.0.0.1:0".as_ref(),
        "--data-dir".as_ref(),
        data.as_ref(),
    ];
    let Serve { flags } = Serve::try_parse_from(flags)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(flags.worker_threads.count())
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let config = flags.config(&ProcessEnvironment)?;
        let server = abeyance::server::Server::bind(config).await?;
        say(format_args!("ready {}", server.local_addr()))?;
        let (ended, end) = oneshot::channel();
        thread::spawn(move || ended.send(answer(&collector)));
        let stop = async {
            end.await
                .unwrap_or_else(|_| Err("the reader of the input is gone".into()))
        };
        let mut told = Ok(());
        let server = server.add_service(noop::Floor);
        server.run(async { told = stop.await }).await?;
        told
    })
}

/// What `abeyance serve` takes, so that the defaults are the product's own.
#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    flags: ServeArgs,
}

/// Tells of commits until the input ends.
fn answer(collector: &Collector) -> Result<()> {
    for line in io::stdin().lines() {
        line?;
        say(format_args!("{}", collector.take()))?;
    }
    Ok(())
}

fn say(line: std::fmt::Arguments<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// The broker's process, from the load's side. Dropping it kills it.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    process: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    /// Starts it and waits until it serves.
    pub fn start(data: &Path) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .arg(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let ask = process.stdin.take();
        let mut answers = BufReader::new(process.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let address = line.trim().strip_prefix("ready ");
        Ok(Self {
            address: address.ok_or("the broker did not start")?.parse()?,
            process,
            ask,
            answers,
        })
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it committed since the last call.
    pub fn take_commits(&mut self) -> Result<Commits> {
        self.ask.as_mut().ok_or("stopped")?.write_all(b"\n")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        line.parse()
    }

    /// Stops it and waits for its end.
    pub fn stop(mut self) -> Result<()> {
        drop(self.ask.take());
        let status = self.process.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the broker ended with {status}").into())
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
