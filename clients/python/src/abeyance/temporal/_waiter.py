"""The waiter for runs within a workflow."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import anyio
from pydantic_ai.exceptions import UserError
from pydantic_ai.external_events import ExternalEventError, ExternalEventWaiter
from temporalio import workflow
from temporalio.common import RetryPolicy

from abeyance.pydantic_ai._keys import external_key
from abeyance.pydantic_ai._question import take

from ._wire import (
    ANSWER,
    ATTACH,
    MARK_ASKED,
    OPEN,
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

# An attempt that has lasted for so long is followed by another, which attaches again.
_ATTACHED = timedelta(days=366)


class TemporalWaiter(ExternalEventWaiter):
    """Makes an agent's run within a Temporal workflow wait in a broker. One object for each run.

    Opening, marking, answering and attaching are activities (`AbeyanceActivities`), so that their results lie in the workflow's
    history and a replay asks nobody. The activity that attaches lasts as long as the wait, holds a slot of its worker and sends
    heartbeats: when its worker dies, another attaches.

    `ask` runs as workflow code. To hand the token on it must call an activity of its own. It is called once for a wait; that
    activity may run more than once, as any activity may.
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
        key: Begins the keys of all waits of this run, up to about 200 characters. `None`: the workflow's id and a random number that
            only this run has, so that a workflow that is started, retried or continued under the same id does not meet the waits of
            an earlier one.
        task_queue: Where a worker serves `AbeyanceActivities`. One of its own: each wait holds a slot there.
        namespace: The broker's namespace. `None`: the broker's default.
        labels: Labels of the waits.
        heartbeat_timeout: How long after the death of its worker an attached wait moves to another one.
        """
        self._key = key
        self._task_queue = task_queue
        self._namespace = namespace
        self._labels = dict(labels or {})
        self._heartbeat_timeout = heartbeat_timeout
        self._waits: Counter[str] = Counter()

    async def wait(self, name: str, *, ask: Ask, timeout: timedelta | None) -> Any:
        """Waits until somebody answers, and asks unless that was done before. Called by the run.

        Raises:
            ExternalEventError: The wait ended and nothing was decided.
            ActivityError: The broker refused the wait, or the answer that `ask` itself gave.
            UserError: This is not workflow code.
        """
        if not workflow.in_workflow():
            raise UserError("TemporalWaiter waits within Temporal workflows only. Elsewhere, install an AbeyanceWaiter.")
        opened = await _result(self._call(OPEN, self._request(name, timeout), OpenReply))
        ended = opened.ended
        if ended is None:
            outcome = self._attach(opened)
            try:
                if not opened.asked:
                    await self._ask(ask, opened, outcome)
                ended = await _result(outcome)
            finally:
                await _stop(outcome)
        if ended.payload_json is None:
            raise ExternalEventError(ended.reason or "")
        return json.loads(ended.payload_json)

    def _request(self, name: str, timeout: timedelta | None) -> OpenRequest:
        if self._key is None:
            # Drawn from the workflow's own random numbers: a replay draws the same.
            self._key = f"{workflow.info().workflow_id}/{workflow.uuid4()}"
        calls = take()
        request = OpenRequest(
            name=name,
            key=external_key(self._key, name, self._waits[name]) if calls is None else calls.key(self._key, name),
            namespace=self._namespace,
            timeout_us=None if timeout is None else timeout // timedelta(microseconds=1),
            labels=self._labels,
            requests_json=None if calls is None else calls.requests_json,
            may_leave_pending=calls is not None and calls.may_leave_pending,
        )
        if calls is None:
            self._waits[name] += 1
        return request

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

    def _call(self, activity: str, request: object, result: type[T] | None) -> asyncio.Task[T]:
        return workflow.start_activity(
            activity,
            request,
            result_type=result,
            task_queue=self._task_queue,
            start_to_close_timeout=_CALL,
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
