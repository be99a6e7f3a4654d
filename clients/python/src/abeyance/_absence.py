"""What a client says of a broker that it cannot reach."""

from __future__ import annotations

import dataclasses

import grpc

from ._log import log
from .errors import AbeyanceError, Refusal, Unavailable


class Absence:
    """Warns, once and not for each call, that a broker does not answer. One for each client."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._told = False

    def begun(self, why: Refusal) -> None:
        """A call failed for want of an answer, and is made again."""
        if not self._told:
            self._told = True
            log.warning("the broker at %s does not serve a call, which is tried again: %s", self._target, _cause(why))

    def over(self) -> None:
        """The broker answered: the next absence is a new one."""
        self._told = False

    def error(self, why: Refusal, tries: int, seconds: float) -> AbeyanceError:
        """The error at the end of patience, with what the last of `tries` in `seconds` said."""
        times = "one try" if tries == 1 else f"{tries} tries"
        message = f"the broker at {self._target} did not serve the call in {times} within {seconds:.1f} s; at last: {_cause(why)}"
        return dataclasses.replace(why, message=message).error(Unavailable)


def _cause(why: Refusal) -> str:
    if why.code is grpc.StatusCode.UNAVAILABLE and "refused" in why.message.lower():
        return f"nothing listens there; does the broker run (`abeyance serve`)? [{why.message}]"
    if why.code is grpc.StatusCode.DEADLINE_EXCEEDED and why.reason is None:
        return f"it was silent for as long as a try may take; it, or the way to it, may be frozen or overloaded [{why.message}]"
    return why.message
