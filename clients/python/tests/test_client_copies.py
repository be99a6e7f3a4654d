"""Exceptions and values are pickled and copied: engines record what a step raised, pools of processes send it home."""

from __future__ import annotations

import copy
import enum
import inspect
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import grpc
import pytest

import abeyance
from abeyance import (
    AbeyanceClient,
    AbeyanceError,
    Answer,
    Answered,
    Backoff,
    CallDecision,
    CallKind,
    Decided,
    Decision,
    DeferredCalls,
    DeferredJson,
    Form,
    FreeJson,
    Opened,
    OpenedWait,
    Outcome,
    Results,
    Settings,
    Settled,
    State,
    SyncAbeyanceClient,
    SyncTicket,
    Ticket,
    TimeoutSource,
    ToolCall,
    Violation,
    WaitEnded,
    WaitInfo,
    WatchEvent,
    WatchKind,
)
from abeyance._json import NOTHING

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
RESULTS = Results().approve("a", {"n": 1}).value("b", [1.5]).metadata("a", {"m": 1})
CALLS = DeferredCalls([ToolCall("a", "t", '{"n": 1.0}', CallKind.EXTERNAL, '{"m": 1}', "why")], may_leave_pending=True)
OUTCOME = Outcome("w", State.FAILED, NOW, reason="closed", error_type="Shop", details_json="{}", results=RESULTS.message, results_json="{}")
OPENED = Opened("abey_t", "w", timedelta(60), TimeoutSource.TIMEOUT, NOW, True, False, True)
DECISION = CallDecision("a", Decision.DENIED, "alice", NOW)
DECIDED = Decided((DECISION,), 1, 2)
INFO = WaitInfo(
    *("w", "default", "name", "k", {"team": "a"}, State.PENDING, NOW, NOW, timedelta(60), TimeoutSource.DEADLINE, NOW, None, None, None),
    *(CALLS, OUTCOME, DECIDED, RESULTS.message),
)
SETTINGS = Settings(patience=1, backoff=Backoff(base=2.0))
SAMPLES = [
    *(OUTCOME, OPENED, DECISION, DECIDED, INFO, SETTINGS, CALLS, RESULTS, Backoff(cap=3.0), Violation("f", "d"), CALLS.calls[0]),
    *(Answer("1", "alice", OUTCOME), OpenedWait(OPENED, OUTCOME), Settled("w", State.RESOLVED, NOW, True, "alice", DECIDED)),
    *(FreeJson.text("[1.0]"), DeferredJson("{}", True), Form("m", [1], {"type": "integer"}), WatchEvent(WatchKind.WAIT, INFO)),
    *(Answered({"a": 1}, answered_by="alice"), Answered(results=RESULTS)),
    *(Ticket("abey_t", "w", AbeyanceClient("h:1")), SyncTicket("abey_t", "w", SyncAbeyanceClient("h:1"))),
]
# They are the connections to a wait.
LIVE = {abeyance.Wait, abeyance.SyncWait}
CLIENTS = {AbeyanceClient, SyncAbeyanceClient}
PUBLIC = {kind for name in abeyance.__all__ if inspect.isclass(kind := getattr(abeyance, name))}
ERRORS = sorted((kind for kind in PUBLIC if issubclass(kind, BaseException)), key=str)
ENUMS = {kind for kind in PUBLIC if issubclass(kind, enum.Enum)}

COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, *((lambda o, n=n: pickle.loads(pickle.dumps(o, n))) for n in (2, 5))]


def test_each_public_class_is_tried() -> None:
    assert {type(sample) for sample in SAMPLES} == PUBLIC - LIVE - CLIENTS - set(ERRORS) - ENUMS


def contents(value: Any) -> Any:
    """What a value is made of, where it has no `==`."""
    return vars(value) if isinstance(value, Answered | Results) else value


@pytest.mark.parametrize("copied", COPIES)
def test_values(copied: Callable[[Any], Any]) -> None:
    for sample in [*SAMPLES, *(member for kind in ENUMS for member in kind)]:
        again = copied(sample)
        assert type(again) is type(sample)
        assert contents(again) == contents(sample)
    assert copied(NOTHING) is NOTHING


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind: type[AbeyanceError], copied: Callable[[Any], Any]) -> None:
    if issubclass(kind, WaitEnded):
        error: AbeyanceError = kind("the wait w failed", OUTCOME)
    else:
        details: dict[str, Any] = {"violations": (Violation("f", "d"),), "metadata": {"state": "x"}, "retry_delay": 1.5}
        error = kind("late", code=grpc.StatusCode.NOT_FOUND, reason="WAIT_UNKNOWN", **details)
    again = copied(error)
    assert type(again) is kind
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("kind", [AbeyanceClient, SyncAbeyanceClient])
def test_a_copied_client_connects_for_itself(kind: Any, copied: Callable[[Any], Any]) -> None:
    client = kind("h:1", settings=SETTINGS)
    again = copied(client)
    assert repr(again) == repr(client)
    inner = again if kind is AbeyanceClient else again._client
    assert inner.settings == SETTINGS
    assert again is not client
