"""A broker that is not there: said once when a call begins to wait for it, and in full when patience ends."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import grpc
import pytest

from abeyance import AbeyanceClient, Backoff, Settings, Unavailable, v1

from .fake import TOKEN, WAIT_ID, Context, FakeBroker, serving

QUICK = Settings(patience=0.3, backoff=Backoff(base=0.01, cap=0.01))


def free_target() -> str:
    """An address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


async def test_a_broker_that_does_not_run(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "abeyance")
    target = free_target()
    async with AbeyanceClient(target, settings=QUICK) as client:

        async def watch() -> None:
            await anext(client.watch())

        for call in (client.open("n"), client.wait("n"), watch()):
            with pytest.raises(Unavailable) as caught:
                await call  # type: ignore[misc]
            text = str(caught.value)
            assert text.startswith(f"the broker at {target} did not serve the call in ")
            assert "tries within 0." in text
            assert "does the broker run (`abeyance serve`)?" in text
            assert "refused" in text
            assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert target in told[0]
    assert "does the broker run (`abeyance serve`)?" in told[0]


async def test_one_try_is_not_announced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "abeyance")
    async with AbeyanceClient(free_target(), settings=Settings(patience=0)) as client:
        with pytest.raises(Unavailable, match="in one try"):
            await client.open("n")
    assert caplog.records == []


async def test_a_frozen_broker() -> None:
    async def unary(request: Any, context: Context) -> Any:
        await asyncio.Event().wait()

    settings = Settings(attempt_timeout=0.2, patience=0)
    async with serving(FakeBroker(unary=unary)) as fake, AbeyanceClient(fake.target, settings=settings) as client:
        with pytest.raises(Unavailable) as caught:
            await client.describe(TOKEN)
    assert str(caught.value).startswith(f"the broker at {fake.target} did not serve the call in one try within 0.")
    assert "it was silent for as long as a try may take" in str(caught.value)


async def test_each_absence_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "abeyance")

    async def unary(request: Any, context: Context) -> Any:
        if len(fake.requests) in (1, 2, 5):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the test says so")
        if len(fake.requests) == 4:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such wait")
        return v1.CancelWaitResponse(
            outcome=v1.Outcome(wait_id=WAIT_ID, state=v1.Wait.STATE_CANCELLED, cancelled=v1.Cancelled(reason=TOKEN))
        )

    async with serving(FakeBroker(unary=unary)) as fake, AbeyanceClient(fake.target, settings=QUICK) as client:
        await client.cancel(TOKEN)
        assert len(caplog.records) == 1
        with pytest.raises(Exception, match="no such wait"):
            await client.cancel(TOKEN)
        await client.cancel(TOKEN)
    assert len(fake.requests) == 6
    assert [TOKEN in record.getMessage() for record in caplog.records] == [False, False]
