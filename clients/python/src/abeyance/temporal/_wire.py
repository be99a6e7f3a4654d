"""What passes between workflow code and the activities, and so lies in the workflow's history.

Plain data classes of JSON types, which every payload converter of Temporal takes. Fields may be added with a default; a history that
was recorded before must still be read.
"""

# No `from __future__ import annotations`: the workflow sandbox has modules of its own, in which Pydantic would look for the names.

from dataclasses import dataclass, field

OPEN = "abeyance_open"
MARK_ASKED = "abeyance_mark_asked"
ANSWER = "abeyance_answer"
ATTACH = "abeyance_attach"
WITHDRAW = "abeyance_withdraw"


@dataclass(frozen=True)
class OpenRequest:
    """Which wait to open, or to withdraw."""

    name: str
    key: str
    namespace: str | None = None
    timeout_us: int | None = None
    """In microseconds, which is what the broker keeps. `None`: as long as the broker allows."""
    labels: dict[str, str] = field(default_factory=dict)
    requests_json: str | None = None
    """The question, if it is known: the JSON form of the `DeferredToolRequests`. `None`: any JSON answers."""
    may_leave_pending: bool = False


@dataclass(frozen=True)
class Ended:
    """What a run is told of its wait's end: one of the two."""

    payload_json: str | None = None
    """What it goes on with, as JSON text."""
    reason: str | None = None
    """Why there is nothing to go on with."""


@dataclass(frozen=True)
class OpenReply:
    """The wait that was opened, or met again."""

    token: str = field(repr=False)
    wait_id: str
    asked: bool
    ended: Ended | None = None
    """Its end, if it has ended."""


@dataclass(frozen=True)
class TokenRequest:
    """The wait to mark, or to attach to."""

    token: str = field(repr=False)


@dataclass(frozen=True)
class AnswerRequest:
    """An answer that the ask itself gave."""

    token: str = field(repr=False)
    wait_id: str
    answer_json: str = field(repr=False)
