"""The one journey that a workflow makes on every engine: killed at each of its two waits, it asks each question once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from abeyance import AbeyanceClient, DeferredCalls, Refused, State

from .process import PATIENCE, Program

PROMPT = "A1 B2"
_PROXY = Path(__file__).resolve().parents[4] / "tests" / "interop" / "fault_proxy.py"
_CONNECTION = '{"event": "connection"'

Start = Callable[[], Awaitable[asyncio.subprocess.Process]]


class Proxy:
    """Stands between a program and the broker, and tells when the program connects."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.target = ""

    async def start(self, target: str) -> None:
        """Begins to forward to `target`."""
        await self._program.start(str(_PROXY), "--target", target)
        self.target = json.loads('{"listen"' + await self._program.tells('{"listen"'))["listen"]

    def connections(self) -> int:
        """How many connections there were so far."""
        return len(self._program.told(_CONNECTION))

    async def connected(self, earlier: int) -> None:
        """Returns once there was another connection after the first `earlier` ones."""
        await self._program.tells(_CONNECTION, earlier + 1)


async def asked(program: Program, client: AbeyanceClient, count: int = 1) -> tuple[str, str]:
    """Returns the token and the call of the `count`th question, once it was asked and the broker knows that."""
    token, call = (await program.tells("to decide:", count)).split()
    wait_id = (await client.describe(token)).wait_id

    async def marked() -> None:
        async for event in client.watch():
            if event.wait is not None and event.wait.wait_id == wait_id and event.wait.ask_time is not None:
                return

    await asyncio.wait_for(marked(), PATIENCE)
    return token, call


async def asks_each_question_once(
    program: Program, proxy: Proxy, client: AbeyanceClient, start: Start, again: Start, *, ours: bool
) -> asyncio.subprocess.Process:
    """Makes the journey and returns the last process. `start` begins it with `PROMPT`; `again` is what is done after a crash."""
    process = await start()
    token, call = await asked(program, client, 1)
    await program.kill(process)

    # The first answer comes once the recovered process is there.
    earlier = proxy.connections()
    process = await again()
    await proxy.connected(earlier)
    if ours:
        await _refuses_what_cannot_be_used(client, token, call)
        await client.approve(token, call)
    else:
        assert (await client.describe(token)).question is None
        await client.resolve(token, {"approvals": {call: True}})

    # The second while nobody is there.
    second, _ = await asked(program, client, 2)
    await program.kill(process)
    await client.fail(second, "No budget.")
    process = await again()

    told = json.loads(await program.tells("done:"))
    assert told == ["refunded A1", "No decision on this tool call arrived: No budget."]
    assert second != token
    assert len(program.told("to decide:")) == 2
    assert program.told("refunded:") == ["A1"]
    assert len(program.told("model: asked")) == 3
    return process


async def _refuses_what_cannot_be_used(client: AbeyanceClient, token: str, call: str) -> None:
    question = (await client.describe(token)).question
    assert isinstance(question, DeferredCalls)
    assert [(c.tool_call_id, c.tool_name, json.loads(c.args_json)) for c in question.calls] == [(call, "issue_refund", {"order": "A1"})]
    with pytest.raises(Refused) as refused:
        await client.resolve(token, {"approvals": {"call_of_somebody_else": True}})
    assert refused.value.reason == "INVALID_ANSWER"


async def waits_still(client: AbeyanceClient, token: str) -> bool:
    """Whether the wait is pending."""
    return (await client.describe(token)).state is State.PENDING
