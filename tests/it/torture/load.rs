//! The load: actors that open waits and answer them, and holders that stay attached until the outcome.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use abeyance::proto::v1::{self, wait_spec::Expiry};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::task::TaskTracker;

use super::{
    history::{History, Said, Seen},
    hold::hold,
    process::BOUND,
    rng::Rng,
    wire::{Case, Line, Lost},
};

/// How many actors there are. Half of what they do is opening, half answering.
const ACTORS: u64 = 16;

/// How many connections they share.
const LINES: usize = 4;

/// Below this many unanswered waits actors only open, above the other they only answer.
const FEW: usize = 40;
const MANY: usize = 200;

/// Everybody who uses the broker, and what they know.
pub struct Load {
    lines: Vec<Line>,
    up: watch::Sender<bool>,
    board: Mutex<Board>,
    stop: AtomicBool,
    next: AtomicU32,
    actors: TaskTracker,
    pub holders: TaskTracker,
    rng: Rng,
}

/// What is asked until it is answered.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    Open,
    Describe,
    /// With a request id.
    Say(&'a Said, &'a str),
}

/// The waits whose token was handed on.
#[derive(Default)]
struct Board {
    pending: Vec<Arc<Case>>,
    done: Vec<Arc<Case>>,
}

impl Load {
    /// A load on the broker at `url`, which is up.
    pub fn new(url: &str, history: &Arc<History>, rng: Rng) -> Arc<Self> {
        Arc::new(Self {
            lines: (0..LINES)
                .map(|_| Line::new(url, history.clone()))
                .collect(),
            up: watch::Sender::new(true),
            board: Mutex::default(),
            stop: AtomicBool::new(false),
            next: AtomicU32::new(1),
            actors: TaskTracker::new(),
            holders: TaskTracker::new(),
            rng,
        })
    }

    /// Sets the actors to work.
    pub fn begin(self: &Arc<Self>) {
        for number in 0..ACTORS {
            let (load, rng) = (self.clone(), self.rng.fork(number));
            self.actors.spawn(load.act(rng));
        }
    }

    /// Says whether the broker is up. While it is not, nobody tries.
    pub fn set_up(&self, up: bool) {
        self.up.send_replace(up);
    }

    /// Waits until the broker is up.
    pub async fn is_up(&self) {
        let mut up = self.up.subscribe();
        // The sender lives in `self`.
        let _ = up.wait_for(|up| *up).await;
    }

    /// Any of the connections.
    pub fn line(&self, rng: &mut Rng) -> &Line {
        &self.lines[rng.index(LINES)]
    }

    pub fn history(&self) -> &Arc<History> {
        &self.lines[0].history
    }

    /// Lets the actors finish what they do, answers what nobody answered, waits until everybody who waits was told, and asks for
    /// each wait once more. The broker must be up. Whoever is not told within `bound` hangs.
    pub async fn finish(self: &Arc<Self>, bound: Duration) {
        self.stop.store(true, Ordering::Release);
        self.actors.close();
        timeout(BOUND, self.actors.wait())
            .await
            .expect("an actor hangs in a call that has a bound of its own");
        let cases: Vec<_> = {
            let board = self.board();
            board.pending.iter().chain(&board.done).cloned().collect()
        };
        self.each(&cases, |case, rng| self.clone().last_answer(case, rng))
            .await;
        self.holders.close();
        // Those who hang stay and are found by the last look, which nobody can answer for them.
        if timeout(bound, self.holders.wait()).await.is_err() {
            let text = format!(
                "{} waiters were not told within {bound:?}",
                self.holders.len()
            );
            let began = self.history().begin();
            self.history().saw(0, began, Seen::Hung(text));
        }
        self.each(&cases, |case, rng| self.clone().last_look(case, rng, bound))
            .await;
    }

    async fn each<F: Future<Output = ()> + Send + 'static>(
        &self,
        cases: &[Arc<Case>],
        what: impl Fn(Arc<Case>, Rng) -> F,
    ) {
        for some in cases.chunks(128) {
            let tasks = TaskTracker::new();
            for case in some {
                let rng = self.rng.fork(u64::from(case.number) + 1_000_000);
                tasks.spawn(what(case.clone(), rng));
            }
            tasks.close();
            tasks.wait().await;
        }
    }

    async fn last_answer(self: Arc<Self>, case: Arc<Case>, mut rng: Rng) {
        if !case.is_settled() {
            let said = Said::Resolve(format!("\"last {}\"", case.number));
            let line = self.line(&mut rng);
            self.insist(line, &case, Ask::Say(&said, "")).await;
        }
    }

    /// What every wait must show after the last start: by opening again, by attaching, by looking.
    async fn last_look(self: Arc<Self>, case: Arc<Case>, mut rng: Rng, bound: Duration) {
        let line = self.line(&mut rng);
        self.insist(line, &case, Ask::Open).await;
        self.insist(line, &case, Ask::Describe).await;
        let began = self.history().begin();
        let held = timeout(bound, hold(self.clone(), case.clone(), rng.clone()));
        if held.await.is_err() {
            let seen = Seen::Hung("attached after the last start and not told".to_owned());
            self.history().saw(case.number, began, seen);
        }
    }

    /// Asks until the broker has answered. Whether it agreed.
    pub async fn insist(&self, line: &Line, case: &Case, ask: Ask<'_>) -> bool {
        loop {
            self.is_up().await;
            let asked = match ask {
                Ask::Open => line.open(case).await,
                Ask::Describe => line.describe(case).await,
                Ask::Say(said, request_id) => line.say(case, said, request_id).await,
            };
            match asked {
                Ok(()) => return true,
                Err(Lost::Answered) => return false,
                // Lets others on; the broker may have died and nobody has noticed yet.
                Err(Lost::Cut) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    async fn act(self: Arc<Self>, mut rng: Rng) {
        while !self.stop.load(Ordering::Acquire) {
            let pending = self.board().pending.len();
            if pending < FEW || (pending < MANY && rng.chance(50)) {
                self.clone().work(&mut rng).await;
            } else if let Some(case) = self.pick(&mut rng) {
                self.answer(&case, &mut rng).await;
            }
        }
    }

    /// A worker: opens a wait, hands it on, and mostly stays.
    async fn work(self: Arc<Self>, rng: &mut Rng) {
        let case = self.new_case(rng);
        if rng.chance(50) {
            // `Wait`: the holder opens it. Only then is it known to those who answer in the end.
            drop(self.hold(&case, rng));
            case.handed_on.notified().await;
            return;
        }
        let line = self.line(rng).clone();
        if !self.insist(&line, &case, Ask::Open).await {
            return;
        }
        self.hand_on(&case, rng).await;
        if rng.chance(70) {
            drop(self.hold(&case, rng));
        }
    }

    /// Sets a holder on a wait.
    pub fn hold(self: &Arc<Self>, case: &Arc<Case>, rng: &mut Rng) -> JoinHandle<()> {
        let rng = Rng::new(rng.next());
        self.holders.spawn(hold(self.clone(), case.clone(), rng))
    }

    /// Gives the token to the resolvers, and mostly says so.
    pub async fn hand_on(&self, case: &Arc<Case>, rng: &mut Rng) {
        self.publish(case);
        if rng.chance(60) {
            // One that crashes in between asks again; so a cut is left at that.
            let _ = self.line(rng).mark_asked(case).await;
        }
    }

    /// Gives the token to the resolvers, and to the last look.
    pub fn publish(&self, case: &Arc<Case>) {
        self.board().pending.push(case.clone());
    }

    /// A new wait that nobody answers but by command.
    pub fn plain_case(&self, keyed: bool) -> Arc<Case> {
        self.case(keyed, None, None)
    }

    fn new_case(&self, rng: &mut Rng) -> Arc<Case> {
        let millis = match rng.below(100) {
            0..10 => Some(20 + rng.below(300)),
            10..20 => Some(300 + rng.below(3000)),
            20..50 => Some(3_600_000),
            _ => None,
        };
        let heartbeat = rng.chance(5).then_some(300);
        self.case(rng.chance(50), millis, heartbeat)
    }

    fn case(&self, keyed: bool, millis: Option<u64>, heartbeat: Option<u64>) -> Arc<Case> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let duration = |millis: u64| prost_types::Duration {
            seconds: i64::try_from(millis / 1000).expect("an hour at most"),
            nanos: i32::try_from(millis % 1000 * 1_000_000).expect("below a second"),
        };
        let spec = v1::WaitSpec {
            name: "torture".to_owned(),
            key: if keyed {
                format!("key-{number}")
            } else {
                String::new()
            },
            expiry: Some(millis.map_or(Expiry::NoTimeout(true), |m| Expiry::Timeout(duration(m)))),
            heartbeat_timeout: heartbeat.map(duration),
            labels: [("number".to_owned(), number.to_string())].into(),
            ..Default::default()
        };
        let request_id = if keyed {
            String::new()
        } else {
            format!("request-{number}")
        };
        Case::new(number, spec, request_id)
    }

    /// A wait that nobody answered yet; now and then one that somebody did.
    fn pick(&self, rng: &mut Rng) -> Option<Arc<Case>> {
        let mut board = self.board();
        if !board.done.is_empty() && rng.chance(15) {
            let at = rng.index(board.done.len());
            return Some(board.done[at].clone());
        }
        while !board.pending.is_empty() {
            let at = rng.index(board.pending.len());
            if !board.pending[at].is_settled() {
                return Some(board.pending[at].clone());
            }
            let case = board.pending.swap_remove(at);
            board.done.push(case);
        }
        None
    }

    /// A resolver, or another worker: does one thing to a wait, and insists on it or leaves it at a cut.
    async fn answer(&self, case: &Arc<Case>, rng: &mut Rng) {
        let line = self.line(rng).clone();
        let patient = rng.chance(70);
        match rng.below(100) {
            0..50 => self.say(&line, case, patient, rng).await,
            50..60 => {
                let said = Said::Fail(format!("no {}", rng.below(1000)));
                let _ = line.say(case, &said, "").await;
            }
            60..68 => drop(line.describe(case).await),
            68..72 => drop(line.heartbeat(case).await),
            72..78 => drop(
                line.cancel(case, &format!("enough {}", rng.below(1000)))
                    .await,
            ),
            78..92 => self.compete(case, rng).await,
            _ => drop(self.insist(&line, case, Ask::Open).await),
        }
    }

    async fn say(&self, line: &Line, case: &Arc<Case>, patient: bool, rng: &mut Rng) {
        let n = rng.below(1_000_000);
        let said = Said::Resolve(format!("{{\"n\":{n},\"by\":\"resolver\"}}"));
        let request_id = if rng.chance(50) {
            format!("answer-{n}")
        } else {
            String::new()
        };
        if patient {
            self.insist(line, case, Ask::Say(&said, &request_id)).await;
        } else if line.say(case, &said, &request_id).await == Err(Lost::Cut) {
            return;
        }
        match rng.below(100) {
            // A retry, a double click in other words, another opinion, and another opinion under the same id.
            0..20 => drop(line.say(case, &said, &request_id).await),
            20..35 => {
                let again = Said::Resolve(format!("{{ \"by\": \"resolver\", \"n\": {n} }}"));
                let _ = line.say(case, &again, "").await;
            }
            35..50 => drop(line.say(case, &Said::Fail("late".to_owned()), "").await),
            50..60 => {
                let other = Said::Resolve(format!("[{n}]"));
                let _ = line.say(case, &other, &request_id).await;
            }
            _ => {}
        }
    }

    /// Three answer at once, on connections of their own.
    async fn compete(&self, case: &Arc<Case>, rng: &mut Rng) {
        let n = rng.below(1000);
        let (a, b, c) = (self.line(rng), self.line(rng), self.line(rng));
        let (yes, no) = (
            Said::Resolve(format!("[\"yes\",{n}]")),
            Said::Resolve(format!("[\"no\",{n}]")),
        );
        let fail = Said::Fail(format!("neither {n}"));
        let _ = tokio::join!(
            a.say(case, &yes, ""),
            b.say(case, &no, ""),
            c.say(case, &fail, "")
        );
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
