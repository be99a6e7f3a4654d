"""How tries are bounded, and when the next one is made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

import grpc

from ._absence import Absence
from ._log import log
from .errors import Refusal, Refused, refusal
from .settings import Settings

T = TypeVar("T")

LONGEST_RETRY_DELAY = 600.0
"""The longest time, in seconds, for which a broker may keep a client from trying again."""
SCOLDED = 5
"""The number of the try that a scolding makes of the next one: up to 8 s of delay."""
HEALTHY = 5.0
"""A stream that lived for so many seconds makes the next cut a first one. Shorter ones are a broker, or a proxy, in trouble."""
_WARNING_INTERVAL = 600.0


class Cut(Exception):
    """A try that brought no answer. Internal."""

    def __init__(self, why: Refusal, *, silent: bool = False) -> None:
        super().__init__(why.message)
        self.why = why
        """What the broker, the transport or this client found."""
        self.silent = silent
        """Nothing was heard: the connection may be frozen."""


def lost(message: str, *, silent: bool = False, retry_delay: float | None = None) -> Cut:
    """What the client itself found out about a connection, and for how many seconds the broker asked to be left alone."""
    return Cut(Refusal(grpc.StatusCode.UNAVAILABLE, message, retry_delay=retry_delay), silent=silent)


def asked_for(delay: float | None) -> float:
    """How long, in seconds, a broker is taken to keep a client from trying again."""
    return min(max(delay or 0.0, 0.0), LONGEST_RETRY_DELAY)


async def within(seconds: float, what: Awaitable[T], silence: str) -> T:
    """Awaits a step of a call for so long. Raises `Cut` for a status that is not OK, for silence, and for a channel that was closed
    meanwhile; only if the caller's own task is cancelled it raises `CancelledError`."""
    task = asyncio.ensure_future(what)
    try:
        # Not `asyncio.wait_for`: before Python 3.12 it may swallow a cancellation.
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise lost(silence, silent=True)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=1)
        if task.done() and not task.cancelled():
            # Seen, also where this task is cancelled in the same moment.
            task.exception()
    if task.cancelled():
        raise lost("the connection was given up")
    error = task.exception()
    if isinstance(error, grpc.aio.AioRpcError):
        why = refusal(error)
        # Our own deadline, unless the broker says that it was that which ended the call.
        raise Cut(why, silent=why.code is grpc.StatusCode.DEADLINE_EXCEEDED and why.reason is None)
    if isinstance(error, grpc.aio.UsageError):
        raise lost("the connection was given up")
    return task.result()


class Restraint:
    """Warns, once and not for each of many streams, that a server asks for restraint. One for each client."""

    def __init__(self) -> None:
        self._last = -_WARNING_INTERVAL

    def after(self, why: Refusal, attempt: int) -> int:
        """The number of the next try after `why`; `attempt` would be its turn."""
        if not why.is_scolding:
            return attempt
        now = time.monotonic()
        if now - self._last >= _WARNING_INTERVAL:
            self._last = now
            log.warning("the broker, or a proxy before it, asks for restraint: %s (%s)", why.message, why.code.name)
        return max(attempt, SCOLDED)


class Rest:
    """How long all streams of a scolded connection stay away: together, since of a thousand single delays the shortest is none."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attempt = 0
        self._until = 0.0

    async def pause(self, why: Refusal, restraint: Restraint) -> None:
        """Waits until the rest is over that `why` began, or another stream for the same reason."""
        now = time.monotonic()
        if now >= self._until:
            self._attempt = restraint.after(why, self._attempt)
            self._until = now + self._settings.backoff.delay(self._attempt) + asked_for(why.retry_delay)
            self._attempt += 1
        await asyncio.sleep(self._until - now)

    def over(self) -> None:
        """The trouble is over: the next rest is a first one."""
        self._attempt = 0


class Tries:
    """The tries of one call: how many there were, and when the next one may be made."""

    def __init__(self, settings: Settings, restraint: Restraint, absence: Absence, patience: float | None, *, quiet: bool = False) -> None:
        """`quiet` is for what goes on by itself, with nobody who waits for this very try."""
        self._settings = settings
        self._restraint = restraint
        self._absence = absence
        self._patience = patience
        self._quiet = quiet
        self._failed = 0
        self._begun = time.monotonic()
        self._attempt = 0

    async def pause(self, why: Refusal) -> None:
        """Waits until the next try. Raises `Refused` after a clear verdict, `Unavailable` at the end of patience (`None`: never)."""
        if not why.is_passing:
            self._absence.over()
            raise why.error(Refused) from None
        self._failed += 1
        self._attempt = self._restraint.after(why, self._attempt)
        delay = self._settings.backoff.delay(self._attempt) + asked_for(why.retry_delay)
        if self._patience is not None:
            passed = time.monotonic() - self._begun
            left = self._patience - passed
            if left <= 0:
                raise self._absence.error(why, self._failed, passed) from None
            # The last try is made when patience ends, not given up because its delay would be longer.
            delay = min(delay, left)
        if not self._quiet and not why.is_scolding:
            self._absence.begun(why)
        log.debug("trying a call again in %.3f s: %s", delay, why.code.name)
        self._attempt += 1
        await asyncio.sleep(delay)

    def patient(self) -> None:
        """From now on patience has no end."""
        self._patience = None

    def over(self) -> None:
        """The trouble is over: the next try is a first one."""
        self._attempt = 0
