//! What is done inside a transaction: read, ask the rules, write what they say.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{queue::Written, rows, statements};
use crate::{
    domain::{
        self, Command, Decided, Effect, Moment, NewWait, Outcome, Record, Refusal, Timestamp, Wait,
        WaitId, time::to_micros, transition,
    },
    store::{Applied, Clock, Opened, Purged, clock::Ready, settled, text},
};

/// What to purge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purge {
    pub(super) retention: std::time::Duration,
    pub(super) tombstones: std::time::Duration,
    pub(super) limit: usize,
}

/// An open write transaction.
pub(super) struct Transaction<'a> {
    pub(super) db: &'a Connection,
    pub(super) clock: &'a dyn Clock,
    pub(super) ready: Ready,
}

impl Transaction<'_> {
    /// Opens a wait, or judges it by the one that is there.
    pub(super) fn open(&self, new: &NewWait) -> rusqlite::Result<Opened> {
        if self.has_tombstone(new)? {
            return Ok(Opened::Refused(Refusal::KeyPurged));
        }
        // The insert itself finds out whether one is there: most are new, and a look before would cost them a search each.
        let wait = new.create(self.clock.now());
        if self.insert(&wait, new)? {
            return Ok(Opened::Created(wait));
        }
        let existing = self.existing(new)?;
        Ok(match transition::reopen(&existing, new) {
            Ok(()) => Opened::Resumed(existing),
            Err(refusal) => Opened::Refused(refusal),
        })
    }

    fn has_tombstone(&self, new: &NewWait) -> rusqlite::Result<bool> {
        let Some(key) = &new.spec.key else {
            return Ok(false);
        };
        self.db
            .prepare_cached("SELECT 1 FROM tombstones WHERE namespace = ?1 AND key = ?2")?
            .exists([new.spec.namespace.as_str(), key.as_str()])
    }

    /// `false` if its key, its `request_id` or its id is taken; then nothing is written.
    fn insert(&self, wait: &Wait, new: &NewWait) -> rusqlite::Result<bool> {
        let (spec, record) = (&wait.spec, &wait.record);
        let (question_kind, question) = rows::question_columns(record.question.as_ref());
        let inserted = self
            .db
            .prepare_cached(
                "INSERT INTO waits (id, namespace, name, key, request_id, token_key, create_time, expire_time, timeout, \
                 timeout_source, heartbeat_timeout, question_later, labels, question_kind, question) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                record.id.as_bytes(),
                spec.namespace.as_str(),
                spec.name.as_str(),
                spec.key.as_ref().map(|k| k.as_str()),
                new.idempotency_id().map(|r| r.as_str()),
                wait.token_key,
                record.create_time.as_micros(),
                record.expire_time.as_micros(),
                to_micros(record.timeout),
                rows::timeout_source_number(record.timeout_source),
                record.heartbeat_timeout.map(to_micros),
                record.question_later,
                rows::labels_text(&spec.labels),
                question_kind,
                question,
            ])?;
        if inserted == 0 {
            return Ok(false);
        }
        self.db
            .prepare_cached(
                "INSERT INTO pending (id, due_time, ask_time, heartbeat_time, last_time, calls) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                record.id.as_bytes(),
                record.due_time().as_micros(),
                record.ask_time.map(Timestamp::as_micros),
                record.heartbeat_time.map(Timestamp::as_micros),
                record.last_time.as_micros(),
                rows::progress_columns(record).0,
            ])?;
        Ok(true)
    }

    /// The wait that stood in the way of an insert.
    fn existing(&self, new: &NewWait) -> rusqlite::Result<Wait> {
        let namespace = new.spec.namespace.as_str();
        let found = match (&new.spec.key, new.idempotency_id()) {
            (Some(key), _) => self
                .db
                .prepare_cached(statements::BY_KEY)?
                .query_row([namespace, key.as_str()], rows::wait)
                .optional()?,
            (None, Some(id)) => self
                .db
                .prepare_cached(statements::BY_REQUEST_ID)?
                .query_row([namespace, id.as_str()], rows::wait)
                .optional()?,
            (None, None) => None,
        };
        match found {
            Some(wait) => Ok(wait),
            None => self
                .db
                .prepare_cached(statements::BY_ID)?
                .query_row([new.id.as_bytes()], rows::wait),
        }
    }

    /// Decides a command and writes its effect. Gives also whether it wrote anything.
    pub(super) fn apply(&self, id: WaitId, command: &Command) -> rusqlite::Result<Option<Written>> {
        let record = self
            .db
            .prepare_cached(statements::BY_ID)?
            .query_row([id.as_bytes()], rows::record)
            .optional()?;
        let Some(before) = record else {
            return Ok(None);
        };
        let now = self.clock.now();
        let moment = Moment {
            now,
            ready: self.ready.time(now, self.clock),
        };
        let decision = domain::apply(&before, command, moment);
        let (record, changed) = match decision.effect {
            Effect::None => (before, false),
            Effect::Settle(outcome) => {
                self.settle(&before, &outcome)?;
                (settled(before, outcome), true)
            }
            Effect::Update(after) => {
                self.update(&before, &after)?;
                (after, true)
            }
        };
        let verdict = decision.verdict;
        Ok(Some((Applied { record, verdict }, changed)))
    }

    fn settle(&self, record: &Record, outcome: &Outcome) -> rusqlite::Result<()> {
        let deleted = self
            .db
            .prepare_cached("DELETE FROM pending WHERE id = ?1")?
            .execute([record.id.as_bytes()])?;
        expect_one(deleted)?;
        if record.decided.is_some() {
            let deleted = self
                .db
                .prepare_cached("DELETE FROM decisions WHERE id = ?1")?
                .execute([record.id.as_bytes()])?;
            expect_one(deleted)?;
        }
        let ending = rows::EndingColumns::of(&outcome.ending);
        let decided = outcome.decided.as_deref();
        self.db
            .prepare_cached(
                "INSERT INTO outcomes (id, state, settle_time, ask_time, heartbeat_time, cause, request_id, error_type, \
                 reason, payload_kind, payload, answered_by, results, entries) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(params![
                record.id.as_bytes(),
                rows::state_number(outcome),
                outcome.settle_time.as_micros(),
                record.ask_time.map(Timestamp::as_micros),
                record.heartbeat_time.map(Timestamp::as_micros),
                ending.cause,
                outcome.request_id.as_ref().map(|r| r.as_str()),
                ending.error_type,
                ending.reason,
                ending.payload_kind,
                ending.payload,
                ending.answered_by,
                decided.map(|d| d.json().as_str()),
                decided.map(text::of_entries),
            ])?;
        Ok(())
    }

    fn update(&self, before: &Record, after: &Record) -> rusqlite::Result<()> {
        let (calls, decided) = rows::progress_columns(after);
        let updated = self
            .db
            .prepare_cached(
                "UPDATE pending SET due_time = ?2, ask_time = ?3, heartbeat_time = ?4, last_time = ?5, calls = ?6, \
                 decided = ?7 WHERE id = ?1",
            )?
            .execute(params![
                after.id.as_bytes(),
                after.due_time().as_micros(),
                after.ask_time.map(Timestamp::as_micros),
                after.heartbeat_time.map(Timestamp::as_micros),
                after.last_time.as_micros(),
                calls,
                decided,
            ])?;
        expect_one(updated)?;
        self.keep_decisions(before, after)?;
        if before.question.is_some() || after.question.is_none() {
            return Ok(());
        }
        let (kind, text) = rows::question_columns(after.question.as_ref());
        let updated = self
            .db
            .prepare_cached("UPDATE waits SET question_kind = ?2, question = ?3 WHERE id = ?1")?
            .execute(params![after.id.as_bytes(), kind, text])?;
        expect_one(updated)
    }

    fn keep_decisions(&self, before: &Record, after: &Record) -> rusqlite::Result<()> {
        let news = after.decided.as_deref().filter(|decided| {
            let recorded = before.decided.as_deref();
            recorded.map(Decided::entries) != Some(decided.entries())
        });
        if let Some(decided) = news {
            self.db
                .prepare_cached(
                    "INSERT OR REPLACE INTO decisions (id, results, entries) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![
                    after.id.as_bytes(),
                    decided.json().as_str(),
                    text::of_entries(decided)
                ])?;
        }
        Ok(())
    }

    /// Deletes what is old enough.
    pub(super) fn purge(&self, purge: &Purge) -> rusqlite::Result<Purged> {
        let now = self.clock.now();
        let limit = i64::try_from(purge.limit).unwrap_or(i64::MAX);
        let tombstones = self
            .db
            .prepare_cached(
                "DELETE FROM tombstones WHERE (namespace, key) IN \
                 (SELECT namespace, key FROM tombstones WHERE purge_time < ?1 ORDER BY purge_time LIMIT ?2)",
            )?
            .execute(params![now.before(purge.tombstones).as_micros(), limit])?;
        let mut old = self
            .db
            .prepare_cached(
                "SELECT id FROM outcomes WHERE settle_time < ?1 ORDER BY settle_time LIMIT ?2",
            )?
            .query_map(
                params![now.before(purge.retention).as_micros(), limit],
                |row| rows::id(row, 0),
            )?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        old.sort_unstable();
        for id in &old {
            self.purge_one(*id, now)?;
        }
        Ok(Purged {
            waits: old.len(),
            tombstones,
        })
    }

    fn purge_one(&self, id: WaitId, now: Timestamp) -> rusqlite::Result<()> {
        self.db
            .prepare_cached(
                "INSERT INTO tombstones (namespace, key, purge_time) \
                 SELECT namespace, key, ?2 FROM waits WHERE id = ?1 AND key IS NOT NULL",
            )?
            .execute(params![id.as_bytes(), now.as_micros()])?;
        for delete in [
            "DELETE FROM outcomes WHERE id = ?1",
            "DELETE FROM waits WHERE id = ?1",
        ] {
            let deleted = self.db.prepare_cached(delete)?.execute([id.as_bytes()])?;
            expect_one(deleted)?;
        }
        Ok(())
    }
}

/// The tables say the same of a wait, or the file is not as it was written.
fn expect_one(changed: usize) -> rusqlite::Result<()> {
    match changed {
        1 => Ok(()),
        n => Err(rusqlite::Error::StatementChangedRows(n)),
    }
}
