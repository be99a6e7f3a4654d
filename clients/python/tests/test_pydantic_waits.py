"""How a run of Pydantic AI waits in the broker: what is asked, who answers, and what the run gets."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from pydantic_ai import RunContext
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.capabilities import RequestInput as LibraryRequestInput
from pydantic_ai.exceptions import UserError
from pydantic_ai.external_events import external_event_scope, wait_for_external_event
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied

from abeyance import AbeyanceClient, CallKind, DeferredCalls, Refused, Results, State
from abeyance.pydantic_ai import AbeyanceWaiter, RequestInput

from .pydantic_agents import Inbox, Step, refunds, start

TWO_APPROVALS = {
    "approvals": [
        {"tool_name": "issue_refund", "args": {"order": 1}, "tool_call_id": "call_1"},
        {"tool_name": "issue_refund", "args": {"order": 2}, "tool_call_id": "call_2"},
    ],
    "calls": [],
}
ONE_OF_EACH = {
    "approvals": [{"tool_name": "issue_refund", "args": {"order": 1}, "tool_call_id": "call_1"}],
    "calls": [
        {"tool_name": "lookup", "args": '{"sku": "x"}', "tool_call_id": "call_2"},
        {"tool_name": "ask_user", "args": {"question": "Which?"}, "tool_call_id": "call_3"},
    ],
    "metadata": {"call_1": {"risk": "high"}},
    "_kinds": {"call_3": "question"},
}


# An unchanged agent


async def test_an_unchanged_agent_waits_in_the_broker(client: AbeyanceClient) -> None:
    inbox = Inbox()
    waiter = AbeyanceWaiter(client, namespace="billing", labels={"customer": "c-1"})
    run = start(waiter, refunds(["call_1"], LibraryRequestInput(inbox, name="refund", timeout=timedelta(days=7))))
    token = await inbox.token()
    wait = await client.describe(token)
    assert (wait.name, wait.namespace, wait.labels, wait.timeout) == ("refund", "billing", {"customer": "c-1"}, timedelta(days=7))
    assert (wait.state, wait.question) == (State.PENDING, None)
    await client.resolve(token, {"approvals": {"call_1": True}})
    assert json.loads(await run) == ["refunded 0"]


async def test_a_wrong_answer_to_an_unchanged_agent_is_settled_and_fails_the_run(client: AbeyanceClient) -> None:
    inbox = Inbox()
    run = start(AbeyanceWaiter(client), refunds(["call_1"], LibraryRequestInput(inbox)))
    token = await inbox.token()
    await client.resolve(token, {"approvals": {"call_9": True}})
    with pytest.raises(UserError, match=r"decision sent for the pending deferred tool calls is not valid.*call_9"):
        await run
    assert (await client.describe(token)).state is State.RESOLVED


async def test_any_code_can_wait_for_any_json(client: AbeyanceClient) -> None:
    def answer(token: str) -> dict[str, Any]:
        return {"token": token.startswith("abey_"), "size": 9007199254740993}

    with external_event_scope(AbeyanceWaiter(client)):
        assert await wait_for_external_event("size", ask=answer) == {"token": True, "size": 9007199254740993}


# With the calls as the question


async def test_the_calls_are_the_question_before_the_token_leaves(client: AbeyanceClient) -> None:
    questions = []

    async def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        wait = await client.describe(token)
        questions.append(wait.question)
        assert wait.ask_time is None
        with pytest.raises(Refused) as refused:
            await client.resolve(token, {"approvals": {"call_1": "yes"}, "calls": {"call_2": 1}})
        assert [violation.field for violation in refused.value.violations] == ['approvals["call_1"]', 'calls["call_3"]']
        answer = Results().approve("call_1", {"order": 7}).failed("call_2", "Out of stock.").value("call_3", "S")
        await client.resolve(token, results=answer)

    step = Step(ONE_OF_EACH)
    assert await start(AbeyanceWaiter(client), step.agent(RequestInput(ask))) == "done"
    [question] = questions
    assert isinstance(question, DeferredCalls)
    assert [
        (call.tool_call_id, call.kind, json.loads(call.args_json)) for call in sorted(question.calls, key=lambda call: call.tool_call_id)
    ] == [
        ("call_1", CallKind.APPROVAL, {"order": 1}),
        ("call_2", CallKind.EXTERNAL, '{"sku": "x"}'),
        ("call_3", CallKind.QUESTION, {"question": "Which?"}),
    ]
    assert [call.metadata_json for call in question.calls if call.metadata_json] == ['{"risk":"high"}']
    assert step.effects() == {"call_1": "run", "call_2": "failed", "call_3": "value"}
    assert step.ran == {"call_1": ({"order": 7}, None)}


async def test_other_handlers_go_first(client: AbeyanceClient) -> None:
    def small_ones(ctx: RunContext[None], requests: DeferredToolRequests) -> DeferredToolResults:
        return requests.build_results(approvals={"call_1": True})

    inbox = Inbox()
    step = Step(TWO_APPROVALS)
    run = start(AbeyanceWaiter(client), step.agent(RequestInput(inbox), HandleDeferredToolCalls(small_ones)))
    token = await inbox.token()
    question = (await client.describe(token)).question
    assert isinstance(question, DeferredCalls)
    assert [call.tool_call_id for call in question.calls] == ["call_2"]
    await client.deny(token, "call_2")
    assert await run == "done"
    assert step.effects() == {"call_1": "run", "call_2": "denied"}


@pytest.mark.parametrize(
    ("by_agent", "given", "may"), [(False, None, False), (True, None, True), (True, False, False), (False, True, True)]
)
async def test_whether_calls_may_stay_pending(client: AbeyanceClient, by_agent: bool, given: bool | None, may: bool) -> None:
    inbox = Inbox()
    step = Step(TWO_APPROVALS)
    agent = step.agent(RequestInput(inbox, may_leave_pending=given), may_leave_pending=by_agent)
    # What `may_leave_pending=True` is for: the run's own output types allow it.
    run = start(AbeyanceWaiter(client), agent, output_type=[str, DeferredToolRequests] if given else None)
    token = await inbox.token()
    if not may:
        with pytest.raises(Refused, match="is missing"):
            await client.resolve(token, {"approvals": {"call_1": True}})
        await client.resolve(token, {"approvals": {"call_1": True, "call_2": False}})
        assert await run == "done"
        return
    await client.resolve(token, {"approvals": {"call_1": True}})
    left = await run
    assert [call.tool_call_id for call in left.approvals] == ["call_2"]


async def test_it_refuses_without_a_waiter(client: AbeyanceClient) -> None:
    inbox = Inbox()
    with pytest.raises(UserError, match="no AbeyanceWaiter is installed"):
        await refunds(["call_1"], RequestInput(inbox)).run("go")

    def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        raise AssertionError("nobody is asked")

    with pytest.raises(UserError, match="no AbeyanceWaiter is installed"):
        await refunds(["call_1"], RequestInput(ask)).run("go")
    assert inbox.asked == 0


async def test_it_refuses_calls_that_nobody_can_be_shown(client: AbeyanceClient) -> None:
    inbox = Inbox()
    step = Step(TWO_APPROVALS | {"metadata": {"call_1": {"session": object()}}})
    with pytest.raises(UserError, match="have no JSON form"):
        await start(AbeyanceWaiter(client), step.agent(RequestInput(inbox)))
    assert inbox.asked == 0


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN"])
@pytest.mark.parametrize("place", ["args", "metadata"])
async def test_it_refuses_numbers_that_would_be_shown_as_null(client: AbeyanceClient, place: str, number: str) -> None:
    inbox = Inbox()
    call = {"tool_name": "pay", "args": {"amount": [5, float(number)]} if place == "args" else {}, "tool_call_id": "call_1"}
    step = Step({"approvals": [call], "metadata": {"call_1": {"limit": float(number)}} if place == "metadata" else {}})
    with pytest.raises(UserError, match=f"have no JSON form: {number} is no JSON"):
        await start(AbeyanceWaiter(client), step.agent(RequestInput(inbox)))
    assert inbox.asked == 0


# Answers of the ask itself


async def test_an_answer_in_place_is_recorded(client: AbeyanceClient) -> None:
    tokens = []

    def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> DeferredToolResults:
        tokens.append(token)
        return requests.build_results(
            approvals={"call_1": ToolApproved(), "call_2": ToolDenied("Too much.")}, answered_by={"call_1": "policy"}
        )

    step = Step(TWO_APPROVALS)
    assert await start(AbeyanceWaiter(client), step.agent(RequestInput(ask))) == "done"
    assert step.effects() == {"call_1": "run", "call_2": "denied"}
    outcome = (await client.describe(tokens[0])).outcome
    assert outcome is not None
    assert outcome.state is State.RESOLVED
    assert outcome.value["answered_by"] == {"call_1": "policy"}


async def test_who_was_faster_than_an_answer_in_place_counts(client: AbeyanceClient) -> None:
    async def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> DeferredToolResults:
        # Somebody decides one call while the policy thinks about both.
        await client.deny(token, "call_1", "No.")
        return requests.build_results(approve_all=True)

    step = Step(TWO_APPROVALS)
    assert await start(AbeyanceWaiter(client), step.agent(RequestInput(ask))) == "done"
    assert step.effects() == {"call_1": "denied", "call_2": "run"}
    assert step.returned["call_1"].content == "No."


async def test_an_answer_in_place_that_does_not_fit_is_the_asks_mistake(client: AbeyanceClient) -> None:
    tokens = []

    async def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> DeferredToolResults:
        tokens.append(token)
        return requests.build_results(approvals={"call_1": True})

    agent = Step(TWO_APPROVALS).agent(RequestInput(ask))
    with pytest.raises(UserError, match=r'`ask` returned is refused(?s:.*)approvals\["call_2"\]: is missing'):
        await start(AbeyanceWaiter(client), agent)
    assert (await client.describe(tokens[0])).state is State.CANCELLED
    with pytest.raises(UserError, match="is missing"):
        await start(AbeyanceWaiter(client, key="run-1"), agent)
    kept = await client.describe(tokens[1])
    assert (kept.state, kept.ask_time) == (State.PENDING, None)


async def test_an_outcome_cuts_the_ask_short(client: AbeyanceClient) -> None:
    cut = asyncio.Event()

    async def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        try:
            await client.approve(token, "call_1")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut.set()
            raise

    assert json.loads(await start(AbeyanceWaiter(client), refunds(["call_1"], RequestInput(ask)))) == ["refunded 0"]
    assert cut.is_set()


async def test_an_outcome_leaves_a_blocking_ask_behind(client: AbeyanceClient) -> None:
    loop = asyncio.get_running_loop()
    tokens: asyncio.Queue[str] = asyncio.Queue()
    over = threading.Event()

    def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        loop.call_soon_threadsafe(tokens.put_nowait, token)
        over.wait()

    run = start(AbeyanceWaiter(client), refunds(["call_1"], RequestInput(ask)))
    try:
        await client.approve(await asyncio.wait_for(tokens.get(), 20), "call_1")
        assert json.loads(await run) == ["refunded 0"]
    finally:
        over.set()


@pytest.mark.parametrize("sync", [False, True])
async def test_what_the_ask_raises_goes_up(client: AbeyanceClient, sync: bool) -> None:
    mistake = KeyError("no such channel")
    cause = OSError("the network is down")
    tokens = []

    def fail(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        tokens.append(token)
        raise mistake from cause

    async def fail_async(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        fail(ctx, requests, token)

    agent = refunds(["call_1"], RequestInput(fail if sync else fail_async))
    for key in (None, "run-1", "run-1"):
        with pytest.raises(KeyError) as raised:
            await start(AbeyanceWaiter(client, key=key), agent)
        assert raised.value is mistake
        assert mistake.__cause__ is cause
    # Without a key it is withdrawn, with one it is asked again.
    assert (await client.describe(tokens[0])).state is State.CANCELLED
    assert tokens[1] == tokens[2] != tokens[0]
    kept = await client.describe(tokens[1])
    assert (kept.state, kept.ask_time) == (State.PENDING, None)


# Ends without an answer


@pytest.mark.parametrize("capability", [LibraryRequestInput, RequestInput])
@pytest.mark.parametrize(("end", "reason"), [("fail", "Out of office."), ("fail", ""), ("cancel", "Not needed.")])
async def test_nothing_decided_denies_everything(client: AbeyanceClient, capability: Any, end: str, reason: str) -> None:
    inbox = Inbox()
    run = start(AbeyanceWaiter(client), refunds(["call_1"], capability(inbox)))
    await getattr(client, end)(await inbox.token(), reason)
    assert json.loads(await run) == [f"No decision on this tool call arrived: {reason}"]


@pytest.mark.parametrize("end", ["fail", "cancel", "expire"])
async def test_what_was_decided_stays(client: AbeyanceClient, end: str) -> None:
    inbox = Inbox()
    step = Step(TWO_APPROVALS)
    timeout = timedelta(seconds=5) if end == "expire" else None
    run = start(AbeyanceWaiter(client), step.agent(RequestInput(inbox, timeout=timeout)))
    token = await inbox.token()
    await client.approve(token, "call_2", answered_by="alice")
    if end == "fail":
        await client.fail(token, "Enough.")
    elif end == "cancel":
        await client.cancel(token, "Enough.")
    assert await run == "done"
    assert step.effects() == {"call_1": "denied", "call_2": "run"}
    reason = "No resolution arrived within 0:00:05." if end == "expire" else "Enough."
    assert step.returned["call_1"].content == f"No decision on this tool call arrived: {reason}"


async def test_a_refused_wait_is_no_denial(client: AbeyanceClient) -> None:
    """What is wrong between worker and broker never becomes an answer of anybody."""
    first, second = Inbox(), Inbox()
    run = start(AbeyanceWaiter(client, key="run-1"), refunds(["call_1"], RequestInput(first)))
    await client.approve(await first.token(), "call_1")
    await run
    with pytest.raises(Refused) as refused:
        await start(AbeyanceWaiter(client, key="run-1"), refunds(["call_1"], RequestInput(second, may_leave_pending=True)))
    assert refused.value.reason == "KEY_CONFLICT"
    assert second.asked == 0
