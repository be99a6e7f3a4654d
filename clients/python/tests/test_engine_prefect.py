"""The recipe for Prefect."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from abeyance import AbeyanceClient

from .engines.journey import PROMPT, Proxy, asked, asks_each_question_once
from .engines.process import Program
from .engines.recipes import write_recipes
from .engines.servers import Server, free_ports, installed

pytest_plugins = ["tests.engines.fixtures"]


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Prefect server. What its clients need in their environment."""
    home = tmp_path_factory.mktemp("prefect")
    [port] = free_ports(1)
    api = f"http://127.0.0.1:{port}/api"
    environment = {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": api,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    server = Server([installed("prefect"), "server", "start", "--port", str(port), "--no-ui"], home, environment)

    def serves() -> bool:
        try:
            with urllib.request.urlopen(f"{api}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    server.wait_until(serves)
    yield environment
    server.stop()


@pytest.fixture
def environment(prefect: dict[str, str]) -> dict[str, str]:
    """What the programs of a test need in their environment."""
    return prefect


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "theirs"])
async def test_a_killed_flow_asks_each_question_once(
    program: Program, proxy: Proxy, client: AbeyanceClient, application: Path, ours: bool
) -> None:
    write_recipes(application, library_request_input=not ours)

    async def start() -> asyncio.subprocess.Process:
        return await program.start("prefect_refunds.py", "start", PROMPT)

    async def again() -> asyncio.subprocess.Process:
        return await program.start("prefect_refunds.py", "again", await program.tells("run:"))

    process = await asks_each_question_once(program, proxy, client, start, again, ours=ours)
    assert await program.end(process) == 0


async def test_another_flow_run_asks_anew(program: Program, client: AbeyanceClient, application: Path) -> None:
    write_recipes(application, library_request_input=True)
    await program.start("prefect_refunds.py", "start", PROMPT)
    first, _ = await asked(program, client, 1)
    await program.start("prefect_refunds.py", "start", PROMPT)
    second, _ = await asked(program, client, 2)
    assert first != second
