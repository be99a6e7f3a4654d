"""What can go wrong, and what the broker said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from .outcome import Outcome

__all__ = [
    "AbeyanceError",
    "AskFailed",
    "Detached",
    "ProtocolError",
    "Refused",
    "Unavailable",
    "Violation",
    "WaitCancelled",
    "WaitEnded",
    "WaitExpired",
    "WaitFailed",
]


@dataclass(frozen=True)
class Violation:
    """One fault of a request."""

    field: str
    """The path of the field, as the contract names it, for example `spec.labels`. For `INVALID_ANSWER` the path in the answer, for
    example `approvals["call_2"].override_args`."""
    description: str
    """What is wrong with it."""


class AbeyanceError(Exception):
    """The base of all that this package raises, other than `ValueError` and `TypeError` for arguments that can never be sent."""

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode | None = None,
        reason: str | None = None,
        violations: tuple[Violation, ...] = (),
        metadata: Mapping[str, str] | None = None,
        retry_delay: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """What happened, for people."""
        self.code = code
        """The status code. `None` if the error arose in the client."""
        self.reason = reason
        """The reason in the status's `ErrorInfo`: a name of `ErrorReason` without its prefix, for example `ALREADY_SETTLED`. `None`
        if the status did not come from the broker, or if a proxy dropped its details."""
        self.violations = violations
        """The faults of the request, one by one. Empty where the status carries none."""
        self.metadata = dict(metadata or {})
        """The metadata in `ErrorInfo`, for example `state` of `ALREADY_SETTLED`."""
        self.retry_delay = retry_delay
        """How long the broker asks to wait before the call is repeated, in seconds. `None` where it does not."""

    def __str__(self) -> str:
        label = self.reason or (self.code.name if self.code else None)
        text = f"{self.message} ({label})" if label else self.message
        faults = [f"{v.field}: {v.description}" for v in self.violations]
        if len(faults) == 1 and faults[0] in self.message:
            # The broker says the first fault in its message, too.
            return text
        return "\n  ".join([text, *faults])


class Refused(AbeyanceError):
    """The broker refused the call. Repeating it as it is gives the same refusal, unless `retry_delay` is set.

    What to do depends on `reason`; among those that an answer meets:

    - `INVALID_JSON`, `INVALID_FIELD`, `INVALID_ANSWER`: mend what `violations` name and send it again; the wait is as it was.
    - `ALREADY_DECIDED`: somebody decided a tool call otherwise, and nothing of this answer was recorded; `metadata` has the first such
      call as `tool_call_id`. Answer without it; its decision stays.
    - `ALREADY_SETTLED`: the wait has another outcome, which stays. Show whoever answered that they were late.
    - `QUESTION_NOT_SET`: repeat it after `retry_delay`.
    """


class Unavailable(AbeyanceError):
    """The broker could not be reached, or could not serve the call, for as long as the client's patience lasted.

    Repeating the call later is safe: whether the last try was carried out or not is unknown, and does not matter.
    """


class ProtocolError(AbeyanceError):
    """The broker sent what the contract does not allow, or what this version of the client does not know."""


class Detached(AbeyanceError):
    """The wait was let go of before it had an outcome: by `Wait.aclose`, by closing its client, or at the end of its event loop. The wait
    itself is unharmed."""


class WaitEnded(AbeyanceError):
    """A wait ended without an answer. The base of `WaitFailed`, `WaitExpired` and `WaitCancelled`."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
        """How it ended, with `reason` and all the rest."""

    def __reduce__(self) -> tuple[Any, ...]:
        # `Exception` itself would call the class with the message alone. Engines and pools of processes pickle what is raised.
        return type(self), (self.message, self.outcome), self.__dict__


class WaitFailed(WaitEnded):
    """The answering side ended the wait with `fail`."""


class WaitExpired(WaitEnded):
    """The wait's time ran out, or the answering side's heartbeat stopped."""


class WaitCancelled(WaitEnded):
    """The worker's side withdrew the wait."""


class AskFailed(AbeyanceError):
    """The ask failed; its exception is the `__cause__`.

    A wait without a key was cancelled; one with a key is open and not asked, so that running again asks again.
    """


# A mesh may cut a call with any status, so everything that is not a clear verdict on the request counts as a cut.
_VERDICTS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.OUT_OF_RANGE,
    }
)


@dataclass(frozen=True)
class Refusal:
    """A status that is not OK, with its details decoded. Internal: callers get it as an `AbeyanceError`."""

    code: grpc.StatusCode
    message: str
    reason: str | None = None
    violations: tuple[Violation, ...] = ()
    metadata: Mapping[str, str] | None = None
    retry_delay: float | None = None

    @property
    def is_passing(self) -> bool:
        """Whether the same call may succeed when it is simply repeated."""
        return self.code not in _VERDICTS

    @property
    def is_scolded_connection(self) -> bool:
        """Whether the server ended the whole connection with GOAWAY and `ENHANCE_YOUR_CALM`. grpcio tells of it in words alone."""
        return "GOAWAY" in self.message and any(word in self.message for word in ("Error code: 11", "too_many_pings", "ENHANCE_YOUR_CALM"))

    @property
    def is_scolding(self) -> bool:
        """Whether it says that this client does too much."""
        return self.code is grpc.StatusCode.RESOURCE_EXHAUSTED or self.is_scolded_connection

    def error(self, kind: type[AbeyanceError]) -> AbeyanceError:
        """The same as an exception."""
        return kind(
            self.message,
            code=self.code,
            reason=self.reason,
            violations=self.violations,
            metadata=self.metadata,
            retry_delay=self.retry_delay,
        )


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    """Decodes the status of a call that failed."""
    code = error.code()
    message = error.details() or code.name
    details = _details(error)
    reason: str | None = None
    metadata: dict[str, str] = {}
    violations: list[Violation] = []
    retry_delay: float | None = None
    for detail in details.details if details else ():
        info = error_details_pb2.ErrorInfo()
        bad = error_details_pb2.BadRequest()
        retry = error_details_pb2.RetryInfo()
        try:
            if detail.Unpack(info):
                reason, metadata = info.reason or None, dict(info.metadata)
            elif detail.Unpack(bad):
                violations += [Violation(v.field, v.description) for v in bad.field_violations]
            elif detail.Unpack(retry):
                retry_delay = max(retry.retry_delay.ToTimedelta().total_seconds(), 0.0)
        except (DecodeError, ValueError):
            # The code and the message say enough.
            continue
    return Refusal(code, message, reason, tuple(violations), metadata, retry_delay)


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None
