"""The programs in docs/pydantic-ai.md, run as they stand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from .broker import Broker
from .engines.process import Program
from .pydantic_agents import pages_programs


@pytest_asyncio.fixture
async def program(broker: Broker, tmp_path: Path) -> AsyncIterator[Program]:
    for name, text in pages_programs().items():
        (tmp_path / name).write_text(text)
    program = Program(tmp_path, {"ABEYANCE_SERVER": broker.target})
    yield program
    await program.close()


def test_no_program_is_left_out() -> None:
    assert list(pages_programs()) == ["settings.py", "refund.py", "approve.py", "unchanged.py", "answer.py", "worker.py"]


@pytest.mark.parametrize(("run", "resolve"), [("refund.py", "approve.py"), ("unchanged.py", "answer.py")])
async def test_a_run_and_its_resolver(program: Program, run: str, resolve: str) -> None:
    process = await program.start(run)
    token, call = (await program.tells("to decide:")).split()
    assert await program.end(await program.start(resolve, token, call)) == 0
    assert json.loads(await program.tells("done:")) == {"issue_refund": "refunded a"}
    assert await program.end(process) == 0
    if resolve == "approve.py":
        assert program.told("deferred_tool_calls") == ["""['issue_refund({"order":"a"})']"""]
        assert any(f'approvals["{call}"]: must be true, false,' in line for line in program.lines)


async def test_the_worker(program: Program) -> None:
    process = await program.start("worker.py", "order-1234", "Refund order 1234.")
    token, call = (await program.tells("to decide:")).split()
    await program.kill(process)
    process = await program.start("worker.py", "order-1234", "Refund order 1234.")
    assert await program.end(await program.start("approve.py", token, call)) == 0
    assert json.loads(await program.tells("done:")) == {"issue_refund": "refunded a"}
    assert await program.end(process) == 0
