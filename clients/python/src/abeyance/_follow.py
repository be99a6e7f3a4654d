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
from ._retry import HEALTHY, Cut, Restraint, Tries, asked_for, lost, within
from .errors import ProtocolError, Refusal
from .info import Decided
from .outcome import Opened, Outcome
from .settings import Settings

_ALIVE_INTERVAL = 25.0
"""The period of `alive` events where a broker does not name it."""
_END_OF_STREAM = 1.0
"""How long the end of a stream may take after its last event. It comes with that event, unless a proxy holds it back."""
_SHORTEST_ALIVE, _LONGEST_ALIVE = 0.01, 3600.0
"""The bounds of the period of `alive` events, whatever a broker names."""


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

    def __init__(self, delay: float | None) -> None:
        super().__init__()
        self.delay = delay
        """What the broker asked for, in seconds. `None` where it is the client's own deadline."""


class Stream:
    """A stream that has begun: `opened` has arrived."""

    def __init__(self, call: Any, line: Line, opened: Opened, alive_interval: float, deadline: float) -> None:
        self.call = call
        self.line = line
        self.opened = opened
        self.begun = time.monotonic()
        self._silence = 2 * alive_interval
        self._deadline = deadline

    @property
    def is_healthy(self) -> bool:
        """Whether it lived long enough for its end to be no sign of trouble."""
        return time.monotonic() - self.begun >= HEALTHY

    async def next(self) -> v1.WaitEvent:
        """The next event. Raises `Cut` or `Planned` where the stream ends without one."""
        try:
            event = await _event(self.call, self._silence, "no sign of life on the stream")
        except Cut as cut:
            if cut.why.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            if time.monotonic() >= self._deadline:
                raise Planned(None) from None
            # A deadline says nothing of the connection, which others use: that it is silent is found out here alone.
            raise Cut(cut.why) from None
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
    if message is None:
        # What grpcio gives for bytes that are no such message.
        raise lost("an event could not be read")
    event: v1.WaitEvent = message.event
    return event


def _let_go(detached: v1.Detached) -> Cut:
    delay = _convert.seconds(detached.retry_delay) if detached.HasField("retry_delay") else None
    return lost("the broker let go of the stream", retry_delay=delay)


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
        now = time.monotonic()
        # The broker counts the deadline too, and may be a little ahead.
        deadline = now + window - min(1.0, window / 10)
        call = rpc(request, timeout=window)
        until = now + self._settings.attempt_timeout
        begun = False
        try:
            while True:
                silence = f"no event within {self._settings.attempt_timeout:g} s"
                event = await _event(call, until - time.monotonic(), silence)
                if event is None:
                    raise lost("the stream ended without an outcome")
                kind = event.WhichOneof("event")
                if kind == "opened":
                    interval = _convert.seconds(event.opened.alive_interval)
                    interval = min(max(interval, _SHORTEST_ALIVE), _LONGEST_ALIVE) if interval > 0 else _ALIVE_INTERVAL
                    stream = Stream(call, line, _convert.opened(event.opened), interval, deadline)
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
                if planned.delay is None or stream.is_healthy:
                    tries.over()
                    await asyncio.sleep(asked_for(planned.delay))
                else:
                    # Planned or not, streams that end as soon as they begin would follow each other without a pause.
                    await tries.pause(lost("the broker ended a stream as soon as it had begun", retry_delay=planned.delay).why)
            except Cut as cut:
                log.debug("the stream of wait %s was cut: %s", stream.opened.wait_id, cut.why.message)
                told.cut()
                if cut.silent:
                    self._channels.here().give_up("waits", stream.line)
                if stream.is_healthy and not cut.why.is_scolding:
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
                    told.alive(_convert.seconds(event.alive.time_left))
                elif kind == "progress":
                    told.decided(_convert.decided(event.progress))
                elif kind == "detached":
                    await _finish(stream.call)
                    if event.detached.reason == v1.Detached.REASON_LIFETIME:
                        raise Planned(_convert.seconds(event.detached.retry_delay))
                    raise _let_go(event.detached)
        finally:
            # Without effect on a stream that was read to its end.
            stream.call.cancel()
