-- What was asked for. Written once, but for a question that was promised for later. Ids are UUIDv7, so new rows go to the end.
-- The question stands last: a long one lies in overflow pages, which lists then never read.
CREATE TABLE waits (
    id                BLOB    NOT NULL PRIMARY KEY,
    namespace         TEXT    NOT NULL,
    name              TEXT    NOT NULL,
    key               TEXT,
    request_id        TEXT,               -- of an open without a key
    token_key         INTEGER NOT NULL,
    create_time       INTEGER NOT NULL,   -- all times: microseconds since the Unix epoch
    expire_time       INTEGER NOT NULL,
    timeout           INTEGER NOT NULL,   -- microseconds
    timeout_source    INTEGER NOT NULL,   -- 1 timeout, 2 deadline, 3 server maximum
    heartbeat_timeout INTEGER,            -- microseconds
    question_later    INTEGER NOT NULL,   -- 0 or 1
    labels            TEXT    NOT NULL,   -- a JSON object
    question_kind     INTEGER,            -- 1 free JSON
    question          TEXT
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX waits_key ON waits (namespace, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX waits_request_id ON waits (namespace, request_id) WHERE request_id IS NOT NULL;

-- What changes while a wait is open. Taking a row out of here is what settles the wait.
CREATE TABLE pending (
    id             BLOB    NOT NULL PRIMARY KEY,
    due_time       INTEGER NOT NULL,
    ask_time       INTEGER,
    heartbeat_time INTEGER,
    last_time      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX pending_due_time ON pending (due_time);

-- How waits ended. A table in the order of settling, so that a settle appends and a purge takes from the front.
CREATE TABLE outcomes (
    seq            INTEGER NOT NULL PRIMARY KEY,
    id             BLOB    NOT NULL UNIQUE,
    state          INTEGER NOT NULL,      -- 1 resolved, 2 failed, 3 expired, 4 cancelled
    settle_time    INTEGER NOT NULL,
    ask_time       INTEGER,
    heartbeat_time INTEGER,
    cause          INTEGER,               -- of an expiry: 1 timeout, 2 heartbeat
    request_id     TEXT,
    error_type     TEXT,
    reason         TEXT,
    payload_kind   INTEGER,               -- 1 free JSON
    payload        TEXT
) STRICT;

CREATE INDEX outcomes_settle_time ON outcomes (settle_time);

-- Keys of purged waits, so that none is ever asked a second time.
CREATE TABLE tombstones (
    namespace  TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    purge_time INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_purge_time ON tombstones (purge_time);

-- What the store knows of itself. `token_key.<number>`: the fingerprint of each token key that tokens were made with.
CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
