"""The recipe for DBOS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from dbos import DBOSClient

from abeyance import AbeyanceClient

from .engines.journey import PROMPT, Proxy, asked, asks_each_question_once, waits_still
from .engines.process import Program
from .engines.recipes import write_recipes

pytest_plugins = ["tests.engines.fixtures"]


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "theirs"])
async def test_a_killed_workflow_asks_each_question_once(
    program: Program, proxy: Proxy, client: AbeyanceClient, application: Path, ours: bool
) -> None:
    write_recipes(application, library_request_input=not ours)

    async def run() -> asyncio.subprocess.Process:
        return await program.start("dbos_refunds.py", "order-7", PROMPT)

    process = await asks_each_question_once(program, proxy, client, run, run, ours=ours)
    assert await program.end(process) == 0


async def test_a_cancelled_workflow_stops_waiting_and_leaves_its_wait(program: Program, client: AbeyanceClient, application: Path) -> None:
    write_recipes(application)
    process = await program.start("dbos_refunds.py", "order-7", PROMPT)
    token, _ = await asked(program, client)
    await asyncio.to_thread(_dbos(application).cancel_workflow, "order-7")
    assert await program.end(process) == 1
    assert "AwaitedWorkflowCancelled" in program.errors
    assert await waits_still(client, token)


async def test_a_fork_asks_anew(program: Program, client: AbeyanceClient, application: Path) -> None:
    write_recipes(application)
    await program.start("dbos_refunds.py", "order-7", PROMPT)
    token, call = await asked(program, client, 1)
    steps = await asyncio.to_thread(_dbos(application).list_workflow_steps, "order-7")
    await asyncio.to_thread(_dbos(application).fork_workflow, "order-7", len(steps) + 1, application_version="1")
    forked, forked_call = await asked(program, client, 2)
    # The model's step is taken over, the wait is not.
    assert forked != token
    assert forked_call == call
    assert len(program.told("model: asked")) == 1


def _dbos(application: Path) -> DBOSClient:
    return DBOSClient(system_database_url=f"sqlite:///{application}/refunds.sqlite")
