"""What talks to the broker on behalf of workflows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.external_events import ExternalEventError
from temporalio import activity
from temporalio.exceptions import ApplicationError

from abeyance import AbeyanceClient, AbeyanceError, DeferredJson, OpenedWait, Outcome, ProtocolError, Refused, Ticket
from abeyance.pydantic_ai._answer import record
from abeyance.pydantic_ai._outcome import payload

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


class AbeyanceActivities:
    """The activities that `TemporalWaiter` calls.

    They are served by a worker of their own, since each wait holds one of its slots (`max_concurrent_activities`, 100 unless set):

        Worker(client, task_queue="abeyance", activities=AbeyanceActivities("127.0.0.1:2239").all, max_concurrent_activities=5000)

    Tokens and answers pass through them, and so lie in the histories of the workflows. Whoever may read those may answer: encrypt
    them with a payload codec where that is too many.
    """

    def __init__(self, target: str | AbeyanceClient = "127.0.0.1:2239") -> None:
        """Args:
        target: The broker, as `AbeyanceClient` takes it, or a client. A client that is given is not closed.
        """
        self._client = target if isinstance(target, AbeyanceClient) else AbeyanceClient(target)

    @property
    def all(self) -> Sequence[Callable[..., Any]]:
        """All of them, for `Worker(activities=…)`."""
        return [self.open, self.mark_asked, self.answer, self.attach, self.withdraw]

    @activity.defn(name=OPEN)
    async def open(self, request: OpenRequest) -> OpenReply:
        """Opens the wait, or meets it again by its key."""
        with _refusals():
            opened = await self._open(request)
            return OpenReply(
                token=opened.opened.token,
                wait_id=opened.opened.wait_id,
                asked=opened.opened.asked,
                ended=None if opened.outcome is None else _ended(opened.outcome),
            )

    @activity.defn(name=MARK_ASKED)
    async def mark_asked(self, request: TokenRequest) -> None:
        """Records that question and token were handed on."""
        with _refusals():
            await self._client.mark_asked(request.token)

    @activity.defn(name=ANSWER)
    async def answer(self, request: AnswerRequest) -> None:
        """Records an answer that the ask gave. If somebody was faster, theirs counts."""
        with _refusals():
            await record(Ticket(request.token, request.wait_id, self._client), json.loads(request.answer_json))

    @activity.defn(name=ATTACH)
    async def attach(self, request: TokenRequest) -> Ended:
        """Waits for the outcome, however long that takes."""
        with _refusals():
            async with _heartbeats(), await self._client.attach(request.token) as wait:
                return _ended(await wait.outcome())

    @activity.defn(name=WITHDRAW)
    async def withdraw(self, request: OpenRequest) -> None:
        """Cancels a wait that its workflow has left for good. One that has ended stays as it is.

        It goes by the key, not by the token: the workflow may have been cancelled before it was told one. A wait that was never
        opened is opened first, so that an attempt to open it that is still on its way finds it cancelled.
        """
        with _refusals():
            opened = await self._open(request)
            if opened.outcome is None:
                await self._client.cancel(opened.opened.token, "The workflow that waited no longer does.")

    async def _open(self, request: OpenRequest) -> OpenedWait:
        question = None
        if request.requests_json is not None:
            question = DeferredJson(request.requests_json, request.may_leave_pending)
        return await self._client.open(
            request.name,
            key=request.key,
            namespace=request.namespace,
            timeout=None if request.timeout_us is None else timedelta(microseconds=request.timeout_us),
            question=question,
            labels=request.labels,
        )


def _ended(outcome: Outcome) -> Ended:
    try:
        return Ended(payload_json=json.dumps(payload(outcome)))
    except ExternalEventError as error:
        return Ended(reason=str(error))


@contextmanager
def _refusals() -> Generator[None]:
    """Tells Temporal which errors are verdicts, which no retry mends."""
    try:
        yield
    except (UserError, TypeError, ValueError) as error:
        # The two latter are for arguments that can never be sent.
        raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error
    except AbeyanceError as error:
        raise ApplicationError(
            str(error),
            type=error.reason or type(error).__name__,
            non_retryable=isinstance(error, Refused | ProtocolError) and error.retry_delay is None,
        ) from error


@asynccontextmanager
async def _heartbeats() -> AsyncGenerator[None]:
    """Sends heartbeats, three in the time that one may take. Through them the activity also learns that it is cancelled."""
    timeout = activity.info().heartbeat_timeout

    async def beat() -> None:
        while timeout:
            activity.heartbeat()
            await asyncio.sleep(timeout.total_seconds() / 3)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
