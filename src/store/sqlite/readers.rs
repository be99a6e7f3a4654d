//! Reads beside the writer: a few connections, each read short, none of them held by anything that waits.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension as _};
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{connection, fault, queue, rows, statements};
use crate::{
    domain::{
        State, Timestamp, Wait, WaitId,
        limits::{Key, Namespace},
    },
    store::{Due, Error, Found, LIST_BYTES, LIST_SCAN_ROWS, Page, Query},
};

/// The pool.
pub(super) struct Readers {
    shared: Arc<Shared>,
    /// One for each connection that may be open.
    permits: Arc<Semaphore>,
    size: u32,
}

struct Shared {
    path: PathBuf,
    busy_timeout: Duration,
    /// Those that nobody uses now. Held for a push or a pop.
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// A pool of up to `size` connections, which are opened as they are needed.
    pub(super) fn new(path: PathBuf, busy_timeout: Duration, size: u32) -> Self {
        let size = size.max(1);
        Self {
            shared: Arc::new(Shared {
                path,
                busy_timeout,
                idle: Mutex::default(),
            }),
            permits: Arc::new(Semaphore::new(size as usize)),
            size,
        }
    }

    /// Runs one read on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| queue::closed())?;
        let shared = Arc::clone(&self.shared);
        let job = spawn_blocking(move || {
            let outcome = shared.with_connection(read);
            // Held until here, also if the caller is gone, so that there are never more connections than permits.
            drop(permit);
            outcome
        });
        match job.await {
            Ok(outcome) => outcome.map_err(|e| fault::describe(&e)),
            Err(e) => Err(Error::Unavailable(format!("a read was cut off: {e}"))),
        }
    }

    /// Waits for the reads under way, lets no more begin, and closes the connections.
    pub(super) async fn close(&self) {
        let all = self.permits.acquire_many(self.size).await;
        self.permits.close();
        drop(all);
        self.shared.idle().clear();
    }
}

impl Shared {
    fn with_connection<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let idle = self.idle().pop();
        let db = match idle {
            Some(db) => db,
            None => connection::reader(&self.path, self.busy_timeout)?,
        };
        let outcome = read(&db);
        self.idle().push(db);
        outcome
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // Nothing panics while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn load(db: &Connection, id: WaitId) -> rusqlite::Result<Option<Wait>> {
    db.prepare_cached(statements::BY_ID)?
        .query_row([id.as_bytes()], rows::wait)
        .optional()
}

pub(super) fn find(db: &Connection, namespace: &Namespace, key: &Key) -> rusqlite::Result<Found> {
    let at = [namespace.as_str(), key.as_str()];
    let wait = db
        .prepare_cached(statements::BY_KEY)?
        .query_row(at, rows::wait)
        .optional()?;
    if let Some(wait) = wait {
        return Ok(Found::Wait(Box::new(wait)));
    }
    // In this order: a purge in between leaves the tombstone, which the second look then finds.
    let purged = db
        .prepare_cached("SELECT 1 FROM tombstones WHERE namespace = ?1 AND key = ?2")?
        .exists(at)?;
    Ok(if purged {
        Found::Tombstone
    } else {
        Found::Nothing
    })
}

pub(super) fn list(db: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let sql = if query.states == [State::Pending] {
        statements::LIST_PENDING
    } else {
        statements::LIST
    };
    // Longer than any id, and so behind all of them.
    let before: &[u8] = match &query.before {
        Some(id) => id.as_bytes(),
        None => &[0xff; 17],
    };
    // One more, to know whether there is more.
    let scan = (LIST_SCAN_ROWS + 1) as i64;
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(rusqlite::params![before, scan])?;
    let mut page = Page {
        waits: Vec::new(),
        next: None,
    };
    let mut last = None;
    let (mut scanned, mut bytes) = (0, 0);
    while let Some(row) = rows.next()? {
        let full = page.waits.len() >= query.limit || bytes >= LIST_BYTES;
        if full || scanned == LIST_SCAN_ROWS {
            page.next = last;
            break;
        }
        scanned += 1;
        let summary = rows::summary(row)?;
        last = Some(summary.record.id);
        if query.matches(&summary) {
            bytes += summary.size();
            page.waits.push(summary);
        }
    }
    Ok(page)
}

pub(super) fn due(db: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<Due> {
    let mut statement =
        db.prepare_cached("SELECT id, due_time FROM pending ORDER BY due_time, id LIMIT ?1")?;
    let rows = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut rows = statement.query([rows])?;
    let mut due = Due {
        waits: Vec::new(),
        next_in: None,
    };
    while let Some(row) = rows.next()? {
        let time = Timestamp::from_micros(row.get(1)?);
        if time > now || due.waits.len() >= limit {
            due.next_in = Some(time.since(now));
            break;
        }
        due.waits.push(rows::id(row, 0)?);
    }
    Ok(due)
}
