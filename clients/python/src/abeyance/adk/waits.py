"""Waits for what a session's workflows ask for."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.genai import types

from ..client import AbeyanceClient
from ..errors import Refused, WaitEnded
from ..external import Answered, Ticket
from ..outcome import Answer
from .answers import function_response, refuse_misfit, refuse_unreadable, refuse_unreadable_schema
from .inputs import PendingInput, abandoned_inputs, pending_inputs
from .once import Resumes

__all__ = ["Ask", "InputWaits", "Unanswered"]

Ask: TypeAlias = Callable[[Ticket, PendingInput], Awaitable[Answered | None] | Answered | None]
"""Hands a wait's token on to whoever can answer: given the ticket and what is asked. Called once per wait, though a
crash between handing on and its record calls it again with the same token, so an ask should be keyed on the token. It
may return `Answered(value)` where the answer is known already. If it raises, the wait stays open and not asked, and
`InputWaits.run_async` raises `AskFailed`."""

Unanswered: TypeAlias = Callable[[PendingInput, WaitEnded], Any]
"""Chooses the value that a workflow goes on with where nobody answered: given what was asked, and how the wait ended
(`WaitFailed`, `WaitExpired`, `WaitCancelled`). May be async. It must choose alike each time: a process that is killed
chooses again."""


@dataclass
class _SessionWaits:
    """What runs of one session share."""

    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the session is resumed, and from the look at its events before that."""
    followed: dict[str, asyncio.Task[Answer]] = field(default_factory=dict)
    """By key: opens the wait, asks, and waits for its outcome. Shared, so that nobody is asked by two runs."""
    users: int = 0


class InputWaits:
    """Lets a workflow's requests for input wait in Abeyance, and resumes the workflow with the answers.

    Each open `adk_request_input` call becomes a wait with a form: message, payload and response schema. The broker
    refuses an answer that does not fit, so none ever reaches the session. The wait's key is made of the app, the
    user, the session, the invocation, the interrupt id and the number of answers that id has: a process that is
    started again meets the same waits, asks nobody twice, and resumes with what was answered meanwhile.

    Make one for a runner and keep it: a session is resumed by one run at a time. Where two processes follow one session,
    one of them resumes it with an answer and the other sees that it did, given a session service that refuses to change
    a session that is not as it was read (those with a database do). Waits are left open when a run is cancelled or its
    process ends.
    """

    def __init__(
        self,
        client: AbeyanceClient,
        runner: Runner,
        ask: Ask,
        *,
        timeout: timedelta | float | None = None,
        heartbeat_timeout: timedelta | float | None = None,
        unanswered: Unanswered | None = None,
        name: str = "adk_request_input",
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`runner` runs the workflow; `client` and `ask` see to its questions. The client stays yours to close.

        `timeout` bounds each wait, in seconds or as a `timedelta`; None waits as long as the broker allows.
        `heartbeat_timeout` ends a wait whose answering side, once asked, is silent for so long. `unanswered` chooses
        the value for a wait that ended without an answer; None raises how it ended, and leaves the session as it is.
        `name` (1 to 256 characters) says what kind of wait it is, and must stay the same from run to run; `namespace`
        and `labels` as for `AbeyanceClient.open`.
        """
        self._client = client
        self._runner = runner
        self._resumes = Resumes(runner)
        self._ask = ask
        self._unanswered = unanswered
        self._name = name
        self._namespace = namespace
        self._options: dict[str, Any] = {
            "timeout": timeout,
            "heartbeat_timeout": heartbeat_timeout,
            "labels": labels,
            "namespace": namespace,
        }
        self._sessions: dict[tuple[str, str], _SessionWaits] = {}

    async def run_async(
        self,
        *,
        user_id: str,
        session_id: str,
        new_message: types.Content | None = None,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Runs the session until nothing of it waits for input any more, and yields the events of all its runs.

        `new_message` starts a run first, as `Runner.run_async` does, with `state_delta`; without it the session goes
        on where it was, for example after a restart. All that the session waits for is then waited for, whichever run
        asked it. When something is answered, the workflow is resumed with all that has been decided by then.

        Raises `AskFailed`, `Refused` (the broker does not take a response schema, for example) and `Unavailable` as
        `AbeyanceClient.wait_for_external_event` does; `WaitFailed`, `WaitExpired` or `WaitCancelled` without
        `unanswered`; `ValueError` for an unknown session, a response schema or an answer that ADK cannot read, and a
        chosen value that does not fit its schema; and what the runner raises. The waits are unharmed by all of these:
        run the session again when the cause is mended.
        """
        async with self._shared(user_id, session_id) as shared:
            if new_message is not None:
                async with shared.alone:
                    run = self._runner.run_async(
                        user_id=user_id,
                        session_id=session_id,
                        new_message=new_message,
                        state_delta=state_delta,
                        run_config=run_config,
                    )
                    async with contextlib.aclosing(run):
                        async for event in run:
                            yield event
            withdrawn: set[str] = set()
            while True:
                async with shared.alone:
                    session = await self._session(user_id, session_id)
                    await self._withdraw(session, withdrawn)
                    pending = pending_inputs(session)
                    decided = _decided(pending, shared.followed)
                    if decided:
                        message = await self._message(decided, shared.followed)
                        run = self._resumes.run(user_id, session_id, message, decided, run_config)
                        async with contextlib.aclosing(run):
                            async for event in run:
                                yield event
                        continue
                if not pending:
                    return
                await self._first_outcome(pending, shared.followed)

    @contextlib.asynccontextmanager
    async def _shared(self, user_id: str, session_id: str) -> AsyncIterator[_SessionWaits]:
        shared = self._sessions.setdefault((user_id, session_id), _SessionWaits())
        shared.users += 1
        try:
            yield shared
        finally:
            shared.users -= 1
            if shared.users == 0:
                del self._sessions[user_id, session_id]
                for task in shared.followed.values():
                    task.cancel()
                await asyncio.gather(*shared.followed.values(), return_exceptions=True)

    async def _session(self, user_id: str, session_id: str) -> Session:
        session = await self._runner.session_service.get_session(app_name=self._runner.app_name, user_id=user_id, session_id=session_id)
        if session is None:
            raise ValueError(f"the session {session_id!r} is not known")
        return session

    async def _first_outcome(self, pending: list[PendingInput], followed: dict[str, asyncio.Task[Answer]]) -> None:
        """Waits until one of the waits has an outcome, or failed to get one."""
        for each in pending:
            if each.key not in followed:
                refuse_unreadable_schema(each)
        for each in pending:
            if each.key not in followed:
                followed[each.key] = asyncio.create_task(self._answer(each))
        await asyncio.wait([followed[each.key] for each in pending], return_when=asyncio.FIRST_COMPLETED)

    async def _answer(self, pending: PendingInput) -> Answer:
        async def ask(ticket: Ticket) -> Answered | None:
            given = self._ask(ticket, pending)
            return await given if inspect.isawaitable(given) else given

        return await self._client.wait_for_external_event(self._name, ask, key=pending.key, question=pending.form(), **self._options)

    async def _message(self, decided: list[PendingInput], followed: dict[str, asyncio.Task[Answer]]) -> types.Content:
        parts = [function_response(each, await self._value(each, followed[each.key])) for each in decided]
        return types.Content(role="user", parts=parts)

    async def _value(self, pending: PendingInput, task: asyncio.Task[Answer]) -> Any:
        try:
            value = task.result().value
        except WaitEnded as ended:
            if self._unanswered is None:
                raise
            value = self._unanswered(pending, ended)
            if inspect.isawaitable(value):
                value = await value
            refuse_misfit(pending, value)
        refuse_unreadable(pending, value)
        return value

    async def _withdraw(self, session: Session, withdrawn: set[str]) -> None:
        """Cancels the waits for what can no longer be answered, so that nobody is told OK for an answer that is not
        used."""
        for gone in abandoned_inputs(session):
            if gone.key in withdrawn:
                continue
            withdrawn.add(gone.key)
            try:
                wait = await self._client.attach(key=gone.key, namespace=self._namespace)
            except Refused:
                # There is no such wait: it was never opened, or is long gone.
                continue
            async with wait:
                await self._client.cancel(wait.token, "The session no longer asks this.")


def _decided(pending: list[PendingInput], followed: dict[str, asyncio.Task[Answer]]) -> list[PendingInput]:
    """The inputs whose waits are over, of one invocation: ADK takes no message that answers more than one."""
    over = [each for each in pending if each.key in followed and followed[each.key].done()]
    return [each for each in over if each.invocation_id == over[0].invocation_id]
