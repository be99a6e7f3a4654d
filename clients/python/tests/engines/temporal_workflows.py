"""Workflows that wait without an agent, and the activity through which their asks hand tokens on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from typing import Any

from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from pydantic_ai.external_events import ExternalEventError, external_event_scope, wait_for_external_event

    from abeyance.pydantic_ai import AbeyanceWaiter
    from abeyance.temporal import TemporalWaiter


@dataclass
class Plan:
    """What a workflow does."""

    waits: str
    """The task queue of the activities that wait."""
    ask: str = "hands_over"
    """Its ask, by name."""
    key: str | None = None
    names: tuple[str, ...] = ("approve",)
    """Its waits, one after the other."""
    at_once: bool = False
    """Whether they are open at once instead, all through the first waiter."""
    waiters: int = 1
    """How many waiters take turns."""
    timeout_ms: int = 600_000


class Messenger:
    """Where handed tokens arrive, in the process of the test."""

    def __init__(self) -> None:
        self.tokens: asyncio.Queue[str] = asyncio.Queue()
        self.release = asyncio.Event()

    @activity.defn
    async def hand_over(self, token: str) -> None:
        """Hands a token on."""
        await self.tokens.put(token)

    @activity.defn
    async def hand_over_slowly(self, token: str) -> None:
        """Hands a token on, and does not return until it is released."""
        await self.tokens.put(token)
        await self.release.wait()


async def hands_over(token: str) -> None:
    await workflow.execute_activity("hand_over", token, start_to_close_timeout=timedelta(minutes=1))


async def hands_over_slowly(token: str) -> None:
    await workflow.execute_activity("hand_over_slowly", token, start_to_close_timeout=timedelta(minutes=5))


async def knows(token: str) -> Any:
    return {"approved": True}


async def fails(token: str) -> None:
    await hands_over(token)
    raise ApplicationError("no messenger today", non_retryable=True)


_ASKS = {ask.__name__: ask for ask in (hands_over, hands_over_slowly, knows, fails)}


@workflow.defn
class Waits:
    """Waits as planned, and returns the answers; for a wait without one, why."""

    @workflow.run
    async def run(self, plan: Plan) -> list[Any]:
        waiters = [TemporalWaiter(plan.key, task_queue=plan.waits, heartbeat_timeout=timedelta(seconds=2)) for _ in range(plan.waiters)]
        timeout = timedelta(milliseconds=plan.timeout_ms)
        answers: list[Any] = []
        if plan.at_once:
            with external_event_scope(waiters[0]):
                waits = [wait_for_external_event(name, ask=_ASKS[plan.ask], timeout=timeout) for name in plan.names]
                return await asyncio.gather(*waits)
        for name, waiter in zip(plan.names, cycle(waiters), strict=False):
            with external_event_scope(waiter):
                try:
                    answers.append(await wait_for_external_event(name, ask=_ASKS[plan.ask], timeout=timeout))
                except ExternalEventError as error:
                    answers.append(str(error))
        return answers


@workflow.defn
class Misled:
    """Waits with the waiter for plain runs."""

    @workflow.run
    async def run(self) -> Any:
        with external_event_scope(AbeyanceWaiter("127.0.0.1:9", key="misled")):
            return await wait_for_external_event("approve", ask=knows)
