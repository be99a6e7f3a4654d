"""A wait that is attached to."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from types import TracebackType

from ._channels import Lines
from ._follow import Stream, Streams
from .errors import AbeyanceError, Detached
from .info import Decided
from .outcome import Opened, Outcome

__all__ = ["Wait"]


class Wait:
    """A wait that is attached to, through cuts and restarts of the broker, until its outcome. Made by `AbeyanceClient.wait` and `attach`.

    A task of its own reads its streams and attaches again by itself: with full jitter after a cut, at once after the planned end of a
    stream. It belongs to the event loop that it was made in. `aclose`, leaving it as a context manager, and closing its client detach and
    nothing more: the wait stays as it is. To withdraw it, call `AbeyanceClient.cancel`. Merely forgotten it stays attached until its
    outcome.
    """

    def __init__(self, streams: Streams, stream: Stream, lines: Lines) -> None:
        self._opened = stream.opened
        self._attached = True
        self._reattached = 0
        self._time_left: float | None = None
        self._progress: Decided | None = None
        self._error: BaseException | None = None
        self._changed = asyncio.Event()
        self._done = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(streams.follow(stream, _Told(self)))
        self._task.add_done_callback(self._ended)
        lines.adopt(self._task)

    @property
    def opened(self) -> Opened:
        """What the wait was when it was first attached to."""
        return self._opened

    @property
    def attached(self) -> bool:
        """Whether a stream is attached now."""
        return self._attached

    @property
    def reattached(self) -> int:
        """How many times the wait was attached to again after the end of a stream."""
        return self._reattached

    @property
    def time_left(self) -> float | None:
        """The time left until the wait expires, in seconds, as the broker told it last. `None` before it did."""
        return self._time_left

    @property
    def progress(self) -> Decided | None:
        """Which of the wait's tool calls are decided so far. `None` before the broker tells of a decision, and for other questions. It
        only grows, through cuts too; what is decided last may be told by the outcome alone."""
        return self._progress

    @property
    def token(self) -> str:
        """The bearer credential of this wait. A secret: whoever holds it can answer. Never log it."""
        return self.opened.token

    @property
    def wait_id(self) -> str:
        """The wait's public name."""
        return self.opened.wait_id

    def __repr__(self) -> str:
        return f"Wait({self.wait_id}, attached={self.attached}, reattached={self.reattached}, done={self._done.is_set()})"

    async def outcome(self) -> Outcome:
        """Waits for the outcome. May be called any number of times, also at once, and gives the same each time; cancelling it loses
        nothing.

        Raises `Refused` if the broker no longer knows the wait, `ProtocolError`, and `Detached` after `aclose`. A broker that cannot be
        reached is no error here: the wait goes on.
        """
        await self._done.wait()
        if self._error is not None:
            if isinstance(self._error, AbeyanceError):
                # A copy each time: one object would gather the tracebacks of all who are told.
                raise copy.copy(self._error) from self._error.__cause__
            raise self._error
        return self._task.result()

    async def decisions(self) -> AsyncIterator[Decided]:
        """Tells `progress` now and each time it grows, until the outcome arrives. Several decisions may be told as one."""
        told: Decided | None = None
        while True:
            if self.progress is not None and self.progress is not told:
                told = self.progress
                yield told
            elif self._done.is_set():
                return
            else:
                await self._changed.wait()

    async def aclose(self) -> None:
        """Detaches, and nothing more."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def __aenter__(self) -> Wait:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.aclose()

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        # A callback, since a task that is cancelled before its first step runs nothing of its own.
        if task.cancelled():
            self._error = Detached("the wait was let go of before it had an outcome")
        else:
            self._error = task.exception()
        self._attached = False
        self._done.set()
        self._tell()

    def _tell(self) -> None:
        """Wakes whoever waits for a change now."""
        self._changed.set()
        self._changed = asyncio.Event()


class _Told:
    """Writes what the follower learns into its wait."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait

    def attached(self) -> None:
        self._wait._attached = True
        self._wait._reattached += 1

    def cut(self) -> None:
        self._wait._attached = False

    def alive(self, time_left: float) -> None:
        self._wait._time_left = time_left

    def decided(self, decided: Decided) -> None:
        known = self._wait.progress
        # A stream that was just attached to may know less than the one before: that is no news.
        if known is None or decided.decided_calls > known.decided_calls:
            self._wait._progress = decided
            self._wait._tell()
