"""The worker of docs/pydantic-ai.md is killed while it waits, and the broker too: nobody is asked twice, and the answer arrives.

Its model makes fresh call ids each time it is asked, as real ones do, and refunds two orders in two steps.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from abeyance import AbeyanceClient

from .broker import Broker
from .engines.process import Program
from .pydantic_agents import marked, pages_programs

SETTINGS = """
import json, os
from uuid import uuid4
from pydantic_ai import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

BROKER = os.environ["ABEYANCE_SERVER"]

def respond(messages, info):
    print("model: asked", flush=True)
    told = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(told) < 2:
        return ModelResponse([ToolCallPart("issue_refund", {"order": "AB"[len(told)]}, uuid4().hex)])
    return ModelResponse([TextPart(json.dumps(told))])

MODEL = FunctionModel(respond)
"""


@pytest_asyncio.fixture
async def program(broker: Broker, tmp_path: Path) -> AsyncIterator[Program]:
    programs = pages_programs()
    (tmp_path / "worker.py").write_text(programs["worker.py"])
    (tmp_path / "settings.py").write_text(SETTINGS)
    program = Program(tmp_path, {"ABEYANCE_SERVER": broker.target})
    yield program
    await program.close()


@pytest.mark.parametrize("dies", ["worker", "broker", "both"])
@pytest.mark.parametrize("answered", ["meanwhile", "afterwards"])
async def test_killed_between_ask_and_answer(broker: Broker, client: AbeyanceClient, program: Program, dies: str, answered: str) -> None:
    async def worker() -> asyncio.subprocess.Process:
        return await program.start("worker.py", "run-1", "Refund A and B.")

    process = await worker()
    tokens = []
    for count in (1, 2):
        token, call = (await program.tells("to decide:", count)).split()
        await marked(client, token)
        tokens.append(token)
        if dies != "broker":
            await program.kill(process)
        if dies != "worker":
            broker.kill()
            if answered == "afterwards" and dies == "both":
                # It waits for its broker, too.
                process = await worker()
            broker.start()
        if answered == "meanwhile":
            await client.approve(token, call)
        if dies == "worker" or (dies == "both" and answered == "meanwhile"):
            process = await worker()
        if answered == "afterwards":
            await client.approve(token, call)

    assert json.loads(await program.tells("done:")) == ["refunded A", "refunded B"]
    assert await program.end(process) == 0
    assert len(set(tokens)) == 2
    assert len(program.told("to decide:")) == 2
    assert len(program.told("model: asked")) == 3
