"""What a run tells its waiter about the tool calls that wait.

The library's `ExternalEventWaiter` is given a name and an `ask`, and never sees the calls. `RequestInput` of this package lays them
out in a context variable before it waits, and the waiter takes them from there.

Pure: used by every waiter, also by those that run inside a workflow engine.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ._keys import calls_digest, calls_key


@dataclass
class PendingCalls:
    """The tool calls of a run that wait for decisions."""

    requests_json: str
    """The JSON form of their `DeferredToolRequests`."""

    may_leave_pending: bool
    """Whether one answer may leave some of them undecided."""

    messages: int
    """How many messages the run has so far."""

    taken: bool = field(default=False, init=False)
    """Whether a waiter has made them its question."""

    def key(self, key: str, name: str) -> str:
        """The key of the wait for them. `key` is the run's."""
        return calls_key(key, name, self.messages, calls_digest(self.requests_json))


_offered: ContextVar[PendingCalls | None] = ContextVar("abeyance_pending_calls", default=None)


@contextmanager
def offer(calls: PendingCalls) -> Generator[None]:
    """Lays out `calls` for the waiter that is called inside."""
    token = _offered.set(calls)
    try:
        yield
    finally:
        _offered.reset(token)


def take() -> PendingCalls | None:
    """The calls that this wait is for, if it was told. For a waiter, at the beginning of its `wait`.

    A waiter that takes them promises to make them the wait's question before the token leaves. Calls that no waiter has taken are
    not asked about: see `RequestInput`.
    """
    calls = _offered.get()
    if calls is not None:
        calls.taken = True
    return calls
