//! The statements that give whole waits, so that each is written once and its plan is checked.

/// The columns of a whole wait, of `waits w`, `pending p` and `outcomes o`. The order is the one that
/// [`super::rows`] reads; what may be long stands last, so that a list can leave it out.
macro_rules! columns {
    () => {
        "w.id, w.create_time, w.timeout, w.timeout_source, w.expire_time, w.heartbeat_timeout, w.question_later, \
         w.namespace, w.name, w.key, w.labels, w.token_key, \
         p.last_time, p.ask_time, p.heartbeat_time, \
         o.state, o.settle_time, o.ask_time, o.heartbeat_time, \
         p.calls, p.decided"
    };
    (whole) => {
        concat!(
            columns!(),
            ", w.question_kind, w.question, o.cause, o.request_id, o.error_type, o.reason, o.payload_kind, o.payload, \
             o.answered_by, coalesce(o.results, iif(p.decided > 0, (SELECT results FROM decisions WHERE id = w.id), NULL)), \
             coalesce(o.entries, iif(p.decided > 0, (SELECT entries FROM decisions WHERE id = w.id), NULL))"
        )
    };
}

/// `waits w` with what has become of each.
macro_rules! whole_waits {
    () => {
        "waits w LEFT JOIN pending p ON p.id = w.id LEFT JOIN outcomes o ON o.id = w.id"
    };
}

/// One wait by its id.
pub(super) const BY_ID: &str = concat!(
    "SELECT ",
    columns!(whole),
    " FROM ",
    whole_waits!(),
    " WHERE w.id = ?1"
);

/// One wait by its namespace and key.
pub(super) const BY_KEY: &str = concat!(
    "SELECT ",
    columns!(whole),
    " FROM ",
    whole_waits!(),
    " WHERE w.namespace = ?1 AND w.key = ?2"
);

/// One wait by its namespace and the `request_id` that it was opened with.
pub(super) const BY_REQUEST_ID: &str = concat!(
    "SELECT ",
    columns!(whole),
    " FROM ",
    whole_waits!(),
    " WHERE w.namespace = ?1 AND w.request_id = ?2"
);

/// Summaries of waits with ids below one, newest first, up to a number of rows.
pub(super) const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM ",
    whole_waits!(),
    " WHERE w.id < ?1 ORDER BY w.id DESC LIMIT ?2"
);

/// The same of pending waits alone. Old waits are many and pending ones few, so these are looked for where no others are.
pub(super) const LIST_PENDING: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM pending p CROSS JOIN waits w ON w.id = p.id LEFT JOIN outcomes o ON o.id = p.id \
     WHERE p.id < ?1 ORDER BY p.id DESC LIMIT ?2"
);

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::store::sqlite::{Options, connection, migrations};

    /// Under the very settings of the store, and with an empty database, which tempts to scan.
    #[test]
    fn no_statement_looks_at_more_rows_than_it_gives() {
        let dir = TempDir::new().expect("a directory");
        let options = Options::new(dir.path());
        let path = dir.path().join("test.db");
        let mut db = connection::writer(&path, &options).expect("opens");
        let migrations = migrations::migrations::runner();
        migrations.run(&mut db).expect("migrates");
        for (sql, first) in [
            (BY_ID, "SEARCH w USING PRIMARY KEY (id=?)"),
            (
                BY_KEY,
                "SEARCH w USING INDEX waits_key (namespace=? AND key=?)",
            ),
            (
                BY_REQUEST_ID,
                "SEARCH w USING INDEX waits_request_id (namespace=? AND request_id=?)",
            ),
            (LIST, "SEARCH w USING PRIMARY KEY (id<?)"),
            (LIST_PENDING, "SEARCH p USING PRIMARY KEY (id<?)"),
        ] {
            let mut plan = db
                .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
                .expect("compiles");
            // Unbound parameters are null, which plans do not depend on.
            let steps: Vec<String> = (plan.raw_query().mapped(|row| row.get(3)))
                .collect::<Result<_, _>>()
                .expect("text");
            assert_eq!(steps[0], first);
            let sorts_or_scans = |s: &String| s.contains("SCAN") || s.contains("TEMP B-TREE");
            assert!(!steps.iter().any(sorts_or_scans), "{steps:?}");
        }
    }
}
