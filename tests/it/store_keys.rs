//! The data directory: its lock, its token key, and what a crash on the first start leaves.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use abeyance::{
    domain::WaitId,
    store::{
        Error, ManualClock, Store,
        sqlite::{OpenError, Options, SqliteStore},
    },
};
use tempfile::TempDir;

use crate::store_fixture::{self, START, cancel, new_wait};

fn dir() -> TempDir {
    TempDir::new().expect("a directory")
}

/// Waits for nobody.
fn options(dir: &Path) -> Options {
    Options {
        lock_timeout: Duration::ZERO,
        ..store_fixture::options(dir, Arc::new(ManualClock::new(START)))
    }
}

async fn start_and_stop(options: &Options) -> [u8; 16] {
    let store = SqliteStore::open(options).expect("opens");
    let fingerprint = fingerprint(&store, store.key_ring().signing());
    store.close().await;
    fingerprint
}

fn fingerprint(store: &SqliteStore, number: u8) -> [u8; 16] {
    let key = store.key_ring().key(number);
    key.expect("the key is there").fingerprint()
}

fn refusal(options: &Options) -> OpenError {
    SqliteStore::open(options).expect_err("refuses")
}

fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).expect("is there");
    metadata.permissions().mode() & 0o777
}

#[tokio::test]
async fn the_first_start_makes_a_key_for_its_owner_alone_and_later_ones_use_it() {
    let root = dir();
    let data = root.path().join("a/b");
    let store = SqliteStore::open(&options(&data)).expect("opens");
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("token.key")), 0o600);
    for file in ["abeyance.db", "abeyance.db-wal"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    let text = fs::read_to_string(data.join("token.key")).expect("a key");
    assert_eq!(text.lines().count(), 1);
    assert_eq!(text.trim_end().len(), "1 ".len() + 43);
    let first = fingerprint(&store, 1);
    let id = WaitId::new(START, [7; 10]);
    let token = store.key_ring().token(1, id).expect("signs");
    store.close().await;

    let again = SqliteStore::open(&options(&data)).expect("opens again");
    assert_eq!(fingerprint(&again, 1), first);
    assert_eq!(again.key_ring().verify(token.expose()), Ok(id));
    again.close().await;
    // And another directory gets another key.
    let other = dir();
    assert_ne!(start_and_stop(&options(other.path())).await, first);
}

#[tokio::test]
async fn a_database_without_its_key_is_refused_and_left_as_it_is() {
    let data = dir();
    let first = start_and_stop(&options(data.path())).await;
    let (key, away) = (data.path().join("token.key"), data.path().join("away"));
    fs::rename(&key, &away).expect("moved");

    let refused = refusal(&options(data.path()));

    assert!(matches!(refused, OpenError::KeyMissing { .. }), "{refused}");
    assert!(refused.to_string().contains("token.key"), "{refused}");
    assert!(!key.exists(), "no second key is made");
    fs::rename(&away, &key).expect("moved back");
    assert_eq!(start_and_stop(&options(data.path())).await, first);
}

#[tokio::test]
async fn a_database_with_the_key_of_another_is_refused() {
    let (data, other) = (dir(), dir());
    let first = start_and_stop(&options(data.path())).await;
    start_and_stop(&options(other.path())).await;
    let with_other = Options {
        key_file: Some(other.path().join("token.key")),
        ..options(data.path())
    };
    let refused = refusal(&with_other);
    assert!(matches!(refused, OpenError::KeyMismatch { number: 1, .. }));
    assert!(refused.to_string().contains("token.key"), "{refused}");
    assert_eq!(start_and_stop(&options(data.path())).await, first);
}

#[tokio::test]
async fn a_key_file_that_is_not_one_is_refused_without_a_word_of_it() {
    let data = dir();
    fs::write(data.path().join("token.key"), "1 hunter2\n").expect("written");
    let refused = refusal(&options(data.path()));
    assert!(matches!(refused, OpenError::KeyFile { .. }), "{refused}");
    assert!(!refused.to_string().contains("hunter2"));
    assert!(!data.path().join("abeyance.db").exists());
}

#[tokio::test]
async fn the_key_can_lie_elsewhere() {
    let (data, elsewhere) = (dir(), dir());
    let options = Options {
        key_file: Some(elsewhere.path().join("secret")),
        ..options(data.path())
    };
    let first = start_and_stop(&options).await;
    assert!(!data.path().join("token.key").exists());
    assert_eq!(mode(&elsewhere.path().join("secret")), 0o600);
    assert_eq!(start_and_stop(&options).await, first);
}

#[tokio::test]
async fn a_crash_between_key_and_database_leaves_a_start_that_goes_on() {
    let (data, made) = (dir(), dir());
    let first = start_and_stop(&options(made.path())).await;
    // The key is there, the database is not.
    fs::copy(made.path().join("token.key"), data.path().join("token.key")).expect("copied");
    // And half of a key of a still earlier crash.
    fs::write(data.path().join("token.key.new"), "1 c2Vj").expect("written");
    assert_eq!(start_and_stop(&options(data.path())).await, first);

    // A crash before the key had its name: no database can be there yet.
    let half = dir();
    fs::write(half.path().join("token.key.new"), "1 c2Vj").expect("written");
    start_and_stop(&options(half.path())).await;
    assert!(!half.path().join("token.key.new").exists());

    // A crash right after the database file was made.
    let empty = dir();
    fs::copy(
        made.path().join("token.key"),
        empty.path().join("token.key"),
    )
    .expect("copied");
    fs::write(empty.path().join("abeyance.db"), "").expect("written");
    assert_eq!(start_and_stop(&options(empty.path())).await, first);
}

#[tokio::test]
async fn keys_rotate_and_one_retires_only_when_no_wait_needs_it() {
    let data = dir();
    let file = data.path().join("token.key");
    let old = start_and_stop(&options(data.path())).await;
    let first = fs::read_to_string(&file).expect("a key");
    let made = dir();
    start_and_stop(&options(made.path())).await;
    let second = fs::read_to_string(made.path().join("token.key"))
        .expect("a key")
        .replacen('1', "2", 1);

    fs::write(&file, format!("{first}{second}")).expect("written");
    let store = SqliteStore::open(&options(data.path())).expect("opens");
    assert_eq!(store.key_ring().signing(), 2);
    assert_eq!(fingerprint(&store, 1), old);
    let wait = new_wait(START);
    let id = wait.id;
    assert_eq!(wait.token_key, 1);
    store.open(wait).await.expect("open");
    store.close().await;

    fs::write(&file, &second).expect("written");
    let refused = refusal(&options(data.path()));
    assert!(matches!(refused, OpenError::KeyMismatch { number: 1, .. }));

    fs::write(&file, format!("{first}{second}")).expect("written");
    let clock = Arc::new(ManualClock::new(START));
    let store =
        SqliteStore::open(&store_fixture::options(data.path(), clock.clone())).expect("opens");
    store.apply(id, cancel("")).await.expect("apply");
    clock.advance(Duration::from_secs(1));
    let purged = store.purge(Duration::ZERO, Duration::ZERO, 9).await;
    assert_eq!(purged.expect("purge").waits, 1);
    store.close().await;

    fs::write(&file, &second).expect("written");
    start_and_stop(&options(data.path())).await;
}

#[tokio::test]
async fn a_second_process_waits_for_the_directory_and_then_refuses() {
    let data = dir();
    let store = SqliteStore::open(&options(data.path())).expect("opens");
    let waits = Duration::from_millis(120);
    let begin = Instant::now();
    let refused = refusal(&Options {
        lock_timeout: waits,
        ..options(data.path())
    });
    assert!(begin.elapsed() >= waits);
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    let dir_name = data.path().display().to_string();
    assert!(refused.to_string().contains(&dir_name), "{refused}");

    // One that is given time gets it as soon as the first leaves.
    let patient = Options {
        lock_timeout: Duration::from_secs(60),
        ..options(data.path())
    };
    let second = thread::spawn(move || SqliteStore::open(&patient));
    store.close().await;
    let second = second.join().expect("no panic").expect("opens");
    second.close().await;
}

#[tokio::test]
async fn what_is_not_our_database_is_refused() {
    let data = dir();
    start_and_stop(&options(data.path())).await;
    fs::write(data.path().join("abeyance.db"), "x".repeat(8192)).expect("written");
    let refused = refusal(&options(data.path()));
    assert!(
        matches!(refused, OpenError::Database(Error::Corrupt(_))),
        "{refused}"
    );
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let data = dir();
    start_and_stop(&options(data.path())).await;
    let db = rusqlite::Connection::open(data.path().join("abeyance.db")).expect("opens");
    db.execute(
        "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
         SELECT 99, 'future', applied_on, checksum FROM refinery_schema_history LIMIT 1",
        [],
    )
    .expect("written");
    drop(db);
    let refused = refusal(&options(data.path()));
    assert!(matches!(refused, OpenError::Migration(_)), "{refused}");
}
