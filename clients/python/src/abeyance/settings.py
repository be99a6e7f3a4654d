"""How a client connects and how patient it is."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from ._check import seconds

__all__ = ["Backoff", "Settings"]

LONGEST_WINDOW = 3600.0
"""No timer is ever longer than this, in seconds: some stacks between client and broker cannot count further."""
_LONGEST = 86400.0
"""The longest time that makes sense here, in seconds."""


def _check(name: str, value: float, *, zero: bool = False) -> None:
    seconds(name, value)
    if not (value >= 0 if zero else value > 0) or value > _LONGEST:
        raise ValueError(f"{name} must be positive{', or zero,' if zero else ''} and at most {_LONGEST:g} s, and is {value!r}")


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with full jitter: try number `n` (from 0) waits a random time below `min(cap, base * 2**n)`.

    Full jitter, since all clients of a broker lose their streams in the same moment, and must not come back in one.
    """

    base: float = 0.25
    """The bound of the first delay, in seconds."""
    cap: float = 30.0
    """The bound of every delay, in seconds."""

    def __post_init__(self) -> None:
        _check("base", self.base)
        _check("cap", self.cap)

    def bound(self, attempt: int) -> float:
        """What the delay before try number `attempt` stays below, in seconds."""
        # Beyond 2**31 any sane base is above any sane cap, and a float would overflow some day.
        return min(self.cap, self.base * 2.0 ** min(attempt, 31))

    def delay(self, attempt: int) -> float:
        """A fresh random delay before try number `attempt`, in seconds."""
        return random.random() * self.bound(attempt)


@dataclass(frozen=True)
class Settings:
    """How a client connects and how patient it is. Every value has a default that fits most; all times are in seconds, and a day at most:
    anything else raises `ValueError`."""

    attempt_timeout: float = 15.0
    """How long one try of a call may take, and how long a stream may take to its first event, before it is given up and tried
    again."""
    patience: float = 30.0
    """For how long a call is tried again that fails for want of a connection, before it raises `Unavailable`; a try that has begun
    is not cut by it. Zero: one try. It does not bound an attached wait, which attaches again for as long as somebody waits."""
    backoff: Backoff = field(default_factory=Backoff)
    """The delays between tries."""
    window: tuple[float, float] = (54 * 60.0, 60 * 60.0)
    """The deadline of a stream, drawn anew each time between these two; then it is attached to again. No timer is ever longer."""
    keepalive_time: float = 330.0
    """How long a connection with open calls may be silent before it is tested with an HTTP/2 ping. Servers of the gRPC family call
    less than 300 abuse, and end the connection; the broker's own signs of life show a dead stream much sooner."""
    keepalive_timeout: float = 20.0
    """How long the answer to such a ping may take."""

    def __post_init__(self) -> None:
        least, most = self.window
        for name in ("attempt_timeout", "keepalive_time", "keepalive_timeout"):
            _check(name, getattr(self, name))
        for name, bound in (("the beginning of window", least), ("the end of window", most)):
            _check(name, bound)
        _check("patience", self.patience, zero=True)
        if not least <= most <= LONGEST_WINDOW:
            raise ValueError(f"a window is at most {LONGEST_WINDOW:g} s, and its bounds come in order")
