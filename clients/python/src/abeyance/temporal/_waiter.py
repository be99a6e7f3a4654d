"""The waiter for runs within a workflow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import anyio
from pydantic_ai.exceptions import UserError
from pydantic_ai.external_events import ExternalEventError, ExternalEventWaiter
from temporalio import workflow
from temporalio.common import RetryPolicy

from abeyance.pydantic_ai._keys import RunKeys, external_key
from abeyance.pydantic_ai._question import take

from ._wire import (
    ANSWER,
    ATTACH,
    MARK_ASKED,
    OPEN,
    WITHDRAW,
    AnswerRequest,
    Ended,
    OpenReply,
    OpenRequest,
    TokenRequest,
)

Ask = Callable[[str], Awaitable[Any]]
T = TypeVar("T")

# For as long as it takes: a broker that is away is no reason to end a workflow. Refusals are not tried again.
_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))

# The client's own patience is half of this.
_CALL = timedelta(minutes=1)

# How long a workflow that is cancelled is held up at most, if its wait cannot be withdrawn.
_WITHDRAWN = timedelta(minutes=5)

# An attempt that has lasted for so long is followed by another, which attaches again.
_ATTACHED = timedelta(days=366)


class TemporalWaiter(ExternalEventWaiter):
    """Makes an agent's run within a Temporal workflow wait in a broker. One object for each run.

    Opening, marking, answering, attaching and withdrawing are activities (`AbeyanceActivities`), so that their results lie in the
    workflow's history and a replay asks nobody. The activity that attaches lasts as long as the wait, holds a slot of its worker and sends
    heartbeats: when its worker dies, another attaches.

    `ask` runs as workflow code. To hand the token on it must call an activity of its own. It is called once for a wait; that
    activity may run more than once, as any activity may.

    Without a key a wait is withdrawn when its run is cancelled or its `ask` fails, by an activity for which the workflow stays
    up to five minutes; a workflow that Temporal itself ends (terminated, or out of its own time) cannot do so. With a key the wait
    lives on, and a later workflow with that key meets it again. There, waits that would be told apart by their order alone cannot be
    open at once: see `AbeyanceWaiter`.
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        task_queue: str = "abeyance",
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        heartbeat_timeout: timedelta = timedelta(seconds=30),
    ) -> None:
        """Args:
        key: Begins the keys of all waits of this run. Of any length, but not empty (`ValueError`). `None`: the workflow's id and a
            random number that only this run has, so that a workflow that is started, retried or continued under the same id does not
            meet the waits of an earlier one.
        task_queue: Where a worker serves `AbeyanceActivities`. One of its own: each wait holds a slot there.
        namespace: The broker's namespace. `None`: the broker's default.
        labels: Labels of the waits.
        heartbeat_timeout: How long after the death of its worker an attached wait moves to another one.
        """
        self._keys = None if key is None else RunKeys(key)
        self._own_key = ""
        self._waits = 0
        self._task_queue = task_queue
        self._namespace = namespace
        self._labels = dict(labels or {})
        self._heartbeat_timeout = heartbeat_timeout

    async def wait(self, name: str, *, ask: Ask, timeout: timedelta | None) -> Any:
        """Waits until somebody answers, and asks unless that was done before. Called by the run.

        Raises:
            ExternalEventError: The wait ended and nothing was decided.
            ActivityError: The broker refused the wait, or the answer that `ask` itself gave.
            UserError: This is not workflow code; or another wait of this key is open that could not be told apart from this one.
        """
        if not workflow.in_workflow():
            raise UserError("TemporalWaiter waits within Temporal workflows only. Elsewhere, install an AbeyanceWaiter.")
        calls = take()
        with self._own(name) if self._keys is None else self._keys.enter(name, calls) as key:
            request = OpenRequest(
                name=name,
                key=key,
                namespace=self._namespace,
                timeout_us=None if timeout is None else timeout // timedelta(microseconds=1),
                labels=self._labels,
                requests_json=None if calls is None else calls.requests_json,
                may_leave_pending=calls is not None and calls.may_leave_pending,
            )
            ended = await self._ended(request, ask)
        if ended.payload_json is None:
            raise ExternalEventError(ended.reason or "")
        return json.loads(ended.payload_json)

    @contextmanager
    def _own(self, name: str) -> Generator[str]:
        """A key that no other wait has. It makes opening idempotent for the activity's retries, and no more."""
        if not self._own_key:
            # Drawn from the workflow's own random numbers: a replay draws the same.
            self._own_key = f"{workflow.info().workflow_id}/{workflow.uuid4()}"
        key = external_key(self._own_key, name, self._waits)
        self._waits += 1
        yield key

    async def _ended(self, request: OpenRequest, ask: Ask) -> Ended:
        try:
            opened = await _result(self._call(OPEN, request, OpenReply))
        except asyncio.CancelledError:
            # It may have been opened, or still be.
            await self._leave(request)
            raise
        if opened.ended is not None:
            return opened.ended
        outcome = self._attach(opened)
        try:
            if not opened.asked:
                await self._ask(ask, opened, outcome)
            return await _result(outcome)
        except BaseException:
            await _stop(outcome)
            await self._leave(request)
            raise

    async def _leave(self, request: OpenRequest) -> None:
        """Withdraws a wait that has a key of its own, which nobody meets again."""
        if self._keys is not None:
            return
        withdrawing: asyncio.Task[None] = self._call(WITHDRAW, request, None, within=_WITHDRAWN)
        with anyio.CancelScope(shield=True):
            await workflow.wait([withdrawing])
        if not withdrawing.cancelled():
            # Seen: why the run ended is more to the point than that its wait stays open until its time is up.
            withdrawing.exception()

    async def _ask(self, ask: Ask, opened: OpenReply, outcome: asyncio.Task[Ended]) -> None:
        asking = asyncio.ensure_future(ask(opened.token))
        try:
            await workflow.wait([outcome, asking], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return
            answer = asking.result()
        finally:
            await _stop(asking)
        if answer is None:
            await _result(self._call(MARK_ASKED, TokenRequest(opened.token), None))
        else:
            # Recorded like anybody else's; what `outcome` then brings is what counts.
            given = AnswerRequest(opened.token, opened.wait_id, json.dumps(answer))
            await _result(self._call(ANSWER, given, None))

    def _call(self, activity: str, request: object, result: type[T] | None, *, within: timedelta | None = None) -> asyncio.Task[T]:
        return workflow.start_activity(
            activity,
            request,
            result_type=result,
            task_queue=self._task_queue,
            start_to_close_timeout=_CALL,
            schedule_to_close_timeout=within,
            retry_policy=_RETRIES,
        )

    def _attach(self, opened: OpenReply) -> asyncio.Task[Ended]:
        return workflow.start_activity(
            ATTACH,
            TokenRequest(opened.token),
            result_type=Ended,
            task_queue=self._task_queue,
            start_to_close_timeout=_ATTACHED,
            heartbeat_timeout=self._heartbeat_timeout,
            retry_policy=_RETRIES,
        )


# A run is a task within a cancel scope of anyio, which cancels it again and again until it has ended. The handle of an activity takes
# each of these as a request of its own, and a workflow task that never comes to rest is a deadlock. So handles are never awaited
# themselves, and are cancelled once.


async def _result(handle: asyncio.Task[T]) -> T:
    try:
        await workflow.wait([handle])
    except asyncio.CancelledError:
        await _stop(handle)
        raise
    return handle.result()


async def _stop(task: asyncio.Future[Any]) -> None:
    if task.done():
        return
    task.cancel()
    with anyio.CancelScope(shield=True):
        await workflow.wait([task])
    if not task.cancelled():
        # Seen, so that nobody is warned of it: why the wait ended is told elsewhere.
        task.exception()
