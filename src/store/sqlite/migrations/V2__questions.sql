-- Questions about tool calls are answered in parts. How many calls wait and how many are decided stands with what changes, so that a
-- list need not read questions.
ALTER TABLE pending ADD COLUMN calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pending ADD COLUMN decided INTEGER NOT NULL DEFAULT 0;

-- What partial answers have decided of an open wait. A row is there while `pending.decided` is not 0.
CREATE TABLE decisions (
    id      BLOB NOT NULL PRIMARY KEY,
    results TEXT NOT NULL,             -- the JSON form that workers get
    entries TEXT NOT NULL              -- a JSON object: who was first with which call, and the request ids
) STRICT, WITHOUT ROWID;

-- payload_kind 2 stands for decisions on tool calls: they are in `results`, as they are where such a wait ended without an answer.
ALTER TABLE outcomes ADD COLUMN answered_by TEXT;
ALTER TABLE outcomes ADD COLUMN results TEXT;
ALTER TABLE outcomes ADD COLUMN entries TEXT;

-- question_kind 2 stands for tool calls, 3 for a form; both are JSON objects of ours.
