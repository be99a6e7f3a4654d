//! The broker's process: this very program with `--serve`, on a core of its own.
//!
//! It says `ready ADDRESS` when it serves. Each line that it reads asks for what was committed since the last one; at the end of
//! its input it stops.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use abeyance::{config::{Config, Workers}, server::Parts};
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads("auto".parse::<Workers>()?.count())
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let config = Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            ..Config::new(data)
        };
        let mut parts = parts(data)?;
        parts.routes = parts.routes.add_service(noop::Floor);
        let server = abeyance::server::Server::from_parts(config, parts).await?;
        say(format_args!("ready {}", server.local_addr()))?;
        let (told, stop) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            answer(&collector)?;
            let _ = told.send(());
            Ok::<_, crate::Fault>(())
        });
        Ok(server
            .run(async {
                let _ = stop.await;
            })
            .await?)
    })
}

fn parts(data: &Path) -> Result<Parts> {
    use std::sync::Arc;
    let store = abeyance::store::sqlite::SqliteStore::open(&abeyance::store::sqlite::Options::new(data))?;
    let keys = store.key_ring().clone();
    let broker = abeyance::broker::Broker::new(Arc::new(store), keys, Default::default());
    let routes = abeyance::grpc::routes(broker.clone(), Default::default(), Default::default());
    let mut parts = Parts::of(routes);
    let expiry = broker.expiry();
    parts.tasks.push(("expiry", Box::new(move |stop| Box::pin(async move {
        stop.run_until_cancelled(expiry).await; Ok(())
    }))));
    let b = broker.clone();
    parts.begin_drain = Box::new(move || b.begin_drain());
    parts.close = Box::new(move || Box::pin(async move { broker.close().await }));
    Ok(parts)
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
