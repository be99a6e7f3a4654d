"""How a wait ended, and what it was when it began."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from . import v1
from .errors import ProtocolError, WaitCancelled, WaitExpired, WaitFailed

__all__ = ["Answer", "Opened", "OpenedWait", "Outcome", "State", "TimeoutSource"]


class State(enum.Enum):
    """What has become of a wait. It changes once, from pending to one of the others, and never again."""

    PENDING = v1.Wait.STATE_PENDING
    """Nobody has answered yet and the time is not up."""
    RESOLVED = v1.Wait.STATE_RESOLVED
    """Somebody answered."""
    FAILED = v1.Wait.STATE_FAILED
    """The answering side ended it without an answer."""
    EXPIRED = v1.Wait.STATE_EXPIRED
    """Its time ran out."""
    CANCELLED = v1.Wait.STATE_CANCELLED
    """The worker's side withdrew it."""


class TimeoutSource(enum.Enum):
    """Where the effective timeout of a wait came from."""

    OTHER = v1.TIMEOUT_SOURCE_UNSPECIFIED
    """A source that this version of the client does not know."""
    TIMEOUT = v1.TIMEOUT_SOURCE_TIMEOUT
    """The worker gave it."""
    DEADLINE = v1.TIMEOUT_SOURCE_DEADLINE
    """The gRPC deadline of the call that opened the wait. This client never opens one so."""
    SERVER_MAXIMUM = v1.TIMEOUT_SOURCE_SERVER_MAXIMUM
    """The broker's maximum."""


@dataclass(frozen=True)
class Opened:
    """What a wait was when it was opened or attached to. Its `repr` does not show the token."""

    token: str = field(repr=False)
    """The bearer credential of this wait. A secret: whoever holds it can answer. Never log it."""
    wait_id: str
    """The wait's public name. Not a secret: safe in logs, lists and links."""
    timeout: timedelta
    """The effective timeout of the wait, counted from when it was created."""
    timeout_source: TimeoutSource
    """Where the timeout came from."""
    expire_time: datetime
    """When the wait expires, by the broker's clock, in UTC."""
    asked: bool
    """Question and token were handed on already: do not ask again."""
    resumed: bool
    """The wait was there before this call. Always true after an attach. True after an open that was tried again because its first
    reply was lost, too."""
    question_pending: bool
    """The wait was opened with `question_later` and its question is not set yet."""


@dataclass(frozen=True)
class Outcome:
    """The one outcome of a wait. Once recorded it never changes.

    Outcomes are delivered at least once and to everybody attached: act on one idempotently, by its wait id.

    - `wait_id`: The wait that ended.
    - `state`: How it ended. Never `PENDING`.
    - `settle_time`: When the outcome was recorded, by the broker's clock, in UTC.
    - `payload_json`: `RESOLVED`, to a free question or a form: the answer as JSON text, byte for byte as it was sent. `None` for tool
      calls, whose answer is `results`.
    - `answered_by`: `RESOLVED`: who answered, as the resolver claimed. `None` if it did not say, and for tool calls: `results` say it.
    - `reason`: `FAILED`, `EXPIRED`, `CANCELLED`: why, for people. May be empty.
    - `cause`: `EXPIRED`: which clock ran out, `TIMEOUT` or `HEARTBEAT`; `OTHER` for one that this version of the client does not know.
    - `error_type`: `FAILED`: the resolver's name for the kind of failure, for programs to branch on.
    - `details_json`: `FAILED`: more about it, as JSON text, byte for byte.
    - `results`: Of a wait that asked about tool calls, however it ended: the results that a run goes on with. Where it ended without an
      answer, the calls that were decided keep their decision, and every other is denied or failed. `None` for other waits.
    - `results_json`: `results` in the JSON form of Pydantic AI's `DeferredToolResults`. `None` for waits that did not ask about tool calls.
    """

    wait_id: str
    state: State
    settle_time: datetime
    payload_json: str | None = field(default=None, repr=False)
    answered_by: str | None = None
    reason: str = ""
    cause: str | None = None
    error_type: str | None = None
    details_json: str | None = field(default=None, repr=False)
    results: v1.DeferredToolResults | None = field(default=None, repr=False)
    results_json: str | None = field(default=None, repr=False)

    @property
    def value(self) -> Any:
        """The answer, decoded from JSON; for tool calls from `results_json`.

        Raises `WaitFailed`, `WaitExpired` or `WaitCancelled` if there is none. Nothing but an answer is ever taken for one.
        """
        return self.answer().value

    def answer(self) -> Answer:
        """The answer; any other outcome is raised, as `WaitFailed`, `WaitExpired` or `WaitCancelled`."""
        if self.state is State.RESOLVED:
            payload_json = self.results_json if self.payload_json is None else self.payload_json
            if payload_json is None:
                raise ProtocolError("the wait is resolved, and its outcome carries no answer")
            return Answer(payload_json, self.answered_by, self)
        kind = {State.FAILED: WaitFailed, State.EXPIRED: WaitExpired, State.CANCELLED: WaitCancelled}[self.state]
        what = f"the wait {self.wait_id} was cancelled" if kind is WaitCancelled else f"the wait {self.wait_id} {self.state.name.lower()}"
        raise kind(f"{what}: {self.reason}" if self.reason else what, self)


@dataclass(frozen=True)
class Answer:
    """What was answered."""

    payload_json: str = field(repr=False)
    """The answer as JSON text: byte for byte as it was sent; for tool calls the JSON form of the results."""
    answered_by: str | None
    """Who answered, as the resolver claimed. `None` if it did not say, and for tool calls."""
    outcome: Outcome
    """The whole outcome."""

    @property
    def value(self) -> Any:
        """The answer, decoded from JSON. Integers of any size stay what they are."""
        return json.loads(self.payload_json)


@dataclass(frozen=True)
class OpenedWait:
    """A wait that was opened without staying attached."""

    opened: Opened
    """The wait as it was then, with its token."""
    outcome: Outcome | None
    """Its outcome, if it was opened before and is settled."""

    @property
    def token(self) -> str:
        """The bearer credential of this wait. A secret: whoever holds it can answer. Never log it."""
        return self.opened.token

    @property
    def wait_id(self) -> str:
        """The wait's public name. Not a secret."""
        return self.opened.wait_id
