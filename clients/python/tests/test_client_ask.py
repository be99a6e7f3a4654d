"""The ask runs beside the open stream, once, and only for a wait that is pending and not asked."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from abeyance import (
    AbeyanceClient,
    Answered,
    AskFailed,
    DeferredCalls,
    Detached,
    FreeJson,
    Refused,
    Results,
    Settings,
    State,
    Ticket,
    ToolCall,
    Unavailable,
    WaitCancelled,
    WaitExpired,
    WaitFailed,
    v1,
)

from .broker import Broker
from .fake import TOKEN, WAIT_ID, Context, Events, FakeBroker, opened, serving


@pytest.fixture
def person(client: AbeyanceClient) -> Person:
    return Person(client)


class Person:
    """Whoever is asked: takes tickets, and answers some other time."""

    def __init__(self, client: AbeyanceClient) -> None:
        self._client = client
        self.tickets: asyncio.Queue[Ticket] = asyncio.Queue()
        self.asked = 0

    async def ask(self, ticket: Ticket) -> None:
        self.asked += 1
        self.tickets.put_nowait(ticket)

    async def answer(self, value: object, by: str = "") -> Ticket:
        """Takes the next ticket and answers it."""
        ticket = await self.tickets.get()
        await self._client.resolve(ticket.token, value, answered_by=by)
        return ticket


async def test_an_answer_is_returned(client: AbeyanceClient, person: Person) -> None:
    running = asyncio.create_task(client.wait_for_external_event("ask", person.ask, timeout=60, question=FreeJson({"n": 1})))
    await person.answer({"ok": True}, by="alice")
    answer = await running
    assert (answer.value, answer.answered_by, answer.payload_json) == ({"ok": True}, "alice", '{"ok": true}')


async def test_it_is_marked_asked_and_not_asked_again(client: AbeyanceClient, person: Person) -> None:
    running = asyncio.create_task(client.wait_for_external_event("ask", person.ask, key="k", timeout=60))
    ticket = await person.tickets.get()
    while (await client.describe(ticket.token)).ask_time is None:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # A worker that runs again with the key meets its wait.
    again = asyncio.create_task(client.wait_for_external_event("ask", person.ask, key="k", timeout=60))
    await client.resolve(ticket.token, 7)
    assert (await again).value == 7
    assert (await client.wait_for_external_event("ask", person.ask, key="k")).value == 7
    assert person.asked == 1


async def test_a_settled_wait_is_not_asked(client: AbeyanceClient, person: Person) -> None:
    settled = (await client.open("ask", key="k", timeout=60)).opened
    await client.fail(settled.token, "no")
    assert not settled.asked
    with pytest.raises(WaitFailed):
        await client.wait_for_external_event("ask", person.ask, key="k")
    assert person.asked == 0


async def test_an_ask_that_knows_the_answer_resolves_like_anybody_else(client: AbeyanceClient) -> None:
    answer = await client.wait_for_external_event("ask", lambda _: Answered([1], answered_by="policy"), timeout=60)
    assert (answer.value, answer.answered_by) == ([1], "policy")


async def test_whoever_was_faster_counts(client: AbeyanceClient) -> None:
    async def ask(ticket: Ticket) -> Answered:
        await ticket.client.resolve(ticket.token, "theirs")
        return Answered("mine")

    assert (await client.wait_for_external_event("ask", ask, timeout=60)).value == "theirs"


async def test_calls_that_others_decided_are_left_out_of_results(client: AbeyanceClient) -> None:
    question = DeferredCalls([ToolCall("a", "refund", "{}"), ToolCall("b", "refund", "{}")])

    async def ask(ticket: Ticket) -> Answered:
        await ticket.client.deny(ticket.token, "a", "no", answered_by="bob")
        return Answered(results=question.approve_all(), answered_by="policy")

    answer = await client.wait_for_external_event("ask", ask, timeout=60, question=question)
    results = answer.outcome.results
    assert results is not None
    assert results.approvals["a"].denied.message == "no"
    assert results.approvals["b"].HasField("approved")
    assert dict(results.answered_by) == {"a": "bob", "b": "policy"}
    assert answer.value["approvals"]["b"] == {"kind": "tool-approved"}


async def test_an_outcome_that_arrives_meanwhile_cuts_the_ask_short(client: AbeyanceClient) -> None:
    cut = asyncio.Event()

    async def ask(ticket: Ticket) -> None:
        try:
            await ticket.client.resolve(ticket.token, "early")
            await asyncio.Event().wait()
        finally:
            cut.set()

    assert (await client.wait_for_external_event("ask", ask, timeout=60)).value == "early"
    assert cut.is_set()


@pytest.mark.parametrize("key", [None, "k"])
async def test_an_ask_that_fails_cancels_an_unkeyed_wait_alone(client: AbeyanceClient, key: str | None) -> None:
    asked: list[Ticket] = []

    async def ask(ticket: Ticket) -> None:
        asked.append(ticket)
        raise ConnectionError(f"POST https://chat/?token={ticket.token}")

    with pytest.raises(AskFailed) as caught:
        await client.wait_for_external_event("ask", ask, key=key, timeout=60)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert str(caught.value) == "the ask raised ConnectionError"
    assert asked[0].token not in f"{caught.value}{caught.value!r}{asked[0]!r}"
    info = await client.describe(asked[0].token)
    assert (info.state, info.ask_time) == (State.PENDING if key else State.CANCELLED, None)
    if key:
        running = asyncio.create_task(client.wait_for_external_event("ask", lambda t: Answered("second try"), key=key))
        assert (await running).value == "second try"


@pytest.mark.parametrize("end", [GeneratorExit, SystemExit, KeyboardInterrupt])
async def test_an_ask_that_ends_otherwise_cancels_an_unkeyed_wait_too(client: AbeyanceClient, end: type[BaseException]) -> None:
    async def ask(ticket: Ticket) -> None:
        raise end("stop")

    async def caught() -> BaseException:
        try:
            await client.wait_for_external_event("ask", ask, timeout=60)
        except end as error:
            return error
        raise AssertionError("it must be raised again")

    assert str(await caught()) == "stop"
    assert [w.state async for w in client.list()] == [State.CANCELLED]


async def test_an_answer_that_cannot_be_sent_cancels_an_unkeyed_wait(client: AbeyanceClient) -> None:
    answered = Answered(1)
    answered.payload_json = '"\ud800"'
    with pytest.raises(AskFailed, match="cannot be sent") as caught:
        await client.wait_for_external_event("ask", lambda _: answered, timeout=60)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(AskFailed):
        await client.wait_for_external_event("ask", lambda _: Answered("\ud800"), timeout=60)
    assert [w.state async for w in client.list()] == [State.CANCELLED] * 2


async def test_one_answer_serves_several_waits(client: AbeyanceClient) -> None:
    question = DeferredCalls([ToolCall("a", "refund"), ToolCall("b", "refund")])
    policy = Answered(results=question.approve_all())

    async def ask(ticket: Ticket) -> Answered:
        await ticket.client.deny(ticket.token, "a")
        return policy

    first = await client.wait_for_external_event("ask", ask, timeout=60, question=question)
    second = await client.wait_for_external_event("ask", lambda _: policy, timeout=60, question=question)
    assert [o.value["approvals"]["a"]["kind"] for o in (first, second)] == ["tool-denied", "tool-approved"]


async def test_an_ask_that_is_long_to_end_does_not_hold_the_answer_back(client: AbeyanceClient) -> None:
    go_on = asyncio.Event()
    ended = asyncio.Event()

    async def ask(ticket: Ticket) -> None:
        try:
            await ticket.client.resolve(ticket.token, "early")
            await asyncio.Event().wait()
        finally:
            await go_on.wait()
            ended.set()

    waiting = client.wait_for_external_event("ask", ask, timeout=60)
    assert (await asyncio.wait_for(waiting, 20)).value == "early"
    assert not ended.is_set()
    go_on.set()
    await asyncio.wait_for(ended.wait(), 20)


async def test_closing_the_client_withdraws_an_unkeyed_wait_alone(broker: Broker, client: AbeyanceClient, person: Person) -> None:
    closing = AbeyanceClient(broker.target)
    running = [asyncio.create_task(closing.wait_for_external_event("ask", person.ask, key=key, timeout=60)) for key in (None, "k")]
    for _ in running:
        await person.tickets.get()
    await closing.close()
    for task in running:
        with pytest.raises(Detached):
            await task
    assert {w.key: w.state async for w in client.list()} == {None: State.CANCELLED, "k": State.PENDING}


async def test_an_open_whose_reply_was_lost_leaves_no_wait_behind() -> None:
    withdrawn = asyncio.Event()
    opens: list[str] = []

    async def lost(request: Any, context: Context) -> Events:
        opens.append(request.request_id)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the reply is lost")
        yield

    async def unary(request: Any, context: Context) -> Any:
        if isinstance(request, v1.OpenWaitRequest):
            opens.append(request.request_id)
            return v1.OpenWaitResponse(opened=v1.Opened(token=TOKEN, wait_id=WAIT_ID))
        assert request.token == TOKEN
        withdrawn.set()
        outcome = v1.Outcome(wait_id=WAIT_ID, state=v1.Wait.STATE_CANCELLED, cancelled=v1.Cancelled())
        return v1.CancelWaitResponse(outcome=outcome)

    settings = Settings(patience=0)
    async with serving(FakeBroker(lost, unary=unary)) as fake, AbeyanceClient(fake.target, settings=settings) as client:
        with pytest.raises(Unavailable):
            await client.wait_for_external_event("ask", lambda _: None)
        await asyncio.wait_for(withdrawn.wait(), 20)
    assert len(opens) == 2
    assert len(set(opens)) == 1


async def test_a_wait_that_can_no_longer_be_followed_is_withdrawn() -> None:
    cancelled: list[str] = []

    async def begin(request: Any, context: Context) -> Events:
        event = opened()
        event.opened.resumed = False
        yield event

    async def refused(request: Any, context: Context) -> Events:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "404 of a proxy")
        yield

    async def unary(request: Any, context: Context) -> Any:
        if isinstance(request, v1.MarkAskedRequest):
            return v1.MarkAskedResponse()
        cancelled.append(request.token)
        outcome = v1.Outcome(wait_id=WAIT_ID, state=v1.Wait.STATE_CANCELLED, cancelled=v1.Cancelled())
        return v1.CancelWaitResponse(outcome=outcome)

    async with serving(FakeBroker(begin, refused, unary=unary)) as fake, AbeyanceClient(fake.target) as client:
        with pytest.raises(Refused):
            await client.wait_for_external_event("ask", lambda _: None)
    assert cancelled == [TOKEN]


async def test_an_answer_that_is_refused_goes_to_the_worker(client: AbeyanceClient) -> None:
    question = DeferredCalls([ToolCall("a", "refund", "{}")])
    with pytest.raises(Refused) as caught:
        await client.wait_for_external_event("ask", lambda _: Answered(results=Results().approve("z")), question=question, timeout=60)
    assert caught.value.reason == "INVALID_ANSWER"
    assert {v.field for v in caught.value.violations} == {'approvals["a"]', 'approvals["z"]'}
    assert [w.state async for w in client.list()] == [State.CANCELLED]


async def test_an_ask_may_only_return_nothing_or_an_answer(client: AbeyanceClient) -> None:
    with pytest.raises(AskFailed, match="returned bool"):
        await client.wait_for_external_event("ask", lambda _: True, timeout=60)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_cancelled_task_withdraws_an_unkeyed_wait_alone(client: AbeyanceClient, person: Person, key: str | None) -> None:
    running = asyncio.create_task(client.wait_for_external_event("ask", person.ask, key=key, timeout=60))
    ticket = await person.tickets.get()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await client.describe(ticket.token)).state is (State.PENDING if key else State.CANCELLED)


async def test_a_task_that_is_cancelled_while_it_opens_leaves_no_wait_behind(client: AbeyanceClient, person: Person) -> None:
    for yields in range(0, 60, 3):
        running = asyncio.create_task(client.wait_for_external_event("ask", person.ask, timeout=60))
        for _ in range(yields):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert {w.state async for w in client.list()} <= {State.CANCELLED}


async def test_each_end_without_an_answer_has_its_own_name(client: AbeyanceClient, person: Person) -> None:
    with pytest.raises(WaitExpired, match=r"No resolution arrived within 0:00:00\.2") as expired:
        await client.wait_for_external_event("ask", person.ask, timeout=0.2)
    assert expired.value.outcome.cause == "TIMEOUT"
    await person.tickets.get()

    running = asyncio.create_task(client.wait_for_external_event("ask", person.ask, timeout=60))
    await client.fail((await person.tickets.get()).token, "no", error_type="Policy", details_json='{"n": 1.0}')
    with pytest.raises(WaitFailed, match="no") as failed:
        await running
    outcome = failed.value.outcome
    assert (outcome.reason, outcome.error_type, outcome.details_json) == ("no", "Policy", '{"n": 1.0}')

    running = asyncio.create_task(client.wait_for_external_event("ask", person.ask, timeout=60))
    await client.cancel((await person.tickets.get()).token, "not needed")
    with pytest.raises(WaitCancelled, match="not needed"):
        await running
