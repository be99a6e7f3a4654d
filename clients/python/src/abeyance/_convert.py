"""From the messages of the contract to the types of this package, and back."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from . import v1
from .errors import ProtocolError
from .info import CallDecision, Decided, Decision, Settled, WaitInfo
from .outcome import Opened, Outcome, State, TimeoutSource
from .question import question_from_message


def new_request_id() -> str:
    """A fresh UUIDv7. (The standard library makes them from Python 3.14 on.)"""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))


def seconds(message: Duration) -> float:
    """A length of time in seconds, of whatever size."""
    return message.seconds + message.nanos / 1e9


def length_or_none(holder: object, field: str) -> timedelta | None:
    """The length of time in a field, `None` where it is absent."""
    message: Duration = getattr(holder, field)
    return message.ToTimedelta() if holder.HasField(field) else None  # type: ignore[attr-defined]


def time_or_none(holder: object, field: str) -> datetime | None:
    """The time in a field, `None` where it is absent."""
    message: Timestamp = getattr(holder, field)
    return message.ToDatetime(timezone.utc) if holder.HasField(field) else None  # type: ignore[attr-defined]


def state(value: int) -> State:
    """What has become of a wait."""
    try:
        return State(value)
    except ValueError:
        raise ProtocolError(f"the state {value} is not known") from None


def timeout_source(value: int) -> TimeoutSource:
    """Where a timeout came from."""
    try:
        return TimeoutSource(value)
    except ValueError:
        return TimeoutSource.OTHER


def opened(message: v1.Opened) -> Opened:
    """The first event of a stream, or the answer to an open. Raises `ProtocolError` for one that nobody could answer."""
    if not message.token or not message.wait_id:
        raise ProtocolError("a wait without a token or without an id")
    return Opened(
        token=message.token,
        wait_id=message.wait_id,
        timeout=message.timeout.ToTimedelta(),
        timeout_source=timeout_source(message.timeout_source),
        expire_time=message.expire_time.ToDatetime(timezone.utc),
        asked=message.asked,
        resumed=message.resumed,
        question_pending=message.question_pending,
    )


_CAUSES = {v1.Expired.CAUSE_TIMEOUT: "TIMEOUT", v1.Expired.CAUSE_HEARTBEAT: "HEARTBEAT"}
_ARMS = {
    State.RESOLVED: "resolved",
    State.FAILED: "failed",
    State.EXPIRED: "expired",
    State.CANCELLED: "cancelled",
}


def outcome(message: v1.Outcome) -> Outcome:
    """How a wait ended. Raises `ProtocolError` for what the contract does not allow: nothing else must look like an answer."""
    ended = state(message.state)
    arm = message.WhichOneof("result")
    if ended is State.PENDING or arm != _ARMS[ended]:
        raise ProtocolError(f"an outcome of the state {ended.name} with the result {arm}")
    has_results = message.HasField("results")
    settle_time = message.settle_time.ToDatetime(timezone.utc)
    results = message.results if has_results else None
    results_json = message.results_json or None
    if ended is State.RESOLVED:
        return Outcome(
            message.wait_id,
            ended,
            settle_time,
            payload_json=message.resolved.payload_json or None,
            answered_by=message.resolved.answered_by or None,
            results=results,
            results_json=results_json,
        )
    if ended is State.FAILED:
        return Outcome(
            message.wait_id,
            ended,
            settle_time,
            reason=message.failed.reason,
            error_type=message.failed.error_type or None,
            details_json=message.failed.details_json or None,
            results=results,
            results_json=results_json,
        )
    if ended is State.EXPIRED:
        return Outcome(
            message.wait_id,
            ended,
            settle_time,
            reason=message.expired.reason,
            cause=_CAUSES.get(message.expired.cause, "OTHER"),
            results=results,
            results_json=results_json,
        )
    return Outcome(
        message.wait_id,
        ended,
        settle_time,
        reason=message.cancelled.reason,
        results=results,
        results_json=results_json,
    )


def decided(message: v1.Progress) -> Decided:
    """Which tool calls are decided."""
    return Decided(
        tuple(
            CallDecision(
                call.tool_call_id,
                _decision(call.decision),
                call.answered_by or None,
                call.decide_time.ToDatetime(timezone.utc),
            )
            for call in message.decided
        ),
        message.decided_calls,
        message.pending_calls,
    )


def _decision(value: int) -> Decision:
    try:
        return Decision(value)
    except ValueError:
        return Decision.OTHER


def resolved(message: v1.ResolveResponse) -> Settled:
    """What an answer did."""
    return Settled(
        message.wait_id,
        state(message.state),
        time_or_none(message, "settle_time"),
        message.replayed,
        message.answered_by or None,
        decided(message.progress) if message.HasField("progress") else None,
    )


def failed(message: v1.FailResponse) -> Settled:
    """What a failure did."""
    return Settled(message.wait_id, state(message.state), time_or_none(message, "settle_time"), message.replayed)


def info(message: v1.Wait) -> WaitInfo:
    """A wait."""
    return WaitInfo(
        wait_id=message.wait_id,
        namespace=message.namespace,
        name=message.name,
        key=message.key or None,
        labels=dict(message.labels),
        state=state(message.state),
        create_time=message.create_time.ToDatetime(timezone.utc),
        expire_time=message.expire_time.ToDatetime(timezone.utc),
        timeout=message.timeout.ToTimedelta(),
        timeout_source=timeout_source(message.timeout_source),
        ask_time=time_or_none(message, "ask_time"),
        heartbeat_timeout=length_or_none(message, "heartbeat_timeout"),
        heartbeat_expire_time=time_or_none(message, "heartbeat_expire_time"),
        settle_time=time_or_none(message, "settle_time"),
        question=question_from_message(message.question) if message.HasField("question") else None,
        outcome=outcome(message.outcome) if message.HasField("outcome") else None,
        decided=decided(message.progress) if message.HasField("progress") else None,
        decisions=message.decided if message.HasField("decided") else None,
    )


def states(values: Iterable[State]) -> list[v1.Wait.State]:
    """States as the contract numbers them."""
    given = list(values)
    for value in given:
        if not isinstance(value, State):
            raise TypeError(f"states must be of the type State, not {type(value).__name__}")
    return [value.value for value in given]
