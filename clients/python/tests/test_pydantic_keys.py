"""Runs that come again, runs that end early, and runs beside each other: which wait is whose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import anyio
import pytest
from pydantic_ai import Agent, CancellationToken, RunContext
from pydantic_ai.capabilities import RequestInput as LibraryRequestInput
from pydantic_ai.exceptions import RunCancelled, RunTimedOut, UserError
from pydantic_ai.external_events import external_event_scope, wait_for_external_event
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.test import TestModel
from pydantic_ai.output import NativeOutput, ToolOutput
from pydantic_ai.tools import DeferredToolRequests

from abeyance import AbeyanceClient, Outcome, ProtocolError, State
from abeyance.pydantic_ai import AbeyanceWaiter, RequestInput
from abeyance.pydantic_ai._keys import calls_digest, calls_key, external_key
from abeyance.pydantic_ai._outcome import payload
from abeyance.pydantic_ai._output_types import may_leave_pending

from .broker import Broker
from .pydantic_agents import Inbox, marked, refunds, start

BOTH = pytest.mark.parametrize("capability", [LibraryRequestInput, RequestInput])


@BOTH
async def test_a_run_that_comes_again_asks_nobody_again(client: AbeyanceClient, capability: Any) -> None:
    """All its waits, the answered one too: as an engine replays a run from its start."""
    inbox = Inbox()
    agent = refunds(["call_1", "call_2"], capability(inbox))
    run = start(AbeyanceWaiter(client, key="run-1"), agent)
    first = await inbox.token()
    await client.resolve(first, {"approvals": {"call_1": True}})
    second = await inbox.token()
    await marked(client, second)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    again = start(AbeyanceWaiter(client, key="run-1"), agent)
    await client.resolve(second, {"approvals": {"call_2": True}})
    assert json.loads(await again) == ["refunded 0", "refunded 1"]
    # Once more, when everything is settled.
    assert json.loads(await start(AbeyanceWaiter(client, key="run-1"), agent)) == ["refunded 0", "refunded 1"]
    assert inbox.asked == 2


@BOTH
async def test_a_run_goes_on_from_its_messages(client: AbeyanceClient, capability: Any) -> None:
    """A model that is asked again makes other ids; a saved history that ends in the calls keeps them."""
    saved: list[bytes] = []
    inbox = Inbox()

    async def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        saved.append(ModelMessagesTypeAdapter.dump_json(ctx.messages))
        await inbox(ctx, requests, token)

    ids = [f"call_{uuid4().hex}" for _ in range(2)]
    run = start(AbeyanceWaiter(client, key="run-1"), refunds(ids, capability(ask)))
    await client.resolve(await inbox.token(), {"approvals": {ids[0]: True}})
    token = await inbox.token()
    await marked(client, token)
    run.cancel()

    history = ModelMessagesTypeAdapter.validate_json(saved[-1])
    other_ids = [f"call_{uuid4().hex}" for _ in range(2)]
    # Of an unchanged agent's waits only their number is known: this one was the second.
    waiter = AbeyanceWaiter(client, key="run-1", ordinal=1 if capability is LibraryRequestInput else 0)
    again = start_from(history, waiter, refunds(other_ids, capability(ask)))
    await client.resolve(token, {"approvals": {ids[1]: True}})
    assert json.loads(await again) == ["refunded 0", "refunded 1"]
    assert inbox.asked == 2


def start_from(history: list[ModelMessage], waiter: AbeyanceWaiter, agent: Any) -> asyncio.Task[Any]:
    async def run() -> Any:
        with external_event_scope(waiter):
            async with asyncio.timeout(30):
                return (await agent.run(message_history=history)).output

    return asyncio.create_task(run())


@BOTH
async def test_ids_that_repeat_within_a_run_are_different_waits(client: AbeyanceClient, capability: Any) -> None:
    inbox = Inbox()
    run = start(AbeyanceWaiter(client, key="run-1"), refunds(["call_1", "call_1"], capability(inbox)))
    first = await inbox.token()
    await client.resolve(first, {"approvals": {"call_1": True}})
    second = await inbox.token()
    await client.resolve(second, {"approvals": {"call_1": {"kind": "tool-denied", "message": "Once is enough."}}})
    assert json.loads(await run) == ["refunded 0", "Once is enough."]
    assert first != second


@BOTH
async def test_two_runs_of_one_agent_wait_side_by_side(client: AbeyanceClient, capability: Any) -> None:
    inbox = Inbox()
    agent = refunds(["call_1"], capability(inbox))
    one = start(AbeyanceWaiter(client, key="run-1"), agent)
    token = await inbox.token()
    two = start(AbeyanceWaiter(client, key="run-2"), agent)
    other = await inbox.token()
    await client.resolve(other, {"approvals": {"call_1": {"kind": "tool-denied", "message": "Not this one."}}})
    assert json.loads(await two) == ["Not this one."]
    assert not one.done()
    await client.resolve(token, {"approvals": {"call_1": True}})
    assert json.loads(await one) == ["refunded 0"]


# Waits that are open at once


def handing_to(sent: asyncio.Queue[str]) -> Callable[[str], Any]:
    async def ask(token: str) -> None:
        await sent.put(token)

    return ask


async def test_with_a_key_two_waits_of_one_name_are_not_open_at_once(client: AbeyanceClient) -> None:
    """Only their order would tell them apart, and a run that comes again may come to them in another."""
    sent: asyncio.Queue[str] = asyncio.Queue()
    with external_event_scope(AbeyanceWaiter(client, key="run-1")):
        first = asyncio.create_task(wait_for_external_event("approve", ask=handing_to(sent)))
        token = await asyncio.wait_for(sent.get(), 20)
        with pytest.raises(UserError, match="name of its own"):
            await asyncio.wait_for(wait_for_external_event("approve", ask=handing_to(sent)), 20)
        other = asyncio.create_task(wait_for_external_event("review", ask=handing_to(sent)))
        await client.resolve(await asyncio.wait_for(sent.get(), 20), "reviewed")
        await client.resolve(token, "approved")
        assert (await first, await other) == ("approved", "reviewed")
        # One after the other they are told apart: the one that was refused has taken no number.
        second = asyncio.create_task(wait_for_external_event("approve", ask=handing_to(sent)))
        token = await asyncio.wait_for(sent.get(), 20)
        assert (await client.describe(token)).key == "run-1/approve/1"
        second.cancel()
        await asyncio.wait({second})
        # A wait that was left is not in the way.
        third = asyncio.create_task(wait_for_external_event("approve", ask=handing_to(sent)))
        await client.resolve(await asyncio.wait_for(sent.get(), 20), "again")
        assert await third == "again"


async def test_without_a_key_waits_of_one_name_are_open_at_once(client: AbeyanceClient) -> None:
    sent: asyncio.Queue[str] = asyncio.Queue()
    with external_event_scope(AbeyanceWaiter(client)):
        first = asyncio.create_task(wait_for_external_event("approve", ask=handing_to(sent)))
        token = await asyncio.wait_for(sent.get(), 20)
        second = asyncio.create_task(wait_for_external_event("approve", ask=handing_to(sent)))
        await client.resolve(await asyncio.wait_for(sent.get(), 20), 2)
        await client.resolve(token, 1)
        assert (await first, await second) == (1, 2)


@pytest.mark.parametrize("key", [None, "run-1"])
async def test_agents_beside_each_other_whose_calls_are_equal_never_share_a_decision(client: AbeyanceClient, key: str | None) -> None:
    """Models that number their calls afresh in each run make equal ids."""
    inbox = Inbox()
    agent = refunds(["call_1"], RequestInput(inbox))
    waiter = AbeyanceWaiter(client, key=key)
    first = start(waiter, agent)
    token = await inbox.token()
    second = start(waiter, agent)
    if key:
        with pytest.raises(UserError, match="one decision would count for both"):
            await second
        # What the error says to do.
        second = start(AbeyanceWaiter(client, key=f"{key}/tool-call-2"), agent)
    await client.deny(await inbox.token(), "call_1", "Not this one.")
    await client.approve(token, "call_1")
    assert json.loads(await first) == ["refunded 0"]
    assert json.loads(await second) == ["Not this one."]


# Runs that end early


Run = Callable[..., Coroutine[Any, Any, Any]]


async def cancel_task(run: Run, waits: asyncio.Event) -> None:
    task = asyncio.create_task(run())
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancel_by_token(run: Run, waits: asyncio.Event) -> None:
    cancellation = CancellationToken()
    task = asyncio.create_task(run(cancellation_token=cancellation))
    await waits.wait()
    cancellation.cancel()
    with pytest.raises(RunCancelled):
        await task


async def cancel_by_timeout(run: Run, waits: asyncio.Event) -> None:
    with pytest.raises(RunTimedOut):
        await run(timeout=5)
    assert waits.is_set(), "the time was too short for this machine"


async def cancel_scope(run: Run, waits: asyncio.Event) -> None:
    async def when_it_waits() -> None:
        await waits.wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(when_it_waits)
        await run()


@pytest.mark.parametrize("key", [None, "run-1"])
@pytest.mark.parametrize(
    ("end", "during"),
    # A run's own timeout has to elapse, so it does only once.
    [(end, during) for end in (cancel_task, cancel_by_token, cancel_scope) for during in ("ask", "wait")] + [(cancel_by_timeout, "wait")],
)
async def test_a_run_that_is_cancelled(client: AbeyanceClient, key: str | None, during: str, end: Any) -> None:
    """It leaves a wait that has a key, and withdraws one that has none, before it is over."""
    waits = asyncio.Event()
    tokens = []

    async def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        tokens.append(token)
        waits.set()
        if during == "ask":
            await asyncio.Event().wait()

    agent = refunds(["call_1"], RequestInput(ask))
    with external_event_scope(AbeyanceWaiter(client, key=key)):

        async def run(**options: Any) -> Any:
            return await agent.run("go", **options)

        async with asyncio.timeout(20):
            await end(run, waits)
    [token] = tokens
    wait = await client.describe(token)
    assert wait.state is (State.PENDING if key else State.CANCELLED)


async def test_a_run_that_is_cancelled_while_its_broker_is_away(broker: Broker, client: AbeyanceClient) -> None:
    """It ends within its time limit, and its wait is withdrawn behind its back once the broker is there again."""
    inbox = Inbox()
    run = start(AbeyanceWaiter(client), refunds(["call_1"], RequestInput(inbox)))
    token = await inbox.token()
    wait_id = (await client.describe(token)).wait_id
    broker.kill()
    run.cancel()
    await asyncio.wait({run}, timeout=15)
    assert run.cancelled()

    broker.start()
    async with asyncio.timeout(20):
        async for event in client.watch():
            if event.wait is not None and event.wait.wait_id == wait_id and event.wait.state is State.CANCELLED:
                return


# Streams


@BOTH
@pytest.mark.parametrize("how", ["run_stream", "run_stream_events", "iter"])
async def test_streamed_runs_wait_too(client: AbeyanceClient, capability: Any, how: str) -> None:
    inbox = Inbox()
    agent = refunds(["call_1"], capability(inbox))

    async def run() -> str:
        with external_event_scope(AbeyanceWaiter(client)):
            return await streamed(agent, how)

    task = asyncio.create_task(run())
    await client.resolve(await inbox.token(), {"approvals": {"call_1": True}})
    assert json.loads(await asyncio.wait_for(task, 20)) == ["refunded 0"]


async def streamed(agent: Agent[None, str], how: str) -> str:
    if how == "run_stream":
        async with agent.run_stream("go") as result:
            return await result.get_output()
    if how == "iter":
        async with agent.iter("go") as run:
            async for _ in run:
                pass
            assert run.result is not None
            return run.result.output
    *_, last = await consume(agent.run_stream_events("go"))
    return str(last.result.output)


async def consume(stream: Any) -> list[Any]:
    async with stream as events:
        return [event async for event in events]


async def test_a_stream_that_is_consumed_outside_the_scope_is_refused(client: AbeyanceClient) -> None:
    inbox = Inbox()
    agent = refunds(["call_1"], RequestInput(inbox))
    with external_event_scope(AbeyanceWaiter(client)):
        stream = agent.run_stream_events("go")
    with pytest.raises(UserError, match="no AbeyanceWaiter is installed"):
        await consume(stream)
    assert inbox.asked == 0


def test_a_blocking_run_waits_too(broker: Broker) -> None:
    """With an address: each loop that a blocking run makes has connections of its own."""

    def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> Any:
        return requests.build_results(approve_all=True)

    agent = refunds(["call_1"], RequestInput(ask))
    for _ in range(2):
        with external_event_scope(AbeyanceWaiter(broker.target)):
            assert json.loads(agent.run_sync("go").output) == ["refunded 0"]


# The parts


def requests_json(*calls: tuple[str, str, Any], section: str = "approvals") -> str:
    told = [{"tool_call_id": id, "tool_name": tool, "args": args} for id, tool, args in calls]
    return json.dumps({"approvals": [], "calls": [], section: told})


def test_the_digest_of_calls() -> None:
    one = calls_digest(requests_json(("a", "t", {"x": 1, "y": 2}), ("b", "t", None)))
    assert one == calls_digest(requests_json(("b", "t", None), ("a", "t", {"y": 2, "x": 1})))
    others = [
        requests_json(("a", "t", {"x": 1, "y": 2})),
        requests_json(("a", "t", {"x": 1, "y": 3}), ("b", "t", None)),
        requests_json(("a", "t", {"x": 1.0, "y": 2}), ("b", "t", None)),
        requests_json(("a", "u", {"x": 1, "y": 2}), ("b", "t", None)),
        requests_json(("c", "t", {"x": 1, "y": 2}), ("b", "t", None)),
        requests_json(("a", "t", '{"x": 1, "y": 2}'), ("b", "t", None)),
        requests_json(("a", "t", {"x": "\ud800"}), ("b", "t", None)),
    ]
    assert len({one, *map(calls_digest, others)}) == 1 + len(others)
    # Its key is met again, and the broker refuses it: see the docstring.
    assert calls_digest(requests_json(("a", "t", {}))) == calls_digest(requests_json(("a", "t", {}), section="calls"))


def test_every_part_of_a_key_counts_and_none_runs_into_the_next() -> None:
    keys = [
        external_key("a", "b/c", 0),
        external_key("a/b", "c", 0),
        external_key("a%2Fb", "c", 0),
        external_key("a", "b", 0),
        external_key("a", "b", 1),
        external_key("a", "b/1", 2),
        calls_key("a", "b", 1, "2"),
        external_key("x" * 600, "b", 0),
        external_key("x" * 601, "b", 0),
        calls_key("x" * 600, "b", 0, "0"),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(key) <= 512 for key in keys)
    assert external_key("order-7 é", "approve", 0) == "order-7 é/approve/0"


def test_a_key_is_a_text_that_says_something() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        AbeyanceWaiter(key="")
    with pytest.raises(TypeError, match="key must be a str, not UUID"):
        AbeyanceWaiter(key=uuid4())  # type: ignore[arg-type]


def test_an_answer_that_is_missing_is_not_null() -> None:
    with pytest.raises(ProtocolError, match="carries no answer"):
        payload(Outcome("wait-1", State.RESOLVED, datetime.now(UTC)))
    assert payload(Outcome("wait-1", State.RESOLVED, datetime.now(UTC), payload_json="null")) is None


@pytest.mark.parametrize(
    "output_type",
    [
        str,
        [str],
        DeferredToolRequests | str,
        [str, DeferredToolRequests],
        [str, [int, DeferredToolRequests]],
        [str, int | DeferredToolRequests | None],
        [ToolOutput(int), DeferredToolRequests],
        [NativeOutput(int), DeferredToolRequests],
        NativeOutput(int),
    ],
)
def test_it_reads_output_types_as_the_library_does(output_type: Any) -> None:
    agent: Agent[None, Any] = Agent(TestModel(), output_type=output_type)
    assert may_leave_pending(agent.output_type) == agent._output_schema.allows_deferred_tools
