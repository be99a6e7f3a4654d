"""A wait as others see it, and what an answer did to it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from . import v1
from .outcome import Outcome, State, TimeoutSource
from .question import Question

__all__ = ["CallDecision", "Decided", "Decision", "Settled", "WaitInfo"]


class Decision(enum.Enum):
    """What was decided about a tool call."""

    OTHER = v1.CallDecision.DECISION_UNSPECIFIED
    """Something that this version of the client does not know."""
    APPROVED = v1.CallDecision.DECISION_APPROVED
    """The tool may run with the model's arguments."""
    APPROVED_WITH_OVERRIDE = v1.CallDecision.DECISION_APPROVED_WITH_OVERRIDE
    """The tool may run with other arguments."""
    DENIED = v1.CallDecision.DECISION_DENIED
    """The tool must not run."""
    RETURNED = v1.CallDecision.DECISION_RETURNED
    """The call has a result, or the question an answer."""
    FAILED = v1.CallDecision.DECISION_FAILED
    """The call failed."""
    RETRY = v1.CallDecision.DECISION_RETRY
    """The model is to try again."""


@dataclass(frozen=True)
class CallDecision:
    """The decision on one tool call, without what was sent with it."""

    tool_call_id: str
    """The call's id."""
    decision: Decision
    """What was decided."""
    answered_by: str | None
    """Who decided, as the resolver claimed."""
    decide_time: datetime
    """When it was recorded, by the broker's clock, in UTC."""


@dataclass(frozen=True)
class Decided:
    """Which of a wait's tool calls are decided so far. It only grows: a decision stays."""

    decisions: tuple[CallDecision, ...]
    """The calls that are decided, in the order in which they were. Empty in lists and watches, which show the two numbers alone."""
    decided_calls: int
    """How many calls are decided."""
    pending_calls: int
    """How many calls are not decided yet."""


@dataclass(frozen=True)
class Settled:
    """What an accepted answer or failure did."""

    wait_id: str
    """The wait's public name."""
    state: State
    """What has become of the wait. `PENDING` after a partial answer that left calls undecided; after a repeat of one, whatever became
    of the wait since."""
    settle_time: datetime | None
    """When the wait was settled, by the broker's clock: for a repeat, the first time. `None` while it is pending."""
    replayed: bool
    """The same was recorded before. Also true where the client itself had to repeat the call."""
    answered_by: str | None = None
    """Who gave the answer that is recorded: for a repeat, whoever was first. `None` if nobody was named, and for tool calls."""
    decided: Decided | None = None
    """For tool calls: what is decided by now, and by whom. For a repeat, by whoever was first."""


@dataclass(frozen=True)
class WaitInfo:
    """A wait, as it is shown to whoever may look at it.

    - `wait_id`: The wait's public name.
    - `namespace`: The namespace it was opened in.
    - `name`: What kind of wait this is.
    - `key`: The worker's own key.
    - `labels`: The worker's labels.
    - `state`: What has become of it.
    - `create_time`: When it was opened, in UTC.
    - `expire_time`: When it expires, or would have expired, in UTC.
    - `timeout`: The time it was given at open.
    - `timeout_source`: Where the timeout came from.
    - `ask_time`: When question and token were handed on.
    - `heartbeat_timeout`: How long the answering side may stay silent once asked.
    - `heartbeat_expire_time`: When the heartbeat timeout runs out unless a heartbeat arrives.
    - `settle_time`: When its outcome was recorded.
    - `question`: What is asked. `None` in lists and watches, and where there is no question.
    - `outcome`: The outcome. `None` while pending, and in lists and watches.
    - `decided`: Which tool calls were decided, by whom and when. `None` for other questions; in lists and watches also once it is settled.
    - `decisions`: What is decided of the tool calls while the wait is pending. `None` for other questions, where nothing is decided yet,
      once it is settled (then `outcome` has it), and in lists and watches.
    """

    wait_id: str
    namespace: str
    name: str
    key: str | None
    labels: dict[str, str]
    state: State
    create_time: datetime
    expire_time: datetime
    timeout: timedelta
    timeout_source: TimeoutSource
    ask_time: datetime | None
    heartbeat_timeout: timedelta | None
    heartbeat_expire_time: datetime | None
    settle_time: datetime | None
    question: Question | None = field(repr=False)
    outcome: Outcome | None
    decided: Decided | None
    decisions: v1.DeferredToolResults | None = field(repr=False)
