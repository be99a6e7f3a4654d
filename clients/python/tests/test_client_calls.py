"""Calls that have one answer, lists and watches, against a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any

import grpc
import pytest

from abeyance import (
    AbeyanceClient,
    AbeyanceError,
    Backoff,
    CallKind,
    Decision,
    DeferredCalls,
    DeferredJson,
    Detached,
    Form,
    FreeJson,
    Refused,
    Results,
    Settings,
    State,
    TimeoutSource,
    ToolCall,
    Unavailable,
    WatchEvent,
    WatchKind,
    v1,
)

from .broker import Broker
from .fake import JUNK, TOKEN, Context, Events, FakeBroker, RawBroker, fault_proxy, serving, serving_raw

CALLS = DeferredCalls(
    [
        ToolCall("a", "refund", '{"amount": 500.0}', description="Refund"),
        ToolCall("b", "delete", "{}", metadata_json='{"risk": 1.0}'),
        ToolCall("c", "ship", kind=CallKind.EXTERNAL),
        ToolCall("d", "ask_user", kind=CallKind.QUESTION),
    ]
)


async def test_an_answer_arrives_byte_for_byte(client: AbeyanceClient) -> None:
    wait = await client.wait("refund", timeout=60)
    text = '{ "n": 9007199254740993, "f": 1.0, "e": "🙂", "big": 12345678901234567890123 }'
    settled = await client.resolve(wait.token, payload_json=text, answered_by="alice")
    assert (settled.state, settled.replayed) == (State.RESOLVED, False)
    outcome = await wait.outcome()
    assert (outcome.state, outcome.payload_json, outcome.answered_by) == (State.RESOLVED, text, "alice")
    assert outcome.value["n"] == 9007199254740993
    again = await client.resolve(wait.token, {"big": 12345678901234567890123, "e": "🙂", "f": 1.0, "n": 9007199254740993})
    assert (again.replayed, again.answered_by) == (True, "alice")


@pytest.mark.parametrize("value", [None, True, 0, 9007199254740993, 1.5, "9007199254740993 🙂\u2028\x00", [], {"a": [None]}])
async def test_values_are_encoded_and_decoded(client: AbeyanceClient, value: Any) -> None:
    wait = await client.wait("value", question=FreeJson(value), timeout=60)
    info = await client.describe(wait.token)
    assert isinstance(info.question, FreeJson)
    assert info.question.value == value
    await client.resolve(wait.token, value)
    assert (await wait.outcome()).value == value


async def test_what_was_opened(client: AbeyanceClient) -> None:
    opened = (await client.open("open", key="k", timeout=timedelta(days=60), labels={"team": "a"}, question_later=True)).opened
    assert (opened.timeout, opened.timeout_source) == (timedelta(days=60), TimeoutSource.TIMEOUT)
    assert (opened.asked, opened.resumed, opened.question_pending) == (False, False, True)
    assert abs(opened.expire_time - datetime.now(timezone.utc) - timedelta(days=60)) < timedelta(minutes=1)
    await client.set_question(opened.token, FreeJson.text("[1.0]"))
    again = await client.open("open", key="k", question_later=True, timeout=1)
    assert (again.opened.token, again.opened.resumed, again.outcome) == (opened.token, True, None)
    forever = (await client.open("open")).opened
    assert (forever.timeout, forever.timeout_source) == (timedelta(days=366), TimeoutSource.SERVER_MAXIMUM)
    info = await client.describe(opened.token)
    assert (info.name, info.key, info.namespace, info.labels) == ("open", "k", "default", {"team": "a"})
    assert info.question == FreeJson.text("[1.0]")
    assert await client.get(info.wait_id) == info
    await client.fail(opened.token, "no")
    settled = (await client.open("open", key="k", question_later=True)).outcome
    assert settled is not None
    assert (settled.state, settled.reason) == (State.FAILED, "no")


async def test_several_people_decide_tool_calls(client: AbeyanceClient) -> None:
    wait = await client.wait("calls", question=CALLS, timeout=60)
    assert (await client.describe(wait.token)).question == CALLS
    first = await client.approve(wait.token, "a", override_args={"amount": 100}, metadata={"m": 1}, answered_by="alice")
    assert first.decided is not None
    assert (first.state, first.decided.decided_calls, first.decided.pending_calls) == (State.PENDING, 1, 3)
    told = wait.decisions()
    seen = await anext(told)
    assert [(d.tool_call_id, d.decision, d.answered_by) for d in seen.decisions] == [("a", Decision.APPROVED_WITH_OVERRIDE, "alice")]
    await client.deny(wait.token, "b", "no", answered_by="bob")
    repeat = await client.deny(wait.token, "b", "no", answered_by="carol")
    assert repeat.replayed
    assert repeat.decided is not None
    assert repeat.decided.decisions[1].answered_by == "bob"
    with pytest.raises(Refused) as caught:
        await client.approve(wait.token, "b")
    assert (caught.value.reason, caught.value.metadata["tool_call_id"]) == ("ALREADY_DECIDED", "b")
    info = await client.describe(wait.token)
    assert info.decisions is not None
    assert set(info.decisions.approvals) == {"a", "b"}
    last = await client.resolve(wait.token, results=Results().value("c", {"kind": "tool-failed"}).retry("d", "again"))
    assert last.state is State.RESOLVED
    outcome = await wait.outcome()
    assert outcome.payload_json is None
    assert outcome.value == {
        "calls": {
            "c": {"kind": "tool-return", "return_value": {"kind": "tool-failed"}},
            "d": {"kind": "model-retry", "message": "again"},
        },
        "approvals": {
            "a": {"kind": "tool-approved", "override_args": {"amount": 100}},
            "b": {"kind": "tool-denied", "message": "no"},
        },
        "metadata": {"a": {"m": 1}},
        "answered_by": {"a": "alice", "b": "bob"},
    }
    assert outcome.results is not None
    assert outcome.results.calls["c"].return_value_json == '{"kind": "tool-failed"}'
    counts = [d.decided_calls async for d in told]
    assert counts == sorted(counts)


async def test_a_wait_that_fails_denies_its_calls(client: AbeyanceClient) -> None:
    requests = '{"approvals": [{"tool_call_id": "a", "tool_name": "refund", "args": {}}]}'
    wait = await client.wait("calls", question=DeferredJson(requests), timeout=60)
    await client.fail(wait.token, "closed", error_type="Shop")
    outcome = await wait.outcome()
    assert outcome.results is not None
    assert outcome.results.approvals["a"].denied.message == "No decision on this tool call arrived: closed"
    with pytest.raises(AbeyanceError, match="failed: closed"):
        _ = outcome.value


async def test_a_form_refuses_what_does_not_fit(client: AbeyanceClient) -> None:
    form = Form("How many?", payload=[1.5], response_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    wait = await client.wait("form", question=form, timeout=60)
    assert (await client.describe(wait.token)).question == form
    with pytest.raises(Refused) as caught:
        await client.resolve(wait.token, {"n": "5"})
    error = caught.value
    assert (error.code, error.reason, error.metadata) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_ANSWER",
        {"wait_id": wait.wait_id},
    )
    assert [v.field for v in error.violations] == ["n"]
    assert f"n: {error.violations[0].description}" in str(error)
    await client.resolve(wait.token, {"n": 5})
    assert (await wait.outcome()).value == {"n": 5}


async def test_all_violations_arrive(client: AbeyanceClient) -> None:
    with pytest.raises(Refused) as caught:
        await client.open("", namespace="No!", timeout=0, labels={"": "x"})
    fields = {v.field for v in caught.value.violations}
    assert {"spec.name", "spec.namespace", "spec.timeout"} <= fields
    assert caught.value.reason == "INVALID_FIELD"


async def test_nothing_shows_a_token(client: AbeyanceClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    wait = await client.wait("secret", key="k", timeout=60)
    opened = await client.open("secret", key="k")
    shown = [repr(o) for o in (wait, wait.opened, opened, client, await client.describe(wait.token))]
    with pytest.raises(Refused) as caught:
        await client.resolve(wait.token, payload_json="")
    shown += [repr(caught.value), str(caught.value)]
    with pytest.raises(Refused) as caught:
        await client.resolve(wait.token + "x", True)
    shown += [repr(caught.value), str(caught.value), caplog.text]
    assert not [text for text in shown if wait.token in text]


async def test_lists_go_page_by_page(client: AbeyanceClient) -> None:
    tokens = [(await client.open("list", timeout=60, labels={"n": str(n)})).opened.token for n in range(5)]
    await client.cancel(tokens[0])
    await client.open("other", namespace="elsewhere")
    assert [w.labels["n"] async for w in client.list(page_size=2)] == ["4", "3", "2", "1", "0"]
    assert [w.labels["n"] async for w in client.list(states=[State.CANCELLED])] == ["0"]
    assert [w.labels["n"] async for w in client.list(labels={"n": "3"}, max_age=3600)] == ["3"]
    assert [w async for w in client.list(name="list", min_age=timedelta(hours=1))] == []
    assert [w.name async for w in client.list(namespace="elsewhere")] == ["other"]


async def told(watch: AsyncIterator[WatchEvent]) -> tuple[WatchKind, State | None]:
    event = await asyncio.wait_for(anext(watch), 20)
    return event.kind, None if event.wait is None else event.wait.state


async def test_a_watch_begins_again_after_a_cut(broker: Broker) -> None:
    settings = Settings(backoff=Backoff(base=0.001, cap=0.001))
    async with fault_proxy(broker.target) as proxy, AbeyanceClient(proxy.target, settings=settings) as client:
        token = (await client.open("watch", timeout=60)).opened.token
        watch = client.watch(states=[State.PENDING])
        beginning = [(WatchKind.BEGAN, None), (WatchKind.WAIT, State.PENDING), (WatchKind.SYNCED, None)]
        assert [await told(watch) for _ in range(3)] == beginning
        await proxy.command("cut")
        assert [await told(watch) for _ in range(3)] == beginning
        await client.resolve(token, 1)
        # What matches no longer is told once more.
        assert await told(watch) == (WatchKind.WAIT, State.RESOLVED)


async def test_a_watch_begins_again_after_silence_and_when_it_is_let_go() -> None:
    alive = v1.WatchWaitsResponse(alive=v1.WatchAlive())
    alive.alive.alive_interval.FromMilliseconds(300)
    lagged = v1.WatchWaitsResponse(detached=v1.Detached(reason=v1.Detached.REASON_LAGGED))
    lagged.detached.retry_delay.FromMilliseconds(400)

    async def silent(request: Any, context: Context) -> Events:
        yield v1.WatchWaitsResponse()
        yield alive
        await asyncio.Event().wait()

    async def let_go(request: Any, context: Context) -> Events:
        yield lagged

    settings = Settings(backoff=Backoff(base=0.001, cap=0.001), patience=0)
    async with serving(FakeBroker(silent, let_go, silent)) as fake, AbeyanceClient(fake.target, settings=settings) as client:
        watch = client.watch()
        assert [await told(watch) for _ in range(3)] == [(WatchKind.BEGAN, None)] * 3
    assert 0.55 < fake.times[1] - fake.times[0] < 5
    assert 0.4 <= fake.times[2] - fake.times[1] < 5


async def test_a_watch_that_cannot_begin_says_so(client: AbeyanceClient) -> None:
    with pytest.raises(Refused, match="INVALID_FIELD"):
        _ = [event async for event in client.watch(namespace="No!")]


async def test_calls_are_repeated_after_a_cut_and_not_after_a_verdict() -> None:
    codes = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.NOT_FOUND]

    async def unary(request: v1.DescribeWaitRequest, context: Context) -> Any:
        await context.abort(codes[len(fake.requests) - 1], "the test says so")

    settings = Settings(backoff=Backoff(base=0.001, cap=0.001))
    async with serving(FakeBroker(unary=unary)) as fake, AbeyanceClient(fake.target, settings=settings) as client:
        with pytest.raises(Refused, match="the test says so"):
            await client.describe(TOKEN)
        assert len(fake.requests) == len(codes)


async def test_an_answer_that_is_not_there_is_no_success() -> None:
    described = v1.DescribeWaitResponse(wait=v1.Wait(wait_id="w", state=v1.Wait.STATE_PENDING)).SerializeToString()
    settings = Settings(backoff=Backoff(base=0.001, cap=0.001), patience=0.1)
    # OK without a message, and bytes that are none.
    async with serving_raw(RawBroker([], [JUNK], [described])) as raw, AbeyanceClient(raw.target, settings=settings) as client:
        assert (await client.describe(TOKEN)).wait_id == "w"
        assert len(raw.methods) == 3
    async with serving_raw(RawBroker([])) as raw, AbeyanceClient(raw.target, settings=settings) as client:
        for call in (client.set_question(TOKEN, FreeJson(1)), client.mark_asked(TOKEN), client.open("n"), client.resolve(TOKEN, 1)):
            with pytest.raises(Unavailable, match="the answer could not be read"):
                await call


async def test_a_watch_that_ends_at_once_is_backed_off_from() -> None:
    async def short(request: Any, context: Context) -> Events:
        yield v1.WatchWaitsResponse(synced=v1.Synced())

    settings = Settings(backoff=Backoff(base=0.1, cap=30.0))
    async with serving(FakeBroker(short)) as fake, AbeyanceClient(fake.target, settings=settings) as client:

        async def follow() -> None:
            async for _ in client.watch():
                pass

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(follow(), 3)
        # The delays are 0.05 s, 0.1 s, 0.2 s and so on, on average; all of them first ones would be 60.
        assert 3 <= len(fake.requests) <= 20


async def test_closing_the_client_ends_a_watch(client: AbeyanceClient) -> None:
    watch = client.watch()
    assert [(await anext(watch)).kind for _ in range(2)] == [WatchKind.BEGAN, WatchKind.SYNCED]
    following = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(Detached):
        await asyncio.wait_for(following, 10)


async def test_what_was_handed_on_is_marked_at_last() -> None:
    async def unary(request: Any, context: Context) -> Any:
        if len(fake.requests) <= 4:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return v1.MarkAskedResponse()

    settings = Settings(patience=0, backoff=Backoff(base=0.001, cap=0.001))
    async with serving(FakeBroker(unary=unary)) as fake, AbeyanceClient(fake.target, settings=settings) as client:
        with pytest.raises(Unavailable):
            await client.mark_asked(TOKEN)
        await client.mark_asked_at_last(TOKEN)
        assert len(fake.requests) == 5
