"""The waiter that keeps a run's waits in a broker."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import nullcontext
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import anyio
from pydantic_ai.exceptions import UserError
from pydantic_ai.external_events import ExternalEventWaiter

from abeyance import AbeyanceClient, AskFailed, DeferredJson, Outcome, Ticket, WaitEnded

from ._answer import record
from ._keys import RunKeys
from ._outcome import payload
from ._question import take

T = TypeVar("T")

_LEAVE = 10.0
"""Seconds that a cancelled run takes at most to leave or withdraw its wait. Twice what the client itself takes."""


class AbeyanceWaiter(ExternalEventWaiter):
    """Makes an agent's run wait in a broker instead of its own process, so that any process can answer.

    One object for each run, installed around it:

        with external_event_scope(AbeyanceWaiter("127.0.0.1:2239", key=run_id)):
            result = await agent.run(...)

    Without a key a wait is withdrawn when its run is cancelled or its `ask` fails, and a run that starts again asks again. With a key
    the wait lives on, and a run that comes to the same place meets it again: it asks nobody twice and gets the recorded outcome. The
    wait's own key is made of `key`, the wait's name, and

    - for tool calls that wait through `abeyance.pydantic_ai.RequestInput`: the number of messages of the run so far and a digest of
      the calls;
    - for everything else, of which a waiter is told no more: the wait's ordinal, counted for each name from `ordinal`.

    So with a key, waits that would be told apart by their order alone cannot be open at once: the later one raises `UserError`.

    It needs asyncio. Inside a Temporal workflow it refuses: use `abeyance.temporal.TemporalWaiter` there.
    """

    def __init__(
        self,
        target_or_client: str | AbeyanceClient = "127.0.0.1:2239",
        *,
        key: str | None = None,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        ordinal: int = 0,
    ) -> None:
        """Nothing connects yet. Raises `ValueError` for what is no address, and for an empty key.

        - `target_or_client`: the broker, as `host:port` or `http://host:port`, or a client for it, which is not closed. All waiters
          of a process that are given the same address share their connections.
        - `key`: the run's or workflow's own id, unique in the namespace, of any length but not empty. Default: none.
        - `namespace`: the namespace of the waits. Default: `default`.
        - `labels`: labels of the waits, to find them by.
        - `ordinal`: how many waits of a name the run has had before: for a run that goes on in the middle, with Pydantic AI's own
          `RequestInput`. Default: 0.
        """
        if isinstance(target_or_client, str):
            self._client = _shared_client(target_or_client)
        else:
            self._client = target_or_client
        self._key = key
        self._keys = None if key is None else RunKeys(key, ordinal)
        self._namespace = namespace
        self._labels = labels

    def __repr__(self) -> str:
        return f"AbeyanceWaiter({self._client!r}, key={self._key!r}, namespace={self._namespace!r})"

    async def wait(self, name: str, *, ask: Callable[[str], Awaitable[Any]], timeout: timedelta | None) -> Any:
        """Opens a wait, or meets it again by its key, asks unless that was done, and waits for the outcome. Called by the run.

        `ask` is given the token and runs beside the open wait: an outcome that arrives meanwhile cancels it. An answer that it returns
        is recorded like anybody else's; the recorded one counts.

        Returns the answer. For tool calls also the results of a wait that failed, expired or was cancelled once some were decided.

        Raises:
            ExternalEventError: The wait failed, expired or was cancelled, and nothing was decided.
            UserError: This is a Temporal workflow; or the broker refused the answer that `ask` returned; or the run has a key and
                another wait of it is open that could not be told apart from this one.
            AbeyanceError: The broker refused the wait, or could not be reached.
            Exception: What `ask` raised. A wait with a key then stays open and not asked, so that running again asks again.
        """
        _refuse_in_temporal_workflow()
        calls = take()

        async def ask_and_record(ticket: Ticket) -> None:
            answer = await ask(ticket.token)
            if answer is not None:
                await record(ticket, answer)

        with nullcontext() if self._keys is None else self._keys.enter(name, calls) as key:
            outcome = await _left_in_order(
                self._outcome(
                    name,
                    ask_and_record,
                    key=key,
                    timeout=timeout,
                    question=None if calls is None else DeferredJson(calls.requests_json, calls.may_leave_pending),
                )
            )
        return payload(outcome)

    async def _outcome(self, name: str, ask: Callable[[Ticket], Awaitable[None]], **options: Any) -> Outcome:
        try:
            answer = await self._client.wait_for_external_event(name, ask, namespace=self._namespace, labels=self._labels, **options)
        except WaitEnded as ended:
            return ended.outcome
        except AskFailed as failed:
            # What `ask` raised is for the run to see, as it would be without a broker.
            error: BaseException = failed.__cause__ or failed
        else:
            return answer.outcome
        raise error


@cache
def _shared_client(target: str) -> AbeyanceClient:
    return AbeyanceClient(target)


async def _left_in_order(waiting: Coroutine[Any, Any, T]) -> T:
    """Awaits `waiting`, and lets it come to its end if this task is cancelled, for a bounded time.

    A run that timed out or was cancelled may be cancelled again at every further await. So the wait is followed by a task of its own,
    which is cancelled once, and whose end is awaited in a shielded scope.
    """
    task = asyncio.get_running_loop().create_task(waiting)
    _waiting.add(task)
    task.add_done_callback(_ended)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=_LEAVE)
    return task.result()


_waiting: set[asyncio.Task[Any]] = set()


def _ended(task: asyncio.Task[Any]) -> None:
    _waiting.discard(task)
    if not task.cancelled():
        # Whoever was cancelled no longer looks at it.
        task.exception()


def _refuse_in_temporal_workflow() -> None:
    # Not imported here: where there is a workflow, it is there already.
    temporal = sys.modules.get("temporalio.workflow")
    if temporal is not None and temporal.in_workflow():
        raise UserError(
            "An AbeyanceWaiter cannot wait inside a Temporal workflow, since workflow code must not talk to a broker. "
            "Install abeyance.temporal.TemporalWaiter instead, which does it in activities."
        )
