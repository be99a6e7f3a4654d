//! Opens connections, each with the settings of its use.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, MAIN_DB, OpenFlags, config::DbConfig, ffi};

use super::Options;

/// A reader's page cache. Reads are short and few pages.
const READER_CACHE_BYTES: usize = 4 << 20;

/// More than the statements of any connection, so that each is prepared once.
const STATEMENTS: usize = 32;

/// The connection that writes; it makes the file if there is none.
pub(super) fn writer(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let db = read_write(path, options)?;
    db.pragma_update(None, "page_size", 4096)?;
    let mode = set_write_ahead_log(&db)?;
    if mode != "wal" {
        let fault = format!(
            "the file system of the data directory allows no write-ahead log (journal mode is {mode})"
        );
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        return Err(rusqlite::Error::SqliteFailure(code, Some(fault)));
    }
    set_cache(&db, options.cache_bytes)?;
    // Checkpoints are made elsewhere; within a commit they would be its tail.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    // When the log begins anew after it grew, its file is cut back to this.
    db.pragma_update(
        None,
        "journal_size_limit",
        i64::try_from(options.wal_limit_bytes).unwrap_or(i64::MAX),
    )?;
    Ok(db)
}

/// Gives the journal mode that came of it.
fn set_write_ahead_log(db: &Connection) -> rusqlite::Result<String> {
    let mut statement = db.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = statement.query([])?;
    let mode = rows.next()?.map(|row| row.get(0)).transpose()?;
    // SQLite tells the mode first and commits the change of it at the end. Who stops at the row never hears that the flush failed,
    // and goes on with a rollback journal, whose commits a loss of power may take back.
    rows.next()?;
    Ok(mode.unwrap_or_default())
}

/// The connection that makes checkpoints.
pub(super) fn checkpointer(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let db = read_write(path, options)?;
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(db)
}

/// A connection that only reads.
pub(super) fn reader(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    set_up(&db, busy_timeout)?;
    set_cache(&db, READER_CACHE_BYTES)?;
    Ok(db)
}

fn read_write(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    // SQLite opens a file that it may not write for reading, and says so at the first write.
    if db.is_readonly(MAIN_DB)? {
        let why = format!(
            "{} cannot be written; check its owner and mode",
            path.display()
        );
        return Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_READONLY),
            Some(why),
        ));
    }
    set_up(&db, options.busy_timeout)?;
    // A commit is on the disk before it is told of. Where a plain flush does not empty the disk's own cache (macOS), ask for
    // the one that does; elsewhere these say nothing new.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "fullfsync", true)?;
    db.pragma_update(None, "checkpoint_fullfsync", true)?;
    Ok(db)
}

fn set_up(db: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    db.busy_timeout(busy_timeout)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans do not depend on what is bound. Without this SQLite compiles a statement anew each time that something is bound to
    // it which it has compared with the condition of a partial index: half of the writer's time.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn set_cache(db: &Connection, bytes: usize) -> rusqlite::Result<()> {
    // A negative number is a size in KiB.
    let kib = i64::try_from(bytes / 1024).unwrap_or(i64::MAX);
    db.pragma_update(None, "cache_size", -kib)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::store::sqlite::{migrations::migrations, statements};

    #[test]
    fn a_statement_is_not_prepared_again_for_another_value() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("test.db");
        let mut db = writer(&path, &Options::new(dir.path())).expect("a database");
        migrations::runner().run(&mut db).expect("tables");
        for id in [[1_u8; 16], [2; 16], [3; 16]] {
            let mut statement = db.prepare_cached(statements::BY_ID).expect("valid");
            assert!(!statement.exists([id]).expect("it runs"));
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }
}
