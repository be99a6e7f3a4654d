"""What a stream may end with, and what the client makes of it. Only an outcome is an answer."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from typing import Any

import grpc
import pytest

from abeyance import AbeyanceClient, Backoff, Detached, ProtocolError, Refused, Settings, State, Unavailable, v1

from .broker import Broker
from .fake import JUNK, TOKEN, Context, Events, FakeBroker, RawBroker, Script, detached, fault_proxy, opened, resolved, serving, serving_raw

QUICK = Settings(backoff=Backoff(base=0.001, cap=0.001), patience=5.0)
CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
VERDICTS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.OUT_OF_RANGE,
}


def playing(*events: v1.WaitEvent, then: grpc.StatusCode = grpc.StatusCode.OK) -> Script:
    async def script(request: Any, context: Context) -> Events:
        for event in events:
            yield event
        if then is not grpc.StatusCode.OK:
            await context.abort(then, "the test says so")

    return script


async def silent(request: Any, context: Context) -> Events:
    yield opened()
    await asyncio.Event().wait()


ANSWERED = playing(opened(), resolved())


@pytest.mark.parametrize("code", [grpc.StatusCode.OK, *(c for c in CODES if c not in VERDICTS)], ids=lambda c: c.name)
@pytest.mark.parametrize("begun", [True, False], ids=["after opened", "before opened"])
async def test_a_cut_is_no_answer_whatever_its_status(code: grpc.StatusCode, begun: bool) -> None:
    cut = playing(*([opened()] if begun else []), then=code)
    async with serving(FakeBroker(cut, cut, ANSWERED)) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        wait = await client.attach(TOKEN)
        assert (await wait.outcome()).value is True
        assert wait.reattached == (2 if begun else 0)
        assert fake.requests == [v1.AttachRequest(token=TOKEN)] * 3


@pytest.mark.parametrize("code", [c for c in CODES if c in VERDICTS], ids=lambda c: c.name)
async def test_a_clear_verdict_ends_the_trying(code: grpc.StatusCode) -> None:
    async with serving(FakeBroker(playing(opened()), playing(then=code))) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        wait = await client.attach(TOKEN)
        with pytest.raises(Refused) as caught:
            await wait.outcome()
        assert (caught.value.code, len(fake.requests)) == (code, 2)


async def test_an_open_is_repeated_with_the_same_request_id() -> None:
    cut = playing(then=grpc.StatusCode.UNAVAILABLE)
    async with serving(FakeBroker(cut, cut, ANSWERED)) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        await (await client.wait("name")).outcome()
        await (await client.wait("name", timeout=60)).outcome()
    first, again, third, other = fake.requests
    assert first == again == third
    assert first.request_id[14] == "7"
    assert other.request_id not in ("", first.request_id)
    # Otherwise the stream's deadline would be the timeout of the wait.
    assert first.spec.no_timeout
    assert other.spec.timeout.seconds == 60


async def test_events_that_are_not_known_are_passed_over() -> None:
    script = playing(v1.WaitEvent(), opened(), v1.WaitEvent(), resolved())
    async with serving(FakeBroker(script)) as fake, AbeyanceClient(fake.target) as client:
        wait = await client.attach(TOKEN)
        assert (await wait.outcome()).value is True
        assert wait.reattached == 0


async def test_an_outcome_that_contradicts_itself_is_no_answer() -> None:
    event = resolved()
    event.outcome.state = v1.Wait.STATE_FAILED
    async with serving(FakeBroker(playing(opened(), event))) as fake, AbeyanceClient(fake.target) as client:
        wait = await client.attach(TOKEN)
        with pytest.raises(ProtocolError):
            await wait.outcome()


async def test_streams_are_read_to_their_end() -> None:
    ended: asyncio.Queue[bool] = asyncio.Queue()

    async def slow_end(request: Any, context: Context) -> Events:
        yield opened()
        yield resolved()
        try:
            # The trailers come a moment behind the last event.
            await asyncio.sleep(0.2)
            ended.put_nowait(True)
        except asyncio.CancelledError:
            ended.put_nowait(False)
            raise

    async with serving(FakeBroker(slow_end)) as fake, AbeyanceClient(fake.target) as client:
        await (await client.attach(TOKEN)).outcome()
        assert await ended.get()


async def test_a_planned_end_waits_only_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abeyance._follow.HEALTHY", 0.0)
    lifetime = playing(opened(), detached(v1.Detached.REASON_LIFETIME, 0.3))
    slow = Settings(backoff=Backoff(base=1000.0, cap=1000.0))
    async with serving(FakeBroker(lifetime, ANSWERED)) as fake, AbeyanceClient(fake.target, settings=slow) as client:
        await asyncio.wait_for((await client.attach(TOKEN)).outcome(), 10)
    assert 0.25 < fake.times[1] - fake.times[0] < 5


async def test_planned_ends_of_streams_that_just_began_are_backed_off_from() -> None:
    # Below zero is nothing that a broker can ask for.
    lifetime = playing(opened(), detached(v1.Detached.REASON_LIFETIME, -50))
    settings = Settings(backoff=Backoff(base=0.1, cap=0.2))
    async with serving(FakeBroker(lifetime)) as fake, AbeyanceClient(fake.target, settings=settings) as client:
        await client.attach(TOKEN)
        await asyncio.sleep(1)
        # With delays of 0.1 s on average; without them it would be hundreds.
        assert 2 <= len(fake.requests) <= 60


async def test_what_cannot_be_read_is_a_cut() -> None:
    begin, end = (v1.AttachResponse(event=event).SerializeToString() for event in (opened(), resolved()))
    async with (
        serving_raw(RawBroker([JUNK], [begin, JUNK], [JUNK], [begin, end])) as raw,
        AbeyanceClient(raw.target, settings=QUICK) as client,
    ):
        wait = await client.attach(TOKEN)
        assert (await asyncio.wait_for(wait.outcome(), 10)).value is True
        assert (wait.reattached, len(raw.methods)) == (1, 4)


async def test_a_wait_without_a_token_is_no_wait() -> None:
    nameless = v1.WaitEvent(opened=v1.Opened(wait_id="w"))
    async with serving(FakeBroker(playing(nameless))) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        with pytest.raises(ProtocolError):
            await client.attach(TOKEN)


@pytest.mark.parametrize("seconds", [-5, 10**15])
async def test_an_odd_interval_of_signs_of_life_harms_nothing(seconds: int) -> None:
    odd = opened()
    odd.opened.alive_interval.Clear()
    odd.opened.alive_interval.seconds = seconds

    async def script(request: Any, context: Context) -> Events:
        yield odd
        await asyncio.sleep(0.2)
        yield resolved()

    async with serving(FakeBroker(script)) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        wait = await client.attach(TOKEN)
        assert (await asyncio.wait_for(wait.outcome(), 10)).value is True
        assert wait.reattached == 0


async def test_the_end_of_a_window_leaves_the_connection_to_the_others() -> None:
    async def slow(request: Any, context: Context) -> Events:
        # The deadline counts from the call, not from here.
        await asyncio.sleep(0.6)
        yield opened()
        while True:
            await asyncio.sleep(0.5)
            yield v1.WaitEvent(alive=v1.Alive())

    settings = Settings(window=(2.0, 2.0), backoff=Backoff(base=1000.0, cap=1000.0))
    async with serving(FakeBroker(slow)) as fake, AbeyanceClient(fake.target, settings=settings) as client:
        wait = await client.attach(TOKEN)
        line = client._channels.here().get("waits")
        begun = time.monotonic()
        while not wait.reattached:
            await asyncio.sleep(0.01)
            assert time.monotonic() - begun < 30
        assert client._channels.here().get("waits") is line


async def test_a_deadline_is_no_silence() -> None:
    # Of somebody between: the connection lives, and others use it.
    cut = playing(opened(), then=grpc.StatusCode.DEADLINE_EXCEEDED)
    async with serving(FakeBroker(silent, cut, silent)) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        other = await client.attach(TOKEN)
        line = client._channels.here().get("waits")
        wait = await client.attach(TOKEN)
        while not wait.reattached:
            await asyncio.sleep(0.01)
        assert client._channels.here().get("waits") is line
        assert other.reattached == 0


async def test_errors_do_not_gather_tracebacks(client: AbeyanceClient) -> None:
    wait = await client.wait("closed", timeout=60)
    await wait.aclose()
    errors = []
    for _ in range(3):
        with pytest.raises(Detached) as caught:
            await wait.outcome()
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 3
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in errors}) == 1


async def test_a_drain_waits_what_was_asked_for_and_jitter() -> None:
    drain = playing(opened(), detached(v1.Detached.REASON_DRAIN, 0.3), then=grpc.StatusCode.UNAVAILABLE)
    async with serving(FakeBroker(drain, ANSWERED)) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        await (await client.attach(TOKEN)).outcome()
    assert fake.times[1] - fake.times[0] >= 0.3


async def test_silence_is_death() -> None:
    async with serving(FakeBroker(silent, ANSWERED)) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        await (await client.attach(TOKEN)).outcome()
    # Twice the interval of signs of life, which `opened` said.
    assert 1.9 < fake.times[1] - fake.times[0] < 6


async def test_a_stream_that_does_not_begin_is_given_up() -> None:
    async def nothing(request: Any, context: Context) -> Events:
        await asyncio.Event().wait()
        yield opened()

    settings = Settings(backoff=QUICK.backoff, attempt_timeout=0.5)
    async with serving(FakeBroker(nothing, ANSWERED)) as fake, AbeyanceClient(fake.target, settings=settings) as client:
        await (await client.attach(TOKEN)).outcome()
    assert len(fake.requests) == 2


async def test_streams_end_with_their_window_and_begin_again_at_once(broker: Broker) -> None:
    # A window that ends before a busy machine has begun the stream is a cut, so they are not too short here.
    settings = Settings(window=(2.0, 2.2), backoff=Backoff(base=1000.0, cap=1000.0))
    async with AbeyanceClient(broker.target, settings=settings) as client:
        wait = await client.wait("long", timeout=600)
        begun = time.monotonic()
        while wait.reattached < 2:
            await asyncio.sleep(0.01)
            assert time.monotonic() - begun < 30
        assert time.monotonic() - begun > 2 * 1.7
        # No window became the timeout of the wait.
        assert (await client.describe(wait.token)).timeout.total_seconds() == 600
        await client.resolve(wait.token, "late")
        assert (await wait.outcome()).value == "late"


async def test_waits_move_to_a_new_connection_where_theirs_is_frozen(broker: Broker) -> None:
    async with fault_proxy(broker.target) as proxy, AbeyanceClient(proxy.target, settings=QUICK) as client:
        waits = [await client.wait("frozen", timeout=60) for _ in range(3)]
        await proxy.command("freeze")
        async with AbeyanceClient(broker.target) as other:
            for wait in waits:
                await other.resolve(wait.token, wait.wait_id)
        outcomes = await asyncio.wait_for(asyncio.gather(*(w.outcome() for w in waits)), 10)
        assert [o.value for o in outcomes] == [w.wait_id for w in waits]
        assert all(w.reattached == 1 for w in waits)
        assert proxy.count("connection") == 2


async def test_a_call_on_a_frozen_connection_is_made_on_a_new_one(broker: Broker) -> None:
    settings = Settings(attempt_timeout=0.5, patience=10, backoff=QUICK.backoff)
    async with fault_proxy(broker.target) as proxy, AbeyanceClient(proxy.target, settings=settings) as client:
        token = (await client.open("frozen", timeout=60)).opened.token
        await proxy.command("freeze")
        assert (await client.resolve(token, 1)).state is State.RESOLVED
        assert proxy.count("connection") == 2


async def test_many_cuts_lose_nothing(broker: Broker) -> None:
    async with fault_proxy(broker.target) as proxy, AbeyanceClient(proxy.target, settings=QUICK) as client:
        waits = await asyncio.gather(*(client.wait("cut", timeout=60) for _ in range(20)))
        for wait in waits:
            await proxy.command("cut")
            await client.resolve(wait.token, wait.wait_id)
        outcomes = await asyncio.gather(*(w.outcome() for w in waits))
        assert [o.value for o in outcomes] == [w.wait_id for w in waits]


async def test_the_broker_is_killed_and_started_again(broker: Broker) -> None:
    async with AbeyanceClient(broker.target) as client:
        wait = await client.wait("restart", timeout=60)
        broker.kill()
        broker.start()
        await client.resolve(wait.token, True)
        assert (await wait.outcome()).value is True
        assert wait.reattached >= 1


async def test_scolding_is_met_with_restraint_and_one_warning(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "abeyance")
    settings = Settings(backoff=Backoff(base=0.01, cap=0.32))
    async with fault_proxy(broker.target, "--scold-after", "0.2") as proxy, AbeyanceClient(proxy.target, settings=settings) as client:
        waits = [await client.wait("scolded", timeout=60) for _ in range(5)]
        await proxy.until("scolded", 4)
        await proxy.command("calm")
        for wait in waits:
            await client.resolve(wait.token, True)
        await asyncio.gather(*(w.outcome() for w in waits))
    told = [r.getMessage() for r in caplog.records]
    assert len(told) == 1
    assert "too_many_pings" in told[0]
    assert not any(w.token in told[0] for w in waits)


async def test_all_streams_of_a_scolded_connection_rest_together(broker: Broker) -> None:
    # The delays are below 0.32 s, 0.64 s, 1.28 s and so on; of 50 single ones the shortest would be next to nothing each time.
    settings = Settings(backoff=Backoff(base=0.01, cap=30.0))
    async with fault_proxy(broker.target, "--scold-after", "0.2") as proxy, AbeyanceClient(proxy.target, settings=settings) as client:
        waits = await asyncio.gather(*(client.wait("scolded", timeout=60) for _ in range(50)))
        before = proxy.count("connection")
        await asyncio.sleep(3)
        assert proxy.count("connection") - before <= 8
        await proxy.command("calm")
        async with AbeyanceClient(broker.target) as other:
            await asyncio.gather(*(other.resolve(w.token, True) for w in waits))
        await asyncio.gather(*(w.outcome() for w in waits))


async def test_closing_a_wait_detaches_and_nothing_more(broker: Broker, client: AbeyanceClient) -> None:
    async with await client.wait("closed", timeout=60) as wait:
        pass
    with pytest.raises(Detached):
        await wait.outcome()
    assert (await client.describe(wait.token)).state is State.PENDING
    again = await client.attach(wait.token)
    await client.close()
    with pytest.raises(Detached):
        await again.outcome()
    assert (await client.describe(wait.token)).state is State.PENDING


@pytest.fixture
def nobody(unused_tcp_port: int) -> str:
    return f"127.0.0.1:{unused_tcp_port}"


async def test_patience_ends(nobody: str) -> None:
    settings = Settings(patience=0.3, backoff=QUICK.backoff)
    async with AbeyanceClient(nobody, settings=settings) as client:
        for call in (client.open("name"), client.wait("name"), client.attach(TOKEN), anext(client.watch())):
            begun = time.monotonic()
            with pytest.raises(Unavailable) as caught:
                await call
            assert caught.value.code is grpc.StatusCode.UNAVAILABLE
            assert 0.29 < time.monotonic() - begun < 5
