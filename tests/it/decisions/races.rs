//! Many resolvers, many calls, all at once, and sometimes the end in the middle: each call is decided once, and what each resolver was
//! told agrees with what the worker gets.

use std::{collections::BTreeMap, future::poll_fn, sync::Arc, time::Duration};

use abeyance::{
    broker::{Broker, Error, News, Open, Options},
    domain::{
        Command, Decided, Ending, KeyRing, Outcome, Record, Refusal, Spec, State, Submission,
        Timestamp, Verdict, WaitId,
        deadline::Wish,
        limits::{Labels, Name},
        token::TokenKey,
    },
    store::{ManualClock, Store, memory::MemoryStore, sqlite::SqliteStore},
};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{
    CALLS, answers, asks, decider, full, given, gives, in_order, is_denied, part, said_by, with_id,
};
use crate::{
    harness::{race_rounds, soon},
    store_fixture::{SECOND, START, cancel, fail, namespace, options},
    torture::rng::{Rng, seed},
};

const RESOLVERS: u64 = 8;
/// How many answers each resolver gives.
const ANSWERS: u64 = 3;
/// How many waits race at the same time.
const ABREAST: usize = 25;

/// Equal values in different bytes, and one that differs.
const TEXTS: [&str; 4] = [r#"{"v":1}"#, r#"{ "v" : 1 }"#, r#"{"v" :1}"#, r#"{"v":2}"#];

/// Whether two of [`TEXTS`] are the same value.
fn same(a: &str, b: &str) -> bool {
    (a == TEXTS[3]) == (b == TEXTS[3])
}

/// One answer, and what its sender was told.
#[derive(Clone, Debug)]
struct Sent {
    name: String,
    partial: bool,
    id: Option<String>,
    calls: BTreeMap<&'static str, &'static str>,
}

type Told = Result<(Record, Verdict), Error>;

impl Sent {
    fn random(rng: &mut Rng, name: String) -> Self {
        let partial = !rng.chance(12);
        let most = if partial { 3 } else { CALLS.len() as u64 };
        let count = 1 + rng.below(most);
        let mut calls = BTreeMap::new();
        while calls.len() < count as usize {
            // Mostly the same value, so that there are repeats.
            let text = if rng.chance(20) { 3 } else { rng.below(3) };
            calls.insert(CALLS[rng.below(6) as usize], TEXTS[text as usize]);
        }
        // Few ids, so that some are used again.
        let id = rng.chance(40).then(|| format!("id{}", rng.below(6)));
        Self {
            name,
            partial,
            id,
            calls,
        }
    }

    fn command(&self) -> Command {
        let text = gives(self.calls.iter().map(|(id, text)| (*id, *text)));
        let answer: Submission = if self.partial {
            part(&text)
        } else {
            full(&text)
        };
        let answer = said_by(&self.name, answer);
        answers(match &self.id {
            Some(id) => with_id(id, answer),
            None => answer,
        })
    }

    fn is_recorded(&self, decided: &Decided) -> bool {
        let recorded =
            |(id, text): (&&str, &&str)| given(decided, id).is_some_and(|g| same(&g, text));
        self.calls.iter().all(recorded)
    }
}

/// How a wait may end but for its last decision.
#[derive(Clone, Copy, Debug)]
enum End {
    Decisions,
    Fail,
    Cancel,
    Expire,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory() {
    let clock = Arc::new(ManualClock::new(START));
    let store = Arc::new(MemoryStore::new(clock.clone(), START));
    race(store, KeyRing::new(1, TokenKey::new([7; 32])), &clock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite() {
    let clock = Arc::new(ManualClock::new(START));
    let dir = TempDir::new().expect("a directory");
    let store = SqliteStore::open(&options(dir.path(), clock.clone())).expect("opens");
    let keys = store.key_ring().clone();
    race(Arc::new(store), keys, &clock).await;
}

async fn race(store: Arc<dyn Store>, keys: KeyRing, clock: &Arc<ManualClock>) {
    let broker = Broker::new(store, keys, Options::default());
    let seed = seed();
    let mut ends = BTreeMap::new();
    for round in 0..race_rounds().div_ceil(ABREAST) {
        let mut waits = JoinSet::new();
        for n in 0..ABREAST {
            let rng = Rng::new(seed).fork((round * ABREAST + n) as u64);
            waits.spawn(one(broker.clone(), Arc::clone(clock), rng));
        }
        for state in soon("the round ends", waits.join_all()).await {
            *ends.entry(state).or_insert(0) += 1;
        }
    }
    assert_eq!(broker.attached(), 0);
    broker.close().await;
    let few = race_rounds() < 200;
    assert!(
        few || ends.len() == 4,
        "not every ending came: {ends:?} (seed {seed})"
    );
}

async fn one(broker: Broker, clock: Arc<ManualClock>, mut rng: Rng) -> State {
    let end = match rng.below(6) {
        0 => End::Fail,
        1 => End::Cancel,
        2 => End::Expire,
        _ => End::Decisions,
    };
    let timeout = if matches!(end, End::Expire) {
        SECOND
    } else {
        Duration::from_secs(86_400)
    };
    let (wait, token, _) = broker.open(open(timeout)).await.expect("opens");
    let id = wait.record.id;
    let worker = tokio::spawn(hear(broker.clone(), token.expose().to_owned()));
    let late = tokio::spawn({
        let (broker, token, turns) = (broker.clone(), token.expose().to_owned(), rng.below(40));
        async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            hear(broker, token).await
        }
    });
    let mut resolvers = JoinSet::new();
    for resolver in 0..RESOLVERS {
        let (broker, mut rng) = (broker.clone(), rng.fork(resolver));
        resolvers.spawn(async move { resolve(&broker, id, resolver, &mut rng).await });
    }
    let turns = rng.below(60);
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    match end {
        End::Decisions => {}
        End::Fail => drop(broker.apply_to(id, fail("end")).await),
        End::Cancel => drop(broker.apply_to(id, cancel("end")).await),
        End::Expire => {
            clock.advance(SECOND);
            drop(broker.apply_to(id, Command::Expire).await);
        }
    }
    let told: Vec<_> = resolvers.join_all().await.into_iter().flatten().collect();
    // Whatever is left, so that every wait ends.
    drop(broker.apply_to(id, fail("end")).await);
    let record = broker.get(id).await.expect("is there").record;
    check(&record, &told);
    for heard in [worker, late] {
        check_heard(&record, heard.await.expect("no panic"));
    }
    record.state()
}

fn open(timeout: Duration) -> Open {
    Open {
        spec: Spec {
            namespace: namespace(""),
            name: Name::new("race").expect("a name"),
            key: None,
            labels: Labels::default(),
        },
        wish: Wish::Timeout(timeout),
        heartbeat_timeout: None,
        question: Some(asks(&CALLS, false)),
        question_later: false,
        request_id: None,
    }
}

async fn resolve(broker: &Broker, id: WaitId, resolver: u64, rng: &mut Rng) -> Vec<(Sent, Told)> {
    let mut told: Vec<(Sent, Told)> = Vec::new();
    for n in 0..ANSWERS {
        // Sometimes a retry of what was sent before, as after a lost reply.
        let sent = match told.last() {
            Some((before, _)) if rng.chance(25) => before.clone(),
            _ => Sent::random(rng, format!("r{resolver}.{n}")),
        };
        let reply = broker.apply_to(id, sent.command()).await;
        told.push((sent, reply));
    }
    told
}

/// Everything that an attached worker hears.
async fn hear(broker: Broker, token: String) -> (Vec<Arc<Decided>>, Arc<Outcome>) {
    let attached = broker.attach(&token).await.expect("attaches");
    let (mut parts, mut count) = (Vec::new(), 0);
    loop {
        match poll_fn(|cx| attached.subscription.poll_news(cx, count)).await {
            News::Part(part) => {
                assert!(part.progress.decided > count, "progress only grows");
                count = part.progress.decided;
                assert_eq!(part.decided.entries().len(), count);
                assert_eq!(part.progress.pending, CALLS.len() - count);
                parts.push(part.decided.clone());
            }
            News::Outcome(outcome) => return (parts, outcome),
        }
    }
}

fn check_heard(record: &Record, (parts, outcome): (Vec<Arc<Decided>>, Arc<Outcome>)) {
    assert_eq!(Some(&*outcome), record.outcome.as_ref());
    let last = record.decided().expect("decisions");
    for part in parts {
        assert!(
            last.entries().starts_with(part.entries()),
            "progress agrees with the outcome"
        );
        for id in in_order(&part) {
            assert_eq!(given(&part, &id), given(last, &id));
            assert_eq!(decider(&part, &id), decider(last, &id));
        }
    }
}

fn check(record: &Record, told: &[(Sent, Told)]) {
    let decided = record.decided().expect("decisions");
    let outcome = record.outcome.as_ref().expect("settled");
    let order = in_order(decided);
    let mut sorted = order.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), order.len(), "each call is decided once");
    let times: Vec<Timestamp> = decided.entries().iter().map(|entry| entry.time).collect();
    assert!(times.is_sorted() && times.last() <= Some(&outcome.settle_time));
    // Who decided each call, byte for byte.
    for call in CALLS {
        if !order.iter().any(|id| id == call) {
            let reason = match &outcome.ending {
                Ending::Resolved(_) => panic!("{call} is left"),
                Ending::Failed(failure) => failure.reason.as_str(),
                Ending::Cancelled { reason } => reason.as_str(),
                Ending::Expired { reason, .. } => reason,
            };
            assert!(is_denied(decided, call, reason), "{call}: {decided:?}");
            continue;
        }
        let by = decider(decided, call);
        let first = told.iter().filter(|(sent, _)| sent.name == by);
        let mut first = first.filter(|(_, told)| matches!(told, Ok((_, Verdict::Done))));
        let (sent, _) = first.next().expect("whoever decided was told OK");
        assert!(first.next().is_none(), "done once");
        assert_eq!(
            given(decided, call).as_deref(),
            sent.calls.get(call).copied()
        );
    }
    let done: Vec<&Sent> = told
        .iter()
        .filter(|(_, told)| matches!(told, Ok((_, Verdict::Done))))
        .map(|(sent, _)| sent)
        .collect();
    for (sent, reply) in told {
        check_one(record, decided, &done, sent, reply);
    }
    assert!(done.iter().filter(|sent| !sent.partial).count() <= 1);
}

fn check_one(record: &Record, decided: &Decided, done: &[&Sent], sent: &Sent, reply: &Told) {
    match reply {
        Ok((then, Verdict::Done)) => {
            assert!(sent.is_recorded(decided), "{sent:?} {decided:?}");
            let owns = CALLS.iter().any(|call| decider(decided, call) == sent.name);
            assert!(owns, "who changed nothing was a repeat: {sent:?}");
            let then = then.decided().expect("decisions");
            assert!(decided.entries().starts_with(then.entries()));
        }
        Ok((then, Verdict::Repeat)) => {
            assert!(sent.is_recorded(decided), "{sent:?} {decided:?}");
            let then = then.decided().expect("decisions");
            for call in sent.calls.keys() {
                assert_eq!(
                    decider(then, call),
                    decider(decided, call),
                    "names the first"
                );
            }
        }
        Err(Error::Refused(Refusal::AlreadyDecided { call, .. })) => {
            let recorded = given(decided, call.as_str()).expect("it is decided");
            assert!(!same(&recorded, sent.calls[call.as_str()]), "{sent:?}");
        }
        Err(Error::Refused(Refusal::AlreadySettled {
            state, settle_time, ..
        })) => {
            assert_eq!((*state, *settle_time), (record.state(), record.last_time));
            assert!(!sent.partial || !sent.is_recorded(decided), "{sent:?}");
        }
        Err(Error::Refused(Refusal::InvalidAnswer { .. })) => {
            assert!(!sent.partial && sent.calls.len() < CALLS.len(), "{sent:?}");
        }
        Err(Error::Refused(Refusal::RequestIdReused { .. })) => {
            let first = done
                .iter()
                .find(|other| other.id == sent.id && other.id.is_some());
            let first = first.expect("somebody used it");
            assert!(first.calls != sent.calls || first.partial != sent.partial);
        }
        other => panic!("{sent:?} {other:?}"),
    }
}
