//! Waits pending in the store, with nobody attached.

use std::{sync::Arc, time::Duration};

use abeyance::{
    domain::{
        NewWait, Spec, TimeoutSource, Timestamp, Token, WaitId,
        limits::{Labels, Name, Namespace},
    },
    proto::v1::{DescribeWaitRequest, resolve_service_client::ResolveServiceClient, wait::State},
    store::{
        Opened, Store as _,
        sqlite::{Options, SqliteStore},
    },
};
use tempfile::TempDir;
use tokio::time::Instant;

use super::{connect, each, open, resolve, scaled};
use crate::torture::{
    print,
    process::{Process, Setup},
    rng::Rng,
};

/// From its start to its first answer.
const START: Duration = Duration::from_secs(2);

/// Resident memory with nobody attached.
const MEMORY_KIB: u64 = 300 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_pending_waits_cost_no_time_at_start_and_no_memory() {
    let count = scaled(20_000, 100_000, 1_000_000);
    let root = TempDir::new().expect("a temporary directory can be made");
    let mut setup = Setup::new(root.path());
    let tokens = fill(&setup, count).await;

    // After an orderly stop, and after a kill with a log to be read.
    let process = serves_at_once(&mut setup, count, &tokens).await;
    let channel = connect(process.url()).await;
    each(0..2000, 64, move |number| {
        let channel = channel.clone();
        async move {
            let day = Duration::from_secs(86_400);
            drop(open(&channel, day, format!("late-{number}")).await);
        }
    })
    .await;
    process.kill().await;
    let process = serves_at_once(&mut setup, count, &tokens).await;
    let channel = connect(process.url()).await;
    resolve(&channel, expose(&tokens[count / 2]), 0).await;
}

fn expose(token: &Token) -> String {
    token.expose().to_owned()
}

/// Starts the broker and asks it for a wait; measures both, and memory after many more questions.
async fn serves_at_once(setup: &mut Setup, count: usize, tokens: &[Token]) -> Process {
    let begin = Instant::now();
    let process = setup.start().await;
    let channel = connect(process.url()).await;
    let ask = move |token: String| {
        let mut client = ResolveServiceClient::new(channel.clone());
        async move {
            let described = client.describe_wait(DescribeWaitRequest { token }).await;
            let wait = described.expect("it is there").into_inner().wait;
            assert_eq!(wait.expect("`wait` is always set").state(), State::Pending);
        }
    };
    ask(expose(&tokens[0])).await;
    let took = begin.elapsed();

    let tokens: Arc<[Token]> = tokens.into();
    each(0..2000, 32, move |number| {
        ask(expose(&tokens[number * 7919 % tokens.len()]))
    })
    .await;
    let memory = process.status("VmRSS");
    print(&format!(
        "pending: {count} waits, serving after {took:?}, {} MiB with nobody attached",
        memory / 1024
    ));
    assert!(took < START, "it took {took:?} to serve");
    assert!(memory < MEMORY_KIB, "{memory} KiB are resident");
    process
}

/// Opens so many waits in a store of this process and gives their tokens.
async fn fill(setup: &Setup, count: usize) -> Vec<Token> {
    let options = Options::new(&setup.data);
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(&options));
    let store = store.await.expect("no panic").expect("the store opens");
    let store = Arc::new(store);
    let mut rng = Rng::new(1);
    let ids: Vec<_> = (0..count).map(|_| new_id(store.now(), &mut rng)).collect();
    let opening = (store.clone(), ids.clone());
    each(0..count, 2048, move |number| {
        let (store, new) = (opening.0.clone(), new_wait(opening.1[number], number));
        async move {
            let opened = store.open(new).await.expect("the store takes it");
            assert!(matches!(opened, Opened::Created(_)));
        }
    })
    .await;
    let keys = store.key_ring().clone();
    store.close().await;
    let token = |id| keys.token(keys.signing(), id).expect("the key is there");
    ids.into_iter().map(token).collect()
}

fn new_id(now: Timestamp, rng: &mut Rng) -> WaitId {
    let mut random = [0; 10];
    random[..8].copy_from_slice(&rng.next().to_le_bytes());
    random[8..].copy_from_slice(&rng.next().to_le_bytes()[..2]);
    WaitId::new(now, random)
}

/// Each expires at another time, within a day to a year.
fn new_wait(id: WaitId, number: usize) -> NewWait {
    let timeout = Duration::from_secs(86_400 + (number as u64 * 7919) % (365 * 86_400));
    let labels = [
        ("team".to_owned(), "payments".to_owned()),
        ("number".to_owned(), number.to_string()),
    ];
    NewWait {
        id,
        token_key: 1,
        spec: Spec {
            namespace: Namespace::new("default").expect("short"),
            name: Name::new("scale").expect("short"),
            key: None,
            labels: Labels::new("labels", labels.into()).expect("short"),
        },
        timeout,
        timeout_source: TimeoutSource::Timeout,
        lifetime: timeout,
        heartbeat_timeout: None,
        question: None,
        question_later: false,
        request_id: None,
    }
}
