//! Listening and deciding at the same moment, again and again: whoever comes when, nobody hangs and all hear the same.

use std::{sync::Arc, time::Duration};

use abeyance::{
    broker::{Attached, Broker, Open, Options},
    domain::{
        Answer, Command, Ending, JsonText, Outcome, Spec, Submission, Verdict,
        deadline::Wish,
        limits::{Key, Labels, Name, Namespace},
    },
};
use tempfile::TempDir;
use tokio::{
    sync::Barrier,
    task::{JoinSet, yield_now},
};

use crate::harness::{
    Calls, Kind, Rig, Rigged, TestServer, memory_store, payload, race_rounds, soon, spec,
    spec_with_key, sqlite_store,
};

/// How many rounds run beside each other: enough for full batches, and for the rounds to disturb each other.
const LANES: usize = 16;

/// Runs all rounds, spread over the lanes.
async fn in_lanes<F>(lane: impl Fn(usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut lanes = JoinSet::new();
    for number in 0..LANES {
        lanes.spawn(lane(number));
    }
    while let Some(ended) = lanes.join_next().await {
        ended.expect("no panic in a lane");
    }
}

/// The rounds of one lane.
fn rounds_of(lane: usize) -> impl Iterator<Item = usize> {
    (lane..race_rounds()).step_by(LANES)
}

/// Lets a few others go first: how many depends on the round, so that the order differs from round to round. In every other
/// round also a few milliseconds pass, about as long as a commit takes.
async fn dawdle(round: usize, salt: usize) {
    if round.is_multiple_of(2) {
        let micros = round.wrapping_mul(salt * 97) % 3000;
        tokio::time::sleep(Duration::from_micros(micros as u64)).await;
    }
    for _ in 0..(round.wrapping_mul(salt) >> 3) % 6 {
        yield_now().await;
    }
}

// --- over the wire -----------------------------------------------------------------------------------------------------------

#[derive(Clone, Copy)]
enum Way {
    Token,
    Key,
    Reopen,
}

async fn hear(calls: Calls, way: Way, token: String, key: String) -> String {
    let attached = match way {
        Way::Token => calls.attach(&token).await,
        Way::Key => calls.attach_by_key(&key).await,
        Way::Reopen => calls.wait(spec_with_key("c29", &key)).await,
    };
    let mut attached = attached.expect("attaches");
    assert_eq!(attached.token(), token);
    payload(&attached.outcome().await).to_owned()
}

async fn c29_lane(worker: Calls, resolver: Calls, lane: usize) {
    for round in rounds_of(lane) {
        let key = format!("race-{round}");
        let token = worker.token(spec_with_key("c29", &key)).await;
        let way = [Way::Token, Way::Key, Way::Reopen][round % 3];
        let json = round.to_string();
        let start = Arc::new(Barrier::new(2));
        let listen = tokio::spawn({
            let (worker, token, start) = (worker.clone(), token.clone(), start.clone());
            async move {
                start.wait().await;
                dawdle(round, 5).await;
                hear(worker, way, token, key).await
            }
        });
        start.wait().await;
        dawdle(round, 7).await;
        let settled = soon("resolve", resolver.resolve(&token, &json)).await;
        assert!(!settled.expect("resolves").replayed);
        let heard = soon("the waiter hears it", listen).await;
        assert_eq!(heard.expect("no panic"), json, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_wait_and_resolve_that_start_together_never_hang() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        let (worker, resolver) = (server.calls().await, server.calls().await);
        in_lanes(|lane| c29_lane(worker.clone(), resolver.clone(), lane)).await;
        server.stop().await;
    }
}

/// The first word and the answer in one moment: the wait is opened by the very call that listens, and resolved the moment its
/// token is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_a_wait_that_is_resolved_at_its_first_word_never_hangs() {
    let server = TestServer::start_with(Kind::Sqlite, |_| ()).await;
    let (worker, resolver) = (server.calls().await, server.calls().await);
    in_lanes(|lane| {
        let (worker, resolver) = (worker.clone(), resolver.clone());
        async move {
            for round in rounds_of(lane) {
                let mut wait = worker.wait(spec("c29")).await.expect("opens");
                let token = wait.token().to_owned();
                let json = round.to_string();
                let resolve = soon("resolve", resolver.resolve(&token, &json));
                let (settled, heard) = tokio::join!(resolve, wait.outcome());
                settled.expect("resolves");
                assert_eq!(payload(&heard), json);
            }
        }
    })
    .await;
    server.stop().await;
}

// --- at the broker -----------------------------------------------------------------------------------------------------------

/// A broker without a door.
fn broker(kind: Kind, dir: &TempDir) -> Broker {
    let (store, keys) = match kind {
        Kind::Memory => memory_store(),
        Kind::Sqlite => sqlite_store(&abeyance::store::sqlite::Options::new(dir.path())),
    };
    // What was read is old by the time it is used, as it may be on a busy machine.
    let rig = Rig::default();
    rig.linger(64);
    Broker::new(Arc::new(Rigged::new(store, rig)), keys, Options::default())
}

fn open(key: Option<&str>) -> Open {
    Open {
        spec: Spec {
            namespace: Namespace::new("").expect("the default"),
            name: Name::new("race").expect("a name"),
            key: key.map(|key| Key::new(key).expect("a key")),
            labels: Labels::default(),
        },
        wish: Wish::Timeout(Duration::from_secs(3600)),
        heartbeat_timeout: None,
        question: None,
        question_later: false,
        request_id: None,
    }
}

fn resolve(text: &str) -> Command {
    Command::Resolve(Box::new(Submission::json(
        JsonText::new(text).expect("JSON"),
    )))
}

fn answer(outcome: &Outcome) -> &str {
    match &outcome.ending {
        Ending::Resolved(Answer::Json { json, .. }) => json.as_str(),
        other => panic!("not resolved: {other:?}"),
    }
}

async fn heard(attached: Attached) -> Arc<Outcome> {
    let outcome = soon("the outcome", attached.subscription.outcome()).await;
    if let Some(read) = &attached.wait.record.outcome {
        assert_eq!(*read, *outcome, "told otherwise than read");
    }
    outcome
}

/// Runs every round as a lane of its own task, and checks that nobody is left in the registry.
async fn race<F>(lane: impl Fn(Broker, usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for kind in Kind::BOTH {
        let dir = TempDir::new().expect("a directory");
        let broker = broker(kind, &dir);
        in_lanes(|number| lane(broker.clone(), number)).await;
        assert_eq!(broker.attached(), 0, "a place was not given up");
        broker.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resolve_against_attach_at_the_broker() {
    race(|broker, lane| async move {
        for round in rounds_of(lane) {
            let (_, token, _) = broker.open(open(None)).await.expect("opens");
            let start = Arc::new(Barrier::new(3));
            let listeners = [5, 11].map(|salt| {
                let (broker, token, start) = (broker.clone(), token.clone(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    dawdle(round, salt).await;
                    heard(broker.attach(token.expose()).await.expect("attaches")).await
                })
            });
            start.wait().await;
            dawdle(round, 7).await;
            let json = round.to_string();
            let applied = broker.apply(token.expose(), resolve(&json)).await;
            let (record, verdict) = applied.expect("resolves");
            assert_eq!(verdict, Verdict::Done);
            for listener in listeners {
                let outcome = listener.await.expect("no panic");
                assert_eq!(answer(&outcome), json);
                assert_eq!(Some(&*outcome), record.outcome.as_ref());
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_again_by_key_against_resolve_at_the_broker() {
    race(|broker, lane| async move {
        for round in rounds_of(lane) {
            let key = format!("again-{round}");
            let opened = broker.open(open(Some(&key))).await;
            let (wait, token, resumed) = opened.expect("opens");
            assert!(!resumed);
            let start = Arc::new(Barrier::new(3));
            let (stay, look) = (
                tokio::spawn({
                    let (broker, key, start) = (broker.clone(), key.clone(), start.clone());
                    async move {
                        start.wait().await;
                        dawdle(round, 5).await;
                        let attached = broker.open_attached(open(Some(&key))).await;
                        let attached = attached.expect("opens again");
                        assert!(attached.resumed);
                        (attached.token.clone(), heard(attached).await)
                    }
                }),
                tokio::spawn({
                    let (broker, key, start) = (broker.clone(), key.clone(), start.clone());
                    async move {
                        start.wait().await;
                        dawdle(round, 11).await;
                        broker.open(open(Some(&key))).await.expect("opens again")
                    }
                }),
            );
            start.wait().await;
            dawdle(round, 7).await;
            let json = round.to_string();
            let applied = broker.apply(token.expose(), resolve(&json)).await;
            let (record, _) = applied.expect("resolves");
            let (same, outcome) = stay.await.expect("no panic");
            assert!(same == token, "another token");
            assert_eq!(Some(&*outcome), record.outcome.as_ref());
            assert_eq!(answer(&outcome), json);
            // Whoever only looked saw it pending or decided, and nothing else.
            let (seen, same, resumed) = look.await.expect("no panic");
            assert!(same == token && resumed && seen.record.id == wait.record.id);
            assert!(seen.record.outcome.is_none() || seen.record.outcome == record.outcome);
        }
    })
    .await;
}

/// Two who open the same key at once, and a third who resolves for whoever was first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_against_open_by_one_key_at_the_broker() {
    race(|broker, lane| async move {
        for round in rounds_of(lane) {
            let key = format!("both-{round}");
            let start = Arc::new(Barrier::new(2));
            let both = [5, 11].map(|salt| {
                let (broker, key, start) = (broker.clone(), key.clone(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    dawdle(round, salt).await;
                    let attached = broker.open_attached(open(Some(&key))).await;
                    let attached = attached.expect("opens");
                    let (token, resumed) = (attached.token.clone(), attached.resumed);
                    // Both resolve: the answer is the same, so one of them is a repeat.
                    let applied = broker.apply(token.expose(), resolve("1")).await;
                    let (_, verdict) = applied.expect("resolves");
                    (token, resumed, verdict, heard(attached).await)
                })
            });
            let [one, two] = both;
            let (one, two) = (one.await.expect("no panic"), two.await.expect("no panic"));
            assert!(one.0 == two.0, "two tokens for one key");
            assert!(one.1 != two.1, "exactly one of them made it");
            assert!(one.2 != two.2, "exactly one of them decided");
            assert_eq!(one.3, two.3);
        }
    })
    .await;
}
