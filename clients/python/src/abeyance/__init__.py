"""The client of Abeyance, the gRPC broker that holds a wait until somebody elsewhere answers it."""

from ._version import __version__
from .client import AbeyanceClient
from .errors import (
    AbeyanceError,
    AskFailed,
    Detached,
    ProtocolError,
    Refused,
    Unavailable,
    Violation,
    WaitCancelled,
    WaitEnded,
    WaitExpired,
    WaitFailed,
)
from .external import Answered, AskFunction, Ticket
from .inbox import WatchEvent, WatchKind
from .info import CallDecision, Decided, Decision, Settled, WaitInfo
from .outcome import Answer, Opened, OpenedWait, Outcome, State, TimeoutSource
from .question import CallKind, DeferredCalls, DeferredJson, Form, FreeJson, Question, ToolCall
from .results import Results
from .settings import Backoff, Settings
from .sync import SyncAbeyanceClient, SyncAskFunction, SyncTicket, SyncWait
from .wait import Wait

__all__ = [
    "AbeyanceClient",
    "AbeyanceError",
    "Answer",
    "Answered",
    "AskFailed",
    "AskFunction",
    "Backoff",
    "CallDecision",
    "CallKind",
    "Decided",
    "Decision",
    "DeferredCalls",
    "DeferredJson",
    "Detached",
    "Form",
    "FreeJson",
    "Opened",
    "OpenedWait",
    "Outcome",
    "ProtocolError",
    "Question",
    "Refused",
    "Results",
    "Settings",
    "Settled",
    "State",
    "SyncAbeyanceClient",
    "SyncAskFunction",
    "SyncTicket",
    "SyncWait",
    "Ticket",
    "TimeoutSource",
    "ToolCall",
    "Unavailable",
    "Violation",
    "Wait",
    "WaitCancelled",
    "WaitEnded",
    "WaitExpired",
    "WaitFailed",
    "WaitInfo",
    "WatchEvent",
    "WatchKind",
    "__version__",
]
