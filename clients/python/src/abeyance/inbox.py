"""Which waits there are, and how they change."""

from __future__ import annotations

import enum
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import grpc

from . import _convert, v1
from ._check import duration, text_or_empty, texts
from ._retry import HEALTHY, Cut, Tries, lost, within
from .errors import Detached
from .info import WaitInfo
from .outcome import State

if TYPE_CHECKING:
    from .client import AbeyanceClient

__all__ = ["WatchEvent", "WatchKind"]

_FIRST_SILENCE = 50.0
"""How long a watch may be silent, in seconds, before its broker has named the period of its signs of life."""


class WatchKind(enum.Enum):
    """What a watch tells."""

    BEGAN = "began"
    """A watch begins, for the first time or again after a cut: all waits that match are told anew. Of those told before, what is not told
    again before the next `SYNCED` matches no longer."""
    WAIT = "wait"
    """The latest state of a wait."""
    SYNCED = "synced"
    """All waits that matched when the watch began have been told; what follows are changes."""


@dataclass(frozen=True)
class WatchEvent:
    """One thing that a watch tells."""

    kind: WatchKind
    """What it tells."""
    wait: WaitInfo | None = None
    """`WAIT`: the wait, without question and outcome."""


def wait_filter(
    namespace: str | None,
    states: Iterable[State],
    name: str | None,
    labels: Mapping[str, str] | None,
    min_age: timedelta | float | None,
    max_age: timedelta | float | None,
) -> v1.WaitFilter:
    """Which waits."""
    return v1.WaitFilter(
        namespace=text_or_empty("namespace", namespace),
        states=_convert.states(states),
        name=text_or_empty("name", name),
        labels=texts("labels", labels),
        min_age=None if min_age is None else duration("min_age", min_age),
        max_age=None if max_age is None else duration("max_age", max_age),
    )


async def list_waits(client: AbeyanceClient, which: v1.WaitFilter, page_size: int) -> AsyncIterator[WaitInfo]:
    """Lists waits, page by page."""
    request = v1.ListWaitsRequest(filter=which, page_size=page_size)
    while True:
        page: v1.ListWaitsResponse = await client._call(lambda line: line.inbox.ListWaits, request)
        for wait in page.waits:
            yield _convert.info(wait)
        # The broker bounds the rows it looks at, so an empty page need not be the last one.
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


async def watch_waits(client: AbeyanceClient, which: v1.WaitFilter) -> AsyncIterator[WatchEvent]:
    """Follows waits, and begins again after a cut."""
    request = v1.WatchWaitsRequest(filter=which)
    # Patience counts until the first event: whoever watches wants to know that there is no broker.
    tries = Tries(client.settings, client._restraint, client._absence, client.settings.patience)
    while True:
        lines = client._channels.here()
        line = lines.get("watches")
        call = line.inbox.WatchWaits(request)
        silence = min(_FIRST_SILENCE, client.settings.attempt_timeout)
        begun = time.monotonic()
        delay = 0.0
        try:
            await within(silence, call.wait_for_connection(), "no answer to the watch")
            yield WatchEvent(WatchKind.BEGAN)
            silence = _FIRST_SILENCE
            while True:
                message = await within(silence, call.read(), "no sign of life on the watch")
                if message is grpc.aio.EOF:
                    raise lost("the watch ended")
                if message is None:
                    # What grpcio gives for bytes that are no such message.
                    raise lost("an event of the watch could not be read")
                tries.patient()
                client._absence.over()
                kind = message.WhichOneof("event")
                if kind == "alive":
                    interval = _convert.seconds(message.alive.alive_interval)
                    silence = 2 * interval if interval > 0 else silence
                    continue
                if kind == "detached":
                    delay = _convert.seconds(message.detached.retry_delay)
                    continue
                if kind == "wait":
                    event = WatchEvent(WatchKind.WAIT, _convert.info(message.wait))
                elif kind == "synced":
                    event = WatchEvent(WatchKind.SYNCED)
                else:
                    continue
                yield event
        except Cut as cut:
            if cut.silent:
                lines.give_up("watches", line)
            if lines.closed:
                raise Detached("the client was closed") from None
            why = cut.why
            if time.monotonic() - begun >= HEALTHY and not why.is_scolding:
                tries.over()
        finally:
            call.cancel()
        if delay:
            why = type(why)(why.code, why.message, retry_delay=delay)
        await tries.pause(why)
