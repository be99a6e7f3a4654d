"""The recipe for Temporal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from abeyance import AbeyanceClient, State

from .engines.journey import PROMPT, Proxy, asked, asks_each_question_once
from .engines.process import PATIENCE, Program
from .engines.recipes import write_recipes

pytest_plugins = ["tests.engines.fixtures", "tests.engines.temporal_server"]


@pytest.fixture
def environment(temporal: str) -> dict[str, str]:
    """What the programs of a test need in their environment."""
    return {"TEMPORAL": temporal}


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "theirs"])
async def test_a_killed_worker_asks_each_question_once(
    program: Program, proxy: Proxy, client: AbeyanceClient, application: Path, ours: bool
) -> None:
    write_recipes(application, library_request_input=not ours)

    async def serve() -> asyncio.subprocess.Process:
        return await program.start("temporal_refunds.py", "serve")

    async def start() -> asyncio.subprocess.Process:
        await program.start("temporal_refunds.py", "start", f"killed-{ours}", PROMPT)
        return await serve()

    await asks_each_question_once(program, proxy, client, start, serve, ours=ours)


async def test_a_cancelled_workflow_stops_waiting_and_withdraws_its_wait(
    program: Program, client: AbeyanceClient, application: Path, temporal: str
) -> None:
    write_recipes(application)
    await program.start("temporal_refunds.py", "serve")
    server = await Client.connect(temporal)
    workflow = await server.start_workflow("Refund", PROMPT, id="cancelled", task_queue="refunds")
    token, _ = await asked(program, client)
    await workflow.cancel()
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(workflow.result(), PATIENCE)
    assert isinstance(failure.value.cause, CancelledError)
    # Its key has a number that no other run has: nobody could meet it again.
    assert (await client.describe(token)).state is State.CANCELLED


async def test_a_workflow_id_that_is_used_again_asks_anew(
    program: Program, client: AbeyanceClient, application: Path, temporal: str
) -> None:
    write_recipes(application, library_request_input=True)
    await program.start("temporal_refunds.py", "serve")
    server = await Client.connect(temporal)
    tokens = []
    for count in (1, 2):
        workflow = await server.start_workflow("Refund", "A1", id="again", task_queue="refunds")
        token, call = await asked(program, client, count)
        await client.resolve(token, {"approvals": {call: True}})
        assert await asyncio.wait_for(workflow.result(), PATIENCE) == '["refunded A1"]'
        tokens.append(token)
    assert tokens[0] != tokens[1]
