//! What only the embedded store must do: other holders of its lock, long readers, faults of the file, and power.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command as Process, Stdio},
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use abeyance::{
    domain::{Command, NewWait, State, Timestamp, Verdict, WaitId},
    store::{
        Clock, Error, ManualClock, Opened, Store,
        memory::MemoryStore,
        sqlite::{Options, SqliteStore},
    },
};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::store_fixture::{
    self, Env, SECOND, START, cancel, key, namespace, new_wait, options, question, resolve,
};

/// A connection of somebody else.
fn stranger(dir: &Path) -> Connection {
    let db = Connection::open(database(dir)).expect("opens");
    db.busy_timeout(Duration::from_secs(30)).expect("set");
    db
}

fn database(dir: &Path) -> PathBuf {
    dir.join("abeyance.db")
}

fn wal_bytes(dir: &Path) -> u64 {
    let wal = fs::metadata(dir.join("abeyance.db-wal"));
    wal.map_or(0, |m| m.len())
}

/// Opens many waits at once.
async fn open_many(store: &Arc<dyn Store>, count: usize) -> Vec<WaitId> {
    let mut opens = JoinSet::new();
    for _ in 0..count {
        let store = Arc::clone(store);
        opens.spawn(async move {
            let mut new = new_wait(START);
            new.question = Some(question("\"please\""));
            let id = new.id;
            let opened = store.open(new).await.expect("open");
            assert!(matches!(opened, Opened::Created(_)));
            id
        });
    }
    opens.join_all().await
}

/// C55, a tenth as long: another process holds the write lock.
#[tokio::test]
async fn c55_whoever_waits_long_enough_is_answered_and_a_repeat_is_fine() {
    let env = Env::sqlite();
    let id = env.create(env.new_wait()).await.record.id;
    let db = stranger(env.dir());
    db.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let holder = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        db.execute_batch("COMMIT").expect("lets go");
    });

    // The impatient one hears nothing, and is surely not told OK.
    let impatient = env.store.apply(id, resolve("1"));
    let impatient = tokio::time::timeout(Duration::from_millis(100), impatient).await;
    assert!(impatient.is_err(), "{impatient:?}");
    assert_eq!(env.load(id).await.record.state(), State::Pending);

    // What it asked for is done all the same, so the patient one repeats it.
    let patient = env.apply(id, resolve("1")).await;
    assert_eq!(patient.verdict, Ok(Verdict::Repeat));
    assert_eq!(env.load(id).await.record, patient.record);
    holder.join().expect("no panic");
}

#[tokio::test]
async fn c55_a_lock_that_is_held_too_long_is_told_and_nothing_is_changed() {
    let env = Env::sqlite_with(|o| o.busy_timeout = Duration::from_millis(50));
    let id = env.create(env.new_wait()).await.record.id;
    let db = stranger(env.dir());
    db.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let refused = env.store.apply(id, resolve("1")).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    let opened = env.store.open(env.new_wait()).await;
    assert!(matches!(opened, Err(Error::Unavailable(_))), "{opened:?}");
    db.execute_batch("ROLLBACK").expect("lets go");

    assert_eq!(env.load(id).await.record.state(), State::Pending);
    assert_eq!(env.heard.count(), 1);
    let again = env.apply(id, resolve("1")).await;
    assert_eq!(again.verdict, Ok(Verdict::Done));
}

/// C56: no caller ever meets a BUSY, however many read and then write, and though a stranger does too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c56_nobody_is_told_that_the_database_is_busy() {
    let env = Env::sqlite();
    let db = stranger(env.dir());
    let rounds = crate::races::rounds() / 2;
    let stranger = thread::spawn(move || {
        for n in 0..200 {
            db.execute_batch("BEGIN IMMEDIATE").expect("its turn");
            let rows: i64 = db
                .query_row("SELECT count(*) FROM meta", [], |r| r.get(0))
                .expect("reads");
            db.execute(
                "INSERT OR REPLACE INTO meta VALUES ('test', ?1)",
                [(rows + n).to_be_bytes()],
            )
            .expect("writes");
            db.execute_batch("COMMIT").expect("commits");
        }
    });
    let mut units = JoinSet::new();
    for task in 0..2 {
        let store = Arc::clone(&env.store);
        units.spawn(async move {
            for n in 0..rounds {
                let name = key(&format!("{task}-{}", n / 2));
                let mut new = new_wait(START);
                new.spec.key = Some(name.clone());
                let opened = store.open(new).await.expect("never busy");
                let (Opened::Created(wait) | Opened::Resumed(wait)) = opened else {
                    panic!("refused");
                };
                let id = wait.record.id;
                store.find(namespace(""), name).await.expect("never busy");
                store.apply(id, cancel("")).await.expect("never busy");
            }
        });
    }
    units.join_all().await;
    stranger.join().expect("no panic");
}

/// C57, a tenth as long: a stranger's read holds the log, which shrinks back once it is let go.
#[tokio::test]
async fn c57_the_log_shrinks_back_after_a_long_read() {
    const LIMIT: u64 = 1 << 20;
    let dir = TempDir::new().expect("a directory");
    let options = Options {
        wal_limit_bytes: LIMIT,
        ..store_fixture::options(dir.path(), Arc::new(ManualClock::new(START)))
    };
    let store = Arc::new(SqliteStore::open(&options).expect("opens"));
    let waits: Arc<dyn Store> = store.clone();

    let reader = stranger(dir.path());
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM waits;")
        .expect("reads");
    while wal_bytes(dir.path()) < 4 * LIMIT {
        open_many(&waits, 100).await;
    }
    reader.execute_batch("COMMIT").expect("lets go");

    // Driven by writes: each is a turn for the checkpoints.
    let mut writes = 0;
    while wal_bytes(dir.path()) > LIMIT {
        assert!(writes < 20_000, "still {} bytes", wal_bytes(dir.path()));
        open_many(&waits, 100).await;
        writes += 100;
    }
    assert!(store.wal_bytes() > 0, "it was looked at");
    store.close().await;
}

/// The log begins anew also while the writer never rests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_short_under_constant_load() {
    const LIMIT: u64 = 4 << 20;
    let env = Env::sqlite_with(|o| o.wal_limit_bytes = LIMIT);
    let mut longest = 0;
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let store = Arc::clone(&env.store);
        tasks.spawn(async move {
            for _ in 0..500 {
                store.open(new_wait(START)).await.expect("open");
            }
        });
    }
    while tasks.join_next().await.is_some() {
        longest = longest.max(wal_bytes(env.dir()));
    }
    // Without a reset it would hold every page ever written: more than ten times this.
    assert!(longest < 4 * LIMIT, "{longest}");
}

#[tokio::test]
async fn one_operation_that_fails_does_not_fail_its_neighbours() {
    let env = Env::sqlite();
    let ids = open_many(&env.store, 20).await;
    let broken = ids[7];
    let db = stranger(env.dir());
    db.execute("DELETE FROM pending WHERE id = ?1", [broken.as_bytes()])
        .expect("breaks it");
    // While the lock is held all of them gather in one batch.
    db.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let mut context = Context::from_waker(Waker::noop());
    let mut first = env.store.apply(ids[0], resolve("1"));
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut rest: Vec<_> = (ids.iter().skip(1))
        .map(|id| (*id, env.store.apply(*id, resolve("1"))))
        .collect();
    for (_, call) in &mut rest {
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    db.execute_batch("COMMIT").expect("lets go");

    first.await.expect("not its fault");
    for (id, call) in rest {
        let told = call.await;
        if id == broken {
            assert!(matches!(told, Err(Error::Corrupt(_))), "{told:?}");
        } else {
            let applied = told.expect("not its fault").expect("there");
            assert_eq!(applied.verdict, Ok(Verdict::Done));
            assert_eq!(env.heard.of(id).len(), 2, "told once");
        }
    }
    let told = env.store.load(broken).await;
    assert!(matches!(told, Err(Error::Corrupt(_))), "{told:?}");
}

#[tokio::test]
async fn a_full_queue_refuses_and_what_is_in_it_is_done() {
    let env = Env::sqlite_with(|o| o.queue_jobs = 2);
    let db = stranger(env.dir());
    db.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let mut context = Context::from_waker(Waker::noop());
    // Two fit into the queue; the writer may have taken one or both of them already, but no more than one batch.
    let (mut taken, mut refused) = (Vec::new(), 0);
    for _ in 0..6 {
        let mut call = env.store.open(env.new_wait());
        match call.as_mut().poll(&mut context) {
            Poll::Pending => taken.push(call),
            Poll::Ready(Err(Error::Overloaded)) => refused += 1,
            Poll::Ready(other) => panic!("{other:?}"),
        }
    }
    assert!(refused >= 2, "{refused}");
    db.execute_batch("COMMIT").expect("lets go");
    for call in taken {
        call.await.expect("was taken");
    }
    assert_eq!(env.heard.count(), 6 - refused);
    env.create(env.new_wait()).await;
}

/// What a machine that lost its power finds: the files as they are at any moment, with nothing closed.
#[tokio::test]
async fn what_was_acknowledged_is_in_the_files_at_once() {
    let env = Env::sqlite();
    for n in 0..20 {
        let mut new = env.new_wait();
        new.spec.key = Some(key(&n.to_string()));
        let id = env.create(new).await.record.id;
        let settled = env.apply(id, resolve(&n.to_string())).await.record;

        let copy = TempDir::new().expect("a directory");
        for file in ["abeyance.db", "abeyance.db-wal", "token.key"] {
            fs::copy(env.dir().join(file), copy.path().join(file)).expect("copied");
        }
        let options = store_fixture::options(copy.path(), env.clock.clone());
        let recovered = SqliteStore::open(&options).expect("opens");
        let found = recovered.load(id).await.expect("load").expect("is kept");
        assert_eq!(found.record, settled);
        recovered.close().await;
    }
}

#[tokio::test]
async fn a_store_that_is_dropped_does_what_is_queued_and_lets_go_of_its_directory() {
    let dir = TempDir::new().expect("a directory");
    let options = store_fixture::options(dir.path(), Arc::new(ManualClock::new(START)));
    let store = SqliteStore::open(&options).expect("opens");
    let new: Vec<NewWait> = (0..50).map(|_| new_wait(START)).collect();
    let mut context = Context::from_waker(Waker::noop());
    for new in new.clone() {
        let mut call = store.open(new);
        let _ = call.as_mut().poll(&mut context);
    }
    drop(store);
    // Waits for the first to be gone.
    let again = SqliteStore::open(&options).expect("opens");
    for new in new {
        assert!(again.load(new.id).await.expect("load").is_some());
    }
    again.close().await;
}

const CHILD: &str = "ABEYANCE_TEST_FAILING_DISK";

/// C59, the store's part: a write that the disk refuses ends the process with status 74, and what was acknowledged before is
/// there at the next start. The disk is a limit on the size of files, which fails writes with EFBIG.
#[test]
fn c59_a_failed_write_ends_the_process() {
    if let Some(dir) = std::env::var_os(CHILD) {
        write_until_the_disk_fails(Path::new(&dir));
        return;
    }
    let dir = TempDir::new().expect("a directory");
    // Without `trap` the limit would kill by a signal.
    let mut child = Process::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" --exact --nocapture store_sqlite::c59_a_failed_write_ends_the_process"])
        .arg(std::env::current_exe().expect("this binary"))
        .env(CHILD, dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let acknowledged: Vec<WaitId> = (output.lines().map_while(Result::ok))
        .filter_map(|line| line.strip_prefix("kept ")?.parse().ok())
        .collect();
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(74));
    assert!(!acknowledged.is_empty(), "it wrote before it failed");

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let options = store_fixture::options(dir.path(), Arc::new(ManualClock::new(START)));
        let store = SqliteStore::open(&options).expect("opens");
        for id in &acknowledged {
            assert!(store.load(*id).await.expect("load").is_some(), "{id}");
        }
        store.close().await;
    });
}

fn write_until_the_disk_fails(dir: &Path) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let options = store_fixture::options(dir, Arc::new(ManualClock::new(START)));
        let store = SqliteStore::open(&options).expect("opens");
        for _ in 0..100_000 {
            let new = new_wait(START);
            let id = new.id;
            store.open(new).await.expect("open");
            // Whole lines, in one write each: the end comes without a warning.
            let _ = std::io::stdout().write_all(format!("\nkept {id}\n").as_bytes());
        }
    });
}

/// A clock whose time of day can be corrected, which its other face does not notice.
#[derive(Debug)]
struct Corrected {
    wall: ManualClock,
    elapsed: ManualClock,
}

impl Clock for Corrected {
    fn now(&self) -> Timestamp {
        self.wall.now()
    }

    fn elapsed(&self) -> Duration {
        self.elapsed.elapsed()
    }
}

#[tokio::test]
async fn a_clock_that_was_ahead_at_the_start_grants_no_heartbeat_more_once_it_is_corrected() {
    let day = Duration::from_secs(86_400);
    let clock = Arc::new(Corrected {
        wall: ManualClock::new(START.after(day)),
        elapsed: ManualClock::new(START),
    });
    let store = MemoryStore::new(clock.clone(), clock.now());
    let dir = TempDir::new().expect("a directory");
    let embedded = SqliteStore::open(&options(dir.path(), clock.clone())).expect("opens");
    clock.wall.set(START);
    let stores: [&dyn Store; 2] = [&store, &embedded];
    for (n, store) in stores.into_iter().enumerate() {
        let mut new = Env::memory().new_wait();
        new.id = WaitId::new(START, [n as u8; 10]);
        new.heartbeat_timeout = Some(SECOND);
        let id = new.id;
        store.open(new).await.expect("opens");
        store.apply(id, Command::MarkAsked).await.expect("asked");
        clock.wall.advance(2 * SECOND);
        clock.elapsed.advance(2 * SECOND);
        let applied = store.apply(id, Command::Expire).await.expect("applies");
        let record = applied.expect("it is there").record;
        assert_eq!(record.state(), State::Expired, "{store:?}");
    }
}
