//! What is measured, in which order.

use std::{
    collections::VecDeque,
    future::Future,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Uri;
use tokio::task::JoinSet;

use crate::{
    Options, Result,
    child::Server,
    commits::Commits,
    disk,
    load::{Sample, Span, closed_loop, percentile},
    machine::{self, CpuTimes},
    messages::{self, OpenTemplate},
    noop,
    questions::Ask,
    wire::{Connection, Messages, frame, rpc},
};

/// How many callers share a connection.
const CALLERS_PER_CONNECTION: usize = 128;

/// How many callers there are.
pub const CALLERS: [usize; 3] = [1, 64, 512];

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Noop,
    OpenWait,
    /// Waits are answered in the order in which they were opened.
    Resolve,
    /// In any order, over all waits that are open: each answer touches other pages of the store.
    ResolveMixed,
    /// An answer of 2 KiB, oldest first, to different kinds of question.
    ResolveTo(Ask),
    /// `Wait`, token known, `Resolve` on another connection, the waiter has the payload. The latency is the second half.
    Cycle,
}

/// One line of the result.
#[derive(Debug)]
pub struct Row {
    pub operation: Operation,
    pub callers: usize,
    /// Operations per second.
    pub rate: f64,
    /// Microseconds.
    pub p50: f64,
    /// Microseconds.
    pub p99: f64,
    /// Processor time of the broker for each operation, in microseconds.
    pub cpu: f64,
    /// What the store committed meanwhile.
    pub commits: Commits,
    /// How much of a core others used, as a share.
    pub disturbed: f64,
}

/// What one run found.
#[derive(Debug)]
pub struct Run {
    /// The median `fdatasync` after an append of 4 KiB, in microseconds.
    pub sync_p50: f64,
    pub rows: Vec<Row>,
    /// Memory of the broker for each `Wait` stream that it holds, in bytes.
    pub held_bytes: f64,
}

impl Run {
    pub fn row(&self, operation: Operation, callers: usize) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| (row.operation, row.callers) == (operation, callers))
    }

    /// The mean rate of an operation over all its loads.
    pub fn rate(&self, operation: Operation, callers: usize) -> Option<f64> {
        let rows = self.rows.iter();
        let rates: Vec<f64> = rows
            .filter(|row| (row.operation, row.callers) == (operation, callers))
            .map(|row| row.rate)
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    }
}

/// Measures everything once.
pub async fn run(options: &Options) -> Result<Run> {
    std::fs::create_dir_all(options.folder())?;
    let folder = tempfile::tempdir_in(options.folder())?;
    // Before and after: disks have their moods.
    let mut syncs = disk::syncs(folder.path(), options.span().length / 2)?;
    let mut rows = loads(&folder.path().join("loads"), options.span()).await?;
    rows.extend(questions(&folder.path().join("questions"), options.span()).await?);
    syncs.extend(disk::syncs(folder.path(), options.span().length / 2)?);
    syncs.sort_unstable();
    let held_bytes = held(&folder.path().join("held"), options).await?;
    Ok(Run {
        sync_p50: percentile(&syncs, 0.5),
        rows,
        held_bytes,
    })
}

async fn loads(data: &Path, span: Span) -> Result<Vec<Row>> {
    let mut rig = Rig::new(data, span).await?;
    for callers in CALLERS {
        rig.noop(callers).await?;
    }
    for callers in CALLERS {
        let opened = rig.open(callers).await?;
        let (ordered, other) = halves(opened);
        let json = messages::payload();
        rig.resolve(Operation::Resolve, callers, ordered, &json)
            .await?;
        rig.resolve(Operation::ResolveMixed, callers, mixed(other), &json)
            .await?;
    }
    for callers in [1, 64] {
        rig.cycle(callers).await?;
    }
    rig.server.stop()?;
    Ok(rig.rows)
}

/// Answers to different kinds of question, on a broker of their own. Forth and back, so that a broker that slows down as it fills
/// favours none.
async fn questions(data: &Path, span: Span) -> Result<Vec<Row>> {
    let mut rig = Rig::new(data, span).await?;
    for ask in Ask::ALL.into_iter().chain(Ask::ALL.into_iter().rev()) {
        rig.open = Arc::new(OpenTemplate::asking(ask.question()));
        let opened = rig.open(64).await?;
        // Opening is not what is measured here.
        rig.rows.pop();
        rig.resolve(Operation::ResolveTo(ask), 64, opened, &ask.answer())
            .await?;
    }
    rig.server.stop()?;
    Ok(rig.rows)
}

/// A broker under load.
struct Rig {
    server: Server,
    /// Those of the callers and, for a cycle, of the waiters.
    connections: Arc<[Connection]>,
    /// The connection of resolvers in a cycle.
    resolvers: Connection,
    open: Arc<OpenTemplate>,
    span: Span,
    rows: Vec<Row>,
}

impl Rig {
    async fn new(data: &Path, span: Span) -> Result<Self> {
        let server = Server::start(data)?;
        let mut connections = Vec::new();
        for _ in 0..CALLERS[2].div_ceil(CALLERS_PER_CONNECTION) {
            connections.push(Connection::open(server.address).await?);
        }
        Ok(Self {
            resolvers: Connection::open(server.address).await?,
            server,
            connections: connections.into(),
            open: Arc::new(OpenTemplate::new()),
            span,
            rows: Vec::new(),
        })
    }

    /// Runs one load and keeps what it brought.
    async fn measure<F, R>(
        &mut self,
        operation: Operation,
        callers: usize,
        call: F,
    ) -> Result<Sample>
    where
        F: Fn(usize) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Duration>>> + Send + 'static,
    {
        self.server.take_commits()?;
        let (before, start) = (CpuTimes::now(self.server.id())?, Instant::now());
        let sample = closed_loop(callers, self.span, call).await?;
        let used = before.until(CpuTimes::now(self.server.id())?);
        let row = Row {
            operation,
            callers,
            rate: sample.rate(),
            p50: sample.percentile(0.5),
            p99: sample.percentile(0.99),
            cpu: used.broker * 1e6 / sample.operations as f64,
            commits: self.server.take_commits()?,
            disturbed: used.others / start.elapsed().as_secs_f64(),
        };
        eprintln!("{row:?}");
        self.rows.push(row);
        Ok(sample)
    }

    /// The connections of so many callers.
    fn connections(&self, callers: usize) -> impl Fn(usize) -> Connection + use<> {
        let connections = self.connections.clone();
        let count = callers.div_ceil(CALLERS_PER_CONNECTION);
        move |caller| connections[caller % count].clone()
    }

    async fn noop(&mut self, callers: usize) -> Result<()> {
        let connection = self.connections(callers);
        let (rpc, framed) = (rpc(noop::RPC), frame(&()));
        self.measure(Operation::Noop, callers, move |caller| {
            timed_call(connection(caller), rpc.clone(), framed.clone())
        })
        .await?;
        Ok(())
    }

    /// Opens waits. Gives the responses.
    async fn open(&mut self, callers: usize) -> Result<Vec<Bytes>> {
        let connection = self.connections(callers);
        let rpc = rpc("abeyance.v1.WaitService/OpenWait");
        let template = self.open.clone();
        let responses = Arc::new(Mutex::new(Vec::new()));
        let kept = responses.clone();
        self.measure(Operation::OpenWait, callers, move |caller| {
            let (connection, rpc, kept) = (connection(caller), rpc.clone(), kept.clone());
            let request = template.fresh();
            async move {
                let start = Instant::now();
                let response = connection.unary(&rpc, request).await?;
                let took = start.elapsed();
                lock(&kept).push(response);
                Ok(Some(took))
            }
        })
        .await?;
        let responses = std::mem::take(&mut *lock(&responses));
        Ok(responses)
    }

    /// Answers the waits of these responses, in their order.
    async fn resolve(
        &mut self,
        operation: Operation,
        callers: usize,
        opened: Vec<Bytes>,
        json: &str,
    ) -> Result<()> {
        let mut requests = VecDeque::with_capacity(opened.len());
        for response in opened {
            requests.push_back(messages::resolve(messages::opened_token(response)?, json));
        }
        let connection = self.connections(callers);
        let rpc = rpc("abeyance.v1.ResolveService/Resolve");
        let requests = Mutex::new(requests);
        self.measure(operation, callers, move |caller| {
            let request = lock(&requests).pop_front();
            let (connection, rpc) = (connection(caller), rpc.clone());
            async move {
                match request {
                    Some(request) => timed_call(connection, rpc, request).await,
                    None => Ok(None),
                }
            }
        })
        .await?;
        Ok(())
    }

    async fn cycle(&mut self, callers: usize) -> Result<()> {
        let connection = self.connections(callers);
        let (resolvers, template) = (self.resolvers.clone(), self.open.clone());
        self.measure(Operation::Cycle, callers, move |caller| {
            cycle(connection(caller), resolvers.clone(), template.fresh())
        })
        .await?;
        Ok(())
    }
}

async fn timed_call(connection: Connection, rpc: Uri, request: Bytes) -> Result<Option<Duration>> {
    let start = Instant::now();
    connection.unary(&rpc, request).await?;
    Ok(Some(start.elapsed()))
}

/// Opens a wait and stays attached, answers it from elsewhere, and reads both to their ends. Gives the time from the answer's
/// departure to its arrival.
async fn cycle(waiter: Connection, resolver: Connection, open: Bytes) -> Result<Option<Duration>> {
    let (mut stream, token) = wait(&waiter, open).await?;
    let answer = messages::resolve(token, &messages::payload());
    let rpc = rpc("abeyance.v1.ResolveService/Resolve");
    let start = Instant::now();
    let outcome = async {
        let payload = loop {
            let message = stream.next().await?.ok_or("a stream ended early")?;
            if let Some(payload) = messages::answer(messages::event(message)?)? {
                break payload;
            }
        };
        let took = start.elapsed();
        if payload.len() != messages::PAYLOAD_BYTES {
            return Err("another answer arrived".into());
        }
        stream.finish().await?;
        Ok(took)
    };
    let (_, took) = tokio::try_join!(resolver.unary(&rpc, answer), outcome)?;
    Ok(Some(took))
}

/// Opens a wait and stays attached. Gives the stream behind its first event, and the token.
async fn wait(connection: &Connection, open: Bytes) -> Result<(Messages, String)> {
    let rpc = rpc("abeyance.v1.WaitService/Wait");
    let mut stream = connection.call(&rpc, open).await?;
    let first = stream.next().await?.ok_or("a stream ended early")?;
    Ok((stream, messages::started(messages::event(first)?)?))
}

/// The memory that a broker needs for each `Wait` stream, all on one connection.
async fn held(data: &Path, options: &Options) -> Result<f64> {
    let mut rig = Rig::new(data, options.span()).await?;
    // Fills caches and pools, so that only what belongs to streams is added.
    rig.open(64).await?;
    let before = machine::resident(rig.server.id())?;
    let mut opening = JoinSet::new();
    for _ in 0..64 {
        let (connection, open) = (rig.connections[0].clone(), rig.open.clone());
        let count = options.held().div_ceil(64);
        opening.spawn(async move { hold(&connection, &open, count).await });
    }
    let mut streams = Vec::new();
    while let Some(opened) = opening.join_next().await {
        streams.extend(opened??);
    }
    // What the last opens borrowed is given back.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let grown = machine::resident(rig.server.id())? - before;
    let count = streams.len();
    drop(streams);
    rig.server.stop()?;
    Ok(grown / count as f64)
}

async fn hold(
    connection: &Connection,
    template: &OpenTemplate,
    count: usize,
) -> Result<Vec<Messages>> {
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(wait(connection, template.fresh()).await?.0);
    }
    Ok(streams)
}

/// Every other one, and the rest.
fn halves<T>(all: Vec<T>) -> (Vec<T>, Vec<T>) {
    let (mut even, mut odd) = (Vec::new(), Vec::new());
    for (at, one) in all.into_iter().enumerate() {
        if at % 2 == 0 {
            even.push(one)
        } else {
            odd.push(one)
        }
    }
    (even, odd)
}

/// The same in another order, which is the same each time.
fn mixed<T>(mut all: Vec<T>) -> Vec<T> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..all.len()).rev() {
        // xorshift64: good enough to mix.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        all.swap(at, (random % (at as u64 + 1)) as usize);
    }
    all
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
