"""Waiting for an event from outside: ask, and use what was answered."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _convert, v1
from ._check import json_text, text
from ._json import NOTHING, encode_json
from ._log import log
from .errors import AbeyanceError, AskFailed, ProtocolError, Refused, Unavailable
from .outcome import Outcome, State
from .results import Results, forget, results_message
from .wait import Wait

if TYPE_CHECKING:
    from .client import AbeyanceClient

__all__ = ["Answered", "AskFunction", "Ticket"]

WITHDRAWAL = 5.0
"""For how long, in seconds, a cancelled task waits until its wait is withdrawn; then that goes on in the background."""
_CLEAN_UP = 1.0
"""For how long, in seconds, an ask that is cut short may hold back the outcome; then it goes on in the background."""


@dataclass(frozen=True)
class Ticket:
    """What an ask is given, to hand on to whoever can answer. Its `repr` does not show the token."""

    token: str = field(repr=False)
    """The bearer credential of the wait. The same each time the same wait is asked, so what is sent should be keyed on it."""
    wait_id: str
    """The wait's public name."""
    client: AbeyanceClient = field(repr=False, compare=False)
    """The client that asks, for an ask that decides some tool calls itself and hands on the rest."""


class Answered:
    """What an ask returns that knows the answer already. It is recorded like anybody else's; if somebody was faster, theirs counts."""

    def __init__(
        self,
        answer: Any = NOTHING,
        *,
        payload_json: str | None = None,
        results: v1.DeferredToolResults | Results | None = None,
        answered_by: str = "",
    ) -> None:
        """Exactly one of `answer`, `payload_json` and `results`, as for `AbeyanceClient.resolve`. Tool calls that somebody else decided
        meanwhile are left out of `results`."""
        if (answer is not NOTHING) + (payload_json is not None) + (results is not None) != 1:
            raise ValueError("give exactly one of answer, payload_json and results")
        self.payload_json = encode_json(answer) if answer is not NOTHING else payload_json
        if self.payload_json is not None:
            json_text("payload_json", self.payload_json)
        """The answer as JSON text; `None` where it is `results`."""
        self.results: v1.DeferredToolResults | None = None
        """Decisions on tool calls."""
        if results is not None:
            self.results = v1.DeferredToolResults()
            self.results.CopyFrom(results_message(results))
        self.answered_by = text("answered_by", answered_by)
        """Who answers."""

    def __repr__(self) -> str:
        return "Answered(..)"


AskFunction: TypeAlias = Callable[[Ticket], Awaitable[Answered | None] | Answered | None]
"""What hands a ticket on, or knows the answer: a coroutine function, or a function that returns at once."""


class _Broke(Exception):
    """The ask raised what is no error but an end: `SystemExit`, `KeyboardInterrupt` or `GeneratorExit`. Raised again as it was, once its
    wait is seen to. Within a task of its own it would end the whole event loop, or look like the end of a coroutine."""

    def __init__(self, end: BaseException) -> None:
        super().__init__()
        self.end = end


async def wait_asking(client: AbeyanceClient, spec: v1.WaitSpec, ask: AskFunction) -> Outcome:
    """Opens a wait, asks, and returns its outcome, whatever it is. A wait without a key is open only for as long as this runs."""
    request = v1.WaitRequest(spec=spec, request_id=_convert.new_request_id())
    if spec.key:
        async with await client._follow(request) as wait:
            await ask_for(client, wait, ask)
            return await wait.outcome()
    lines = client._channels.here()
    attached: Wait | None = None
    try:
        attached = await client._follow(request)
        # From here on closing the client withdraws it. It may have been closed and begun anew meanwhile.
        lines = client._channels.here()
        lines.unkeyed.add(attached.token)
        return await _unkeyed(client, attached, ask)
    except asyncio.CancelledError:
        await _in_background(_withdraw(client, request, attached))
        raise
    except (Unavailable, ProtocolError):
        # Its reply may be what was lost. With the connections this ends, too.
        if attached is None:
            lines.adopt(asyncio.get_running_loop().create_task(_withdraw(client, request, None)))
        raise
    finally:
        if attached is not None:
            lines.unkeyed.discard(attached.token)
            await attached.aclose()


async def _unkeyed(client: AbeyanceClient, wait: Wait, ask: AskFunction) -> Outcome:
    try:
        await _asked(client, wait, ask)
    except (AbeyanceError, _Broke) as error:
        recorded = await _cancelled(client, wait, "The ask failed.")
        # An answer that was recorded before the ask failed counts like one that cut it short.
        if recorded is not None and recorded.state is not State.CANCELLED and not isinstance(error, _Broke):
            error.__suppress_context__ = True
            return recorded
        if isinstance(error, _Broke):
            raise error.end from None
        raise
    try:
        return await wait.outcome()
    except (Refused, ProtocolError):
        # The worker cannot follow it any more.
        await _in_background(_cancelled(client, wait, "The worker could not follow the wait."))
        raise


async def ask_for(client: AbeyanceClient, wait: Wait, ask: AskFunction) -> None:
    """See `AbeyanceClient.ask`."""
    try:
        await _asked(client, wait, ask)
    except _Broke as broke:
        raise broke.end from None


async def _asked(client: AbeyanceClient, wait: Wait, ask: AskFunction) -> None:
    opened = wait.opened
    # Opened tells nothing of the state, and the outcome of a settled wait is the event after it: nobody must be asked in between. A wait
    # that this call created is pending.
    if opened.asked or (opened.resumed and (await client.describe(wait.token)).state is not State.PENDING):
        return
    loop = asyncio.get_running_loop()
    asking = loop.create_task(_ask(client, wait, ask))
    ended = loop.create_task(wait.outcome())
    try:
        await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            # Whatever the end is, an error too: `outcome` gives it again.
            return
        if asking.cancelled():
            raise AskFailed("the ask was cancelled")
        asking.result()
    finally:
        for task in (asking, ended):
            task.cancel()
            _see_to_its_end(task)
        # What the ask does when it is cancelled must not hold the answer back for long.
        await asyncio.wait({asking, ended}, timeout=_CLEAN_UP)


async def _ask(client: AbeyanceClient, wait: Wait, ask: AskFunction) -> None:
    try:
        answered = ask(Ticket(wait.token, wait.wait_id, client))
        if inspect.isawaitable(answered):
            answered = await answered
    except asyncio.CancelledError:
        raise
    except Exception as error:
        # What it says is left to the cause: it may hold the token, in the address of a request for example.
        raise AskFailed(f"the ask raised {type(error).__name__}") from error
    except BaseException as end:
        raise _Broke(end) from None
    if answered is None:
        await client.mark_asked_at_last(wait.token)
    elif isinstance(answered, Answered):
        try:
            await _record(client, wait.token, answered)
        except (TypeError, ValueError) as error:
            raise AskFailed(f"the answer of the ask cannot be sent: {type(error).__name__}") from error
    else:
        raise AskFailed(f"the ask returned {type(answered).__name__}; None or Answered is expected")


async def _record(client: AbeyanceClient, token: str, answered: Answered) -> None:
    results: v1.DeferredToolResults | None = None
    if answered.results is not None:
        # The ask may give the same answer again, for another wait.
        results = v1.DeferredToolResults()
        results.CopyFrom(answered.results)
    # Each turn but the last takes a call out of the answer.
    while True:
        try:
            await client.resolve(token, payload_json=answered.payload_json, results=results, answered_by=answered.answered_by)
            return
        except Refused as error:
            # Somebody was faster: the stream brings their outcome.
            if error.reason == "ALREADY_SETTLED":
                return
            # Faster with one call: theirs counts, and the answer is still needed for the others.
            decided = error.metadata.get("tool_call_id", "")
            if error.reason != "ALREADY_DECIDED" or results is None or not forget(results, decided):
                raise


async def _cancelled(client: AbeyanceClient, wait: Wait, reason: str) -> Outcome | None:
    try:
        return await client.cancel(wait.token, reason)
    except AbeyanceError as error:
        log.debug("the wait %s could not be cancelled: %s", wait.wait_id, error)
        return None


async def _withdraw(client: AbeyanceClient, request: v1.WaitRequest, wait: Wait | None) -> None:
    reason = "The worker's task was cancelled."
    try:
        # Cancelled while it was being opened: the request id finds the wait, or makes one that ends at once.
        opened = wait.opened if wait else (await client._open(request)).opened
        await client.cancel(opened.token, reason)
    except AbeyanceError as error:
        log.debug("a wait whose task was cancelled could not be withdrawn: %s", error)


_background: set[asyncio.Task[Any]] = set()


def _see_to_its_end(task: asyncio.Task[Any]) -> None:
    """Keeps a task that may outlive whoever began it, and takes notice of its error."""
    _background.add(task)
    task.add_done_callback(_seen)


def _seen(task: asyncio.Task[Any]) -> None:
    _background.discard(task)
    if not task.cancelled():
        task.exception()


async def _in_background(work: Coroutine[Any, Any, Any]) -> None:
    """Does something in a task of its own, and waits for it for a bounded time, unless this task is cancelled once more."""
    task = asyncio.get_running_loop().create_task(work)
    _see_to_its_end(task)
    await asyncio.wait({task}, timeout=WITHDRAWAL)
