"""`TemporalWaiter` by itself, on a real Temporal server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from pydantic_ai.durable_exec.temporal import PydanticAIPlugin
from pydantic_ai.exceptions import UserError
from pydantic_ai.external_events import external_event_scope, wait_for_external_event
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer, Worker

from abeyance import AbeyanceClient, Opened, OpenedWait, Outcome, State, TimeoutSource
from abeyance.temporal import AbeyanceActivities, TemporalWaiter
from abeyance.temporal._wire import OPEN, OpenRequest, TokenRequest

from .broker import Broker
from .engines.process import PATIENCE
from .engines.temporal_workflows import Messenger, Misled, Plan, Waits

pytest_plugins = ["tests.engines.fixtures", "tests.engines.temporal_server"]


@pytest.fixture
def queue() -> str:
    """The task queue of this test's workflows. Their waits are on one of its name with `-waits` behind."""
    return f"queue-{uuid4().hex}"


@pytest_asyncio.fixture
async def server(temporal: str) -> Client:
    return await Client.connect(temporal, plugins=[PydanticAIPlugin()])


@pytest.fixture
def waits(server: Client, queue: str, broker: Broker) -> Callable[[], Worker]:
    """Makes a worker of the activities that wait."""
    return lambda: Worker(server, task_queue=f"{queue}-waits", activities=AbeyanceActivities(broker.target).all)


@pytest_asyncio.fixture
async def messenger(server: Client, queue: str) -> AsyncIterator[Messenger]:
    """A worker of the workflows runs; this is where their asks hand tokens on. It keeps no workflow in memory: each step is a replay."""
    messenger = Messenger()
    activities = [messenger.hand_over, messenger.hand_over_slowly]
    async with Worker(server, task_queue=queue, workflows=[Waits, Misled], activities=activities, max_cached_workflows=0):
        yield messenger
        messenger.release.set()


@pytest.fixture
def start(server: Client, queue: str) -> Callable[..., Any]:
    """Starts a workflow that does what is planned."""

    async def start(**plan: Any) -> WorkflowHandle[Waits, list[Any]]:
        return await server.start_workflow(Waits.run, Plan(f"{queue}-waits", **plan), id=uuid4().hex, task_queue=queue)

    return start


async def _soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, PATIENCE)


@pytest.mark.parametrize("waiters", [1, 2])
async def test_waits_of_one_name_are_told_apart_and_a_replay_agrees(
    messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any, waiters: int
) -> None:
    async with waits():
        workflow = await start(names=("approve", "approve"), waiters=waiters)
        for answer in (9007199254740993, {"kind": "tool-return", "text": "🙂"}):
            await client.resolve(await _soon(messenger.tokens.get()), answer)
        assert await _soon(workflow.result()) == [9007199254740993, {"kind": "tool-return", "text": "🙂"}]
    assert messenger.tokens.empty()
    replayer = Replayer(workflows=[Waits], plugins=[PydanticAIPlugin()])
    await replayer.replay_workflow(await workflow.fetch_history())


async def test_an_ask_that_knows_the_answer_records_it(messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any) -> None:
    async with waits():
        assert await _soon((await start(ask="knows")).result()) == [{"approved": True}]
    [wait] = [wait async for wait in client.list()]
    assert wait.state is State.RESOLVED


async def test_an_outcome_cuts_the_ask_short(messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any) -> None:
    async with waits():
        workflow = await start(ask="hands_over_slowly")
        await client.resolve(await _soon(messenger.tokens.get()), "yes")
        assert await _soon(workflow.result()) == ["yes"]
        assert not messenger.release.is_set()


async def test_a_failed_ask_ends_the_run_and_leaves_its_wait_to_be_asked(
    messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any
) -> None:
    async with waits():
        workflow = await start(ask="fails", key="order-7")
        with pytest.raises(WorkflowFailureError) as failure:
            await _soon(workflow.result())
        assert "no messenger today" in str(failure.value.cause)
        token = await _soon(messenger.tokens.get())
        info = await client.describe(token)
        assert (info.state, info.ask_time) == (State.PENDING, None)

        again = await start(key="order-7")
        assert await _soon(messenger.tokens.get()) == token
        await client.resolve(token, "yes")
        assert await _soon(again.result()) == ["yes"]


async def test_a_failed_ask_without_a_key_withdraws_its_wait(messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any) -> None:
    async with waits():
        workflow = await start(ask="fails")
        token = await _soon(messenger.tokens.get())
        with pytest.raises(WorkflowFailureError) as failure:
            await _soon(workflow.result())
        assert "no messenger today" in str(failure.value.cause)
        assert (await client.describe(token)).state is State.CANCELLED


@pytest.mark.parametrize("key", [None, "order-7"])
async def test_a_workflow_that_is_cancelled_withdraws_a_wait_that_nobody_can_meet_again(
    messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any, key: str | None
) -> None:
    async with waits():
        workflow = await start(key=key)
        token = await _soon(messenger.tokens.get())
        await workflow.cancel()
        await _soon(_cancelled(workflow))
        assert (await client.describe(token)).state is (State.PENDING if key else State.CANCELLED)
        if key:
            again = await start(key=key)
            await client.resolve(token, "yes")
            assert await _soon(again.result()) == ["yes"]
    await Replayer(workflows=[Waits], plugins=[PydanticAIPlugin()]).replay_workflow(await workflow.fetch_history())


async def test_a_workflow_that_is_cancelled_while_it_opens_its_wait_leaves_none_open(
    messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any
) -> None:
    workflow = await start()
    await _soon(_scheduled(workflow, OPEN))
    await workflow.cancel()
    async with waits():
        await _soon(_cancelled(workflow))
    assert {wait.state async for wait in client.list()} <= {State.CANCELLED}
    assert messenger.tokens.empty()


async def _cancelled(workflow: WorkflowHandle[Waits, list[Any]]) -> None:
    with pytest.raises(WorkflowFailureError) as failure:
        await workflow.result()
    assert isinstance(failure.value.cause, CancelledError)


async def _scheduled(workflow: WorkflowHandle[Waits, list[Any]], name: str) -> None:
    """Returns once the workflow's history has this activity."""
    async for event in workflow.fetch_history_events(wait_new_event=True):
        if event.activity_task_scheduled_event_attributes.activity_type.name == name:
            return


async def test_with_a_key_two_waits_of_one_name_are_not_open_at_once(
    messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any
) -> None:
    async with waits():
        with pytest.raises(WorkflowFailureError) as failure:
            await _soon((await start(names=("approve", "approve"), at_once=True, key="order-7")).result())
        assert "name of its own" in str(failure.value.cause)
        # Without one nobody meets them again, and a replay comes to them in the same order.
        workflow = await start(names=("approve", "approve"), at_once=True)
        tokens = {await _ordinal(client, token): token for token in [await _soon(messenger.tokens.get()) for _ in range(2)]}
        for ordinal in (1, 0):
            await client.resolve(tokens[ordinal], ordinal)
        assert await _soon(workflow.result()) == [0, 1]


async def _ordinal(client: AbeyanceClient, token: str) -> int:
    """Which wait of its run this is, from 0."""
    return int((await client.describe(token)).key.rsplit("/", 1)[1])


async def test_an_answer_that_is_missing_fails_for_good() -> None:
    """It is never null, and no retry mends it."""

    class Broken:
        async def open(self, *_: Any, **__: Any) -> OpenedWait:
            now = datetime.now(UTC)
            opened = Opened("token", "wait-1", timedelta(1), TimeoutSource.TIMEOUT, now, True, True, False)
            return OpenedWait(opened, Outcome("wait-1", State.RESOLVED, now))

    activities = AbeyanceActivities()
    activities._client = Broken()  # type: ignore[assignment]
    with pytest.raises(ApplicationError, match="carries no answer") as failure:
        await ActivityEnvironment().run(activities.open, OpenRequest("approve", "order-7"))
    assert failure.value.non_retryable


def test_a_key_is_not_empty() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        TemporalWaiter("")


async def test_an_end_without_an_answer_is_told_as_such(messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any) -> None:
    async with waits():
        failed = await start(key="order-7")
        await client.fail(await _soon(messenger.tokens.get()), "No budget.")
        assert await _soon(failed.result()) == ["No budget."]
        # Whoever comes later is told the same.
        assert await _soon((await start(key="order-7")).result()) == ["No budget."]
        expired = await start(timeout_ms=1500)
        assert await _soon(expired.result()) == ["No resolution arrived within 0:00:01.500000."]


async def test_a_refusal_of_the_broker_fails_the_workflow(messenger: Messenger, client: AbeyanceClient, start: Any, waits: Any) -> None:
    async with waits():
        with pytest.raises(WorkflowFailureError) as failure:
            await _soon((await start(names=("n" * 257,))).result())
    assert isinstance(failure.value.cause, ActivityError)
    assert isinstance(failure.value.cause.cause, ApplicationError)
    assert failure.value.cause.cause.type == "INVALID_FIELD"


async def test_a_wait_moves_to_another_worker_and_through_a_restart_of_the_broker(
    messenger: Messenger, client: AbeyanceClient, broker: Broker, start: Any, waits: Any
) -> None:
    async with waits():
        workflow = await start()
        token = await _soon(messenger.tokens.get())
    broker.kill()
    async with waits():
        broker.start()
        await client.resolve(token, "yes")
        assert await _soon(workflow.result()) == ["yes"]


async def test_an_attached_activity_sends_heartbeats_and_lets_go_when_it_is_cancelled(client: AbeyanceClient) -> None:
    environment = ActivityEnvironment()
    environment.info = replace(environment.default_info(), heartbeat_timeout=timedelta(milliseconds=300))
    beats = asyncio.Semaphore(0)
    environment.on_heartbeat = lambda *details: beats.release()
    token = (await client.open("approve", timeout=600)).opened.token
    attached = asyncio.create_task(environment.run(AbeyanceActivities(client).attach, TokenRequest(token)))
    for _ in range(3):
        await _soon(beats.acquire())
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await _soon(attached)
    assert (await client.describe(token)).state is State.PENDING


async def test_the_waiter_for_plain_runs_refuses_in_a_workflow(messenger: Messenger, server: Client, queue: str) -> None:
    with pytest.raises(WorkflowFailureError) as failure:
        await _soon(server.execute_workflow(Misled.run, id="misled", task_queue=queue))
    assert "abeyance.temporal.TemporalWaiter" in str(failure.value.cause)


async def test_it_refuses_outside_a_workflow() -> None:
    async def ask(token: str) -> None:
        raise AssertionError

    with external_event_scope(TemporalWaiter("order-7")), pytest.raises(UserError, match="AbeyanceWaiter"):
        await wait_for_external_event("approve", ask=ask)
