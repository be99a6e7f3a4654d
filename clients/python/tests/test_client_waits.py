"""Waits through the client, against a real broker."""

from __future__ import annotations

import asyncio

import pytest

from abeyance import AbeyanceClient, Refused, State


async def test_an_answer_arrives_byte_for_byte(client: AbeyanceClient) -> None:
    wait = await client.wait("refund", timeout=60)
    text = '{ "n": 9007199254740993, "f": 1.0, "e": "🙂" }'
    settled = await client.resolve(wait.token, payload_json=text, answered_by="alice")
    assert (settled.state, settled.replayed) == (State.RESOLVED, False)
    outcome = await wait.outcome()
    assert (outcome.state, outcome.payload_json, outcome.answered_by) == (State.RESOLVED, text, "alice")
    assert outcome.value == {"n": 9007199254740993, "f": 1.0, "e": "🙂"}


async def test_a_refusal_says_all_that_the_broker_said(client: AbeyanceClient) -> None:
    opened = (await client.open("refund", timeout=60)).opened
    with pytest.raises(Refused) as caught:
        await client.resolve(opened.token, payload_json="{,}")
    assert caught.value.reason == "INVALID_JSON"
    assert [v.field for v in caught.value.violations] == ["payload_json"]


async def test_restart(broker, client):
    wait = await client.wait("refund", timeout=60)
    broker.kill(); broker.start()
    await client.resolve(wait.token, True)
    assert (await asyncio.wait_for(wait.outcome(), 20)).value is True
    assert wait.reattached >= 1
