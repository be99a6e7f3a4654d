//! A database from before there were tool calls, forms and partial answers is brought up to date, and its waits are as they were.

use std::{fs, path::Path, sync::Arc, time::Duration};

use abeyance::{
    domain::{
        Answer, Command, Ending, ExpiryCause, Failure, Outcome, Record, State, Timestamp, Verdict,
        WaitId,
        limits::{ErrorType, Reason},
    },
    store::{ManualClock, Store as _, sqlite::SqliteStore},
};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use super::{answers, asks, in_order, part};
use crate::store_fixture::{START, json, new_wait, options, question, request_id, resolve};

const V1: &str = include_str!("../../../src/store/sqlite/migrations/V1__waits.sql");

/// Makes the database of `dir`, which a store of today made and closed, one that only the first migration was run on.
fn back_to_v1(dir: &Path) -> Connection {
    let path = dir.join("abeyance.db");
    let (history, meta) = {
        let today = Connection::open(&path).expect("opens");
        let text = |sql| -> String { today.query_row(sql, [], |row| row.get(0)).expect("a row") };
        let table = text("SELECT sql FROM sqlite_master WHERE name = 'refinery_schema_history'");
        let first = "SELECT version, name, applied_on, checksum FROM refinery_schema_history WHERE version = 1";
        let first: (i64, String, String, String) = today
            .query_row(first, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .expect("the first migration");
        let meta: Vec<(String, Vec<u8>)> = today
            .prepare("SELECT name, value FROM meta")
            .expect("compiles")
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("rows")
            .collect::<Result<_, _>>()
            .expect("rows");
        ((table, first), meta)
    };
    for name in ["abeyance.db", "abeyance.db-wal", "abeyance.db-shm"] {
        // The log goes with the last connection.
        let _ = fs::remove_file(dir.join(name));
    }
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(V1).expect("V1 runs");
    let (table, (version, name, applied_on, checksum)) = history;
    db.execute_batch(&table).expect("the history");
    db.execute(
        "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) VALUES (?1, ?2, ?3, ?4)",
        params![version, name, applied_on, checksum],
    )
    .expect("inserts");
    for (name, value) in meta {
        db.execute(
            "INSERT INTO meta (name, value) VALUES (?1, ?2)",
            params![name, value],
        )
        .expect("inserts");
    }
    db
}

fn insert(db: &Connection, record: &Record) {
    let asked = record.question.as_ref().map(|_| "{\"n\" : 1.0}");
    db.execute(
        "INSERT INTO waits (id, namespace, name, token_key, create_time, expire_time, timeout, timeout_source, \
         question_later, labels, question_kind, question, heartbeat_timeout) \
         VALUES (?1, 'default', 'approve', 1, ?2, ?3, 3600000000, 1, ?4, '{}', ?5, ?6, 60000000)",
        params![
            record.id.as_bytes(),
            record.create_time.as_micros(),
            record.expire_time.as_micros(),
            record.question_later,
            asked.map(|_| 1),
            asked,
        ],
    )
    .expect("inserts");
    let asked = record.ask_time.map(Timestamp::as_micros);
    let Some(outcome) = &record.outcome else {
        db.execute(
            "INSERT INTO pending (id, due_time, ask_time, heartbeat_time, last_time) VALUES (?1, ?2, ?3, ?3, ?4)",
            params![
                record.id.as_bytes(),
                record.due_time().as_micros(),
                asked,
                record.last_time.as_micros()
            ],
        )
        .expect("inserts");
        return;
    };
    let (state, cause, error_type, reason, kind, payload) = match &outcome.ending {
        Ending::Resolved(_) => (1, None, None, None, Some(1), Some("[1.0, null]")),
        Ending::Failed(_) => (
            2,
            None,
            Some("Denied"),
            Some("no"),
            Some(1),
            Some("{\"d\" :1}"),
        ),
        Ending::Expired { .. } => (3, Some(2), None, Some("silence"), None, None),
        Ending::Cancelled { .. } => (4, None, None, Some("not needed"), None, None),
    };
    db.execute(
        "INSERT INTO outcomes (id, state, settle_time, ask_time, heartbeat_time, cause, request_id, error_type, reason, \
         payload_kind, payload) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            record.id.as_bytes(),
            state,
            outcome.settle_time.as_micros(),
            asked,
            cause,
            outcome.request_id.as_ref().map(|id| id.as_str()),
            error_type,
            reason,
            kind,
            payload
        ],
    )
    .expect("inserts");
}

fn records() -> Vec<Record> {
    let reason = |text| Reason::new(text).expect("short");
    let endings = [
        Ending::Resolved(Answer::Json {
            json: json("[1.0, null]"),
            answered_by: None,
        }),
        Ending::Failed(Failure {
            reason: reason("no"),
            error_type: ErrorType::new("Denied").expect("short"),
            details: Some(json("{\"d\" :1}")),
        }),
        Ending::Expired {
            cause: ExpiryCause::Heartbeat,
            reason: "silence".to_owned(),
        },
        Ending::Cancelled {
            reason: reason("not needed"),
        },
    ];
    let record = || {
        let mut new = new_wait(START);
        new.heartbeat_timeout = Some(Duration::from_secs(60));
        new.question = Some(question("{\"n\" : 1.0}"));
        new.create(START).record
    };
    let mut records: Vec<_> = endings
        .into_iter()
        .map(|ending| {
            let resolved = matches!(ending, Ending::Resolved(_));
            let settle_time = START.after(Duration::from_secs(5));
            Record {
                ask_time: Some(START),
                heartbeat_time: Some(START),
                last_time: settle_time,
                outcome: Some(Outcome {
                    settle_time,
                    ending,
                    request_id: resolved.then(|| request_id("r")),
                    decided: None,
                }),
                ..record()
            }
        })
        .collect();
    records.push(Record {
        ask_time: Some(START),
        heartbeat_time: Some(START),
        ..record()
    });
    records.push(Record {
        question: None,
        question_later: true,
        ..record()
    });
    records.push(Record {
        question: None,
        ..record()
    });
    records
}

#[tokio::test]
async fn waits_of_the_first_version_are_as_they_were() {
    let dir = TempDir::new().expect("a directory");
    let clock = Arc::new(ManualClock::new(START));
    let options = options(dir.path(), clock.clone());
    let store = SqliteStore::open(&options).expect("opens");
    store.close().await;
    drop(store);
    let records = records();
    let db = back_to_v1(dir.path());
    for record in &records {
        insert(&db, record);
    }
    drop(db);

    // Once to bring it up to date, and once more.
    for _ in 0..2 {
        let store = SqliteStore::open(&options).expect("it is brought up to date");
        for record in &records {
            let wait = store
                .load(record.id)
                .await
                .expect("load")
                .expect("is there");
            assert_eq!(wait.record, *record);
        }
        store.close().await;
    }

    let store = SqliteStore::open(&options).expect("opens");
    let apply = async |id: WaitId, command| {
        let applied = store.apply(id, command).await.expect("apply");
        applied.expect("is there")
    };
    let repeat = apply(records[0].id, resolve("[1.0,null]")).await;
    assert_eq!(repeat.verdict, Ok(Verdict::Repeat));
    let done = apply(records[4].id, resolve("1")).await;
    assert_eq!(done.record.state(), State::Resolved);
    // The promised question may be one that was not known then.
    let promised = records[5].id;
    apply(promised, Command::SetQuestion(asks(&["a1", "e1"], false))).await;
    let decided = apply(promised, answers(part(r#"{"calls":{"e1":1}}"#))).await;
    assert_eq!(
        in_order(decided.record.decided().expect("decisions")),
        ["e1"]
    );
    let loaded = store.load(promised).await.expect("load").expect("is there");
    assert_eq!(loaded.record, decided.record);
    store.close().await;
}
