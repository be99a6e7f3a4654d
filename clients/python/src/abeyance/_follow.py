"""One wait, followed through all the streams it takes until its outcome."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, Protocol

import grpc

from . import _convert, v1
from ._absence import Absence
from ._channels import Channels, Line
from ._log import log
from ._retry import LONGEST_RETRY_DELAY, Cut, Restraint, Tries, lost, within
from .errors import ProtocolError, Refusal
from .info import Decided
from .outcome import Opened, Outcome
from .settings import Settings

_ALIVE_INTERVAL = 25.0
"""The period of `alive` events where a broker does not name it."""
_END_OF_STREAM = 1.0
"""How long the end of a stream may take after its last event. It comes with that event, unless a proxy holds it back."""
_HEALTHY = 5.0
"""A stream that lived for this long makes the next cut a first one. Shorter ones are a broker, or a proxy, in trouble."""


class Told(Protocol):
    """Where the follower of a wait tells what it learns."""

    def attached(self) -> None:
        """A stream is attached again."""

    def cut(self) -> None:
        """The stream has ended."""

    def alive(self, time_left: float) -> None:
        """The broker says that the wait goes on, for so many seconds."""

    def decided(self, decided: Decided) -> None:
        """The broker says which tool calls are decided."""


class Planned(Exception):
    """The planned end of a stream: there is no trouble to back off from."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        self.delay = delay
        """What the broker asked for, in seconds."""


class Stream:
    """A stream that has begun: `opened` has arrived."""

    def __init__(self, call: Any, line: Line, opened: Opened, alive_interval: float, window: float) -> None:
        self.call = call
        self.line = line
        self.opened = opened
        self.begun = time.monotonic()
        self._silence = 2 * alive_interval
        self._window = window

    async def next(self) -> v1.WaitEvent:
        """The next event. Raises `Cut` or `Planned` where the stream ends without one."""
        try:
            event = await _event(self.call, self._silence, "no sign of life on the stream")
        except Cut as cut:
            # The window's own end. The broker counts the deadline too, and may be a little ahead.
            late = time.monotonic() - self.begun >= self._window - min(1.0, self._window / 10)
            if late and cut.why.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise Planned(0.0) from None
            raise
        if event is None:
            raise lost("the stream ended without an outcome")
        return event


async def _finish(call: Any) -> None:
    """Reads a stream to its end: giving it up before its trailers would send a reset, and many resets cost the connection."""
    end = time.monotonic() + _END_OF_STREAM
    try:
        while await _event(call, end - time.monotonic(), "the stream did not end") is not None:
            pass
    except Cut as cut:
        log.debug("after the last event of a stream: %s", cut.why.message)


async def _event(call: Any, seconds: float, silence: str) -> v1.WaitEvent | None:
    """The next event of a stream of either rpc, `None` at its end."""
    message = await within(max(seconds, 0.0), call.read(), silence)
    if message is grpc.aio.EOF:
        return None
    event: v1.WaitEvent = message.event
    return event


def _let_go(detached: v1.Detached) -> Cut:
    cut = lost("the broker let go of the stream")
    if detached.HasField("retry_delay"):
        delay = detached.retry_delay.ToTimedelta().total_seconds()
        return Cut(type(cut.why)(cut.why.code, cut.why.message, retry_delay=delay))
    return cut


class Streams:
    """Begins and follows the streams of waits."""

    def __init__(self, channels: Channels, settings: Settings, restraint: Restraint, absence: Absence) -> None:
        self._channels = channels
        self._settings = settings
        self._restraint = restraint
        self._absence = absence

    async def begin(self, request: v1.WaitRequest | v1.AttachRequest) -> Stream:
        """One try to begin a stream. Raises `Cut`, or `ProtocolError`."""
        lines = self._channels.here()
        line = lines.get("waits")
        window = random.uniform(*self._settings.window)
        rpc = line.waits.Wait if isinstance(request, v1.WaitRequest) else line.waits.Attach
        call = rpc(request, timeout=window)
        until = time.monotonic() + self._settings.attempt_timeout
        begun = False
        try:
            while True:
                silence = f"no event within {self._settings.attempt_timeout:g} s"
                event = await _event(call, until - time.monotonic(), silence)
                if event is None:
                    raise lost("the stream ended without an outcome")
                kind = event.WhichOneof("event")
                if kind == "opened":
                    interval = event.opened.alive_interval.ToTimedelta().total_seconds() or _ALIVE_INTERVAL
                    stream = Stream(call, line, _convert.opened(event.opened), interval, window)
                    begun = True
                    self._absence.over()
                    return stream
                if kind == "detached":
                    await _finish(call)
                    raise _let_go(event.detached)
                if kind is not None:
                    raise ProtocolError(f"a stream that begins with {kind}, not with opened")
        except Cut as cut:
            if cut.silent:
                lines.give_up("waits", line)
            raise
        finally:
            if not begun:
                call.cancel()

    async def begin_patiently(self, request: v1.WaitRequest | v1.AttachRequest) -> Stream:
        """Begins a stream, with patience. Raises `Refused` or `Unavailable`."""
        tries = Tries(self._settings, self._restraint, self._absence, self._settings.patience)
        while True:
            try:
                return await self.begin(request)
            except Cut as cut:
                await tries.pause(cut.why)

    async def follow(self, stream: Stream, told: Told) -> Outcome:
        """Follows a wait until its outcome, and tells how that is going. Raises `Refused` after a clear verdict alone."""
        attach = v1.AttachRequest(token=stream.opened.token)
        tries = Tries(self._settings, self._restraint, self._absence, None, quiet=True)
        while True:
            try:
                return await self._read(stream, told)
            except Planned as planned:
                log.debug("the stream of wait %s ended as planned", stream.opened.wait_id)
                told.cut()
                await asyncio.sleep(min(planned.delay, LONGEST_RETRY_DELAY))
            except Cut as cut:
                log.debug("the stream of wait %s was cut: %s", stream.opened.wait_id, cut.why.message)
                told.cut()
                if cut.silent:
                    self._channels.here().give_up("waits", stream.line)
                if time.monotonic() - stream.begun >= _HEALTHY and not cut.why.is_scolding:
                    tries.over()
                    self._channels.here().rest.over()
                await self._pause(cut.why, tries)
            while True:
                try:
                    stream = await self.begin(attach)
                    break
                except Cut as cut:
                    await self._pause(cut.why, tries)
            told.attached()

    async def _pause(self, why: Refusal, tries: Tries) -> None:
        if why.is_scolded_connection:
            await self._channels.here().rest.pause(why, self._restraint)
        else:
            await tries.pause(why)

    async def _read(self, stream: Stream, told: Told) -> Outcome:
        try:
            while True:
                event = await stream.next()
                kind = event.WhichOneof("event")
                if kind == "outcome":
                    await _finish(stream.call)
                    return _convert.outcome(event.outcome)
                if kind == "alive":
                    told.alive(event.alive.time_left.ToTimedelta().total_seconds())
                elif kind == "progress":
                    told.decided(_convert.decided(event.progress))
                elif kind == "detached":
                    await _finish(stream.call)
                    if event.detached.reason == v1.Detached.REASON_LIFETIME:
                        raise Planned(event.detached.retry_delay.ToTimedelta().total_seconds())
                    raise _let_go(event.detached)
        finally:
            # Without effect on a stream that was read to its end.
            stream.call.cancel()
