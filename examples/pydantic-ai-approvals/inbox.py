"""What the worker asks and the web page shows: a small SQLite file with the tokens.

A token is a secret that answers its wait, so the file can be read by its owner alone, and pages and links name an ask by its number.
"""

import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Ask:
    """One question that was handed on."""

    number: int
    run_id: str
    token: str = field(repr=False)


class Inbox:
    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # Made here, since SQLite would make it readable for everybody.
        os.close(os.open(path, os.O_CREAT, 0o600))
        self._run("CREATE TABLE IF NOT EXISTS asks (number INTEGER PRIMARY KEY, run_id TEXT NOT NULL, token TEXT NOT NULL UNIQUE)")

    def post(self, run_id: str, token: str) -> None:
        """Records an ask. The same token again is the same ask: a worker that died just after asking asks once more."""
        self._run("INSERT OR IGNORE INTO asks (run_id, token) VALUES (?, ?)", run_id, token)

    def asks(self) -> list[Ask]:
        """All asks, the newest first."""
        return [Ask(*row) for row in self._run("SELECT number, run_id, token FROM asks ORDER BY number DESC")]

    def ask(self, number: int) -> Ask | None:
        """The ask with this number."""
        return next((ask for ask in self.asks() if ask.number == number), None)

    def _run(self, statement: str, *values: object) -> list[tuple[int, str, str]]:
        connection = sqlite3.connect(self._path, timeout=10)
        try:
            with connection:
                return connection.execute(statement, values).fetchall()
        finally:
            connection.close()
