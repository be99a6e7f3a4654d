"""A worker that is killed while it waits, and started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from abeyance import AbeyanceClient

from .broker import Broker


@contextmanager
def worker(broker: Broker, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """The worker, which is killed at the end whatever it does."""
    command = [sys.executable, "-m", "tests.adk_worker", broker.target, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=Path(__file__).parents[1]) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> list[str]:
    """The next line that the worker tells: a word and the rest."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n").split(" ", 1)


async def asked(client: AbeyanceClient) -> None:
    """Returns once a wait is recorded as asked."""
    async for change in client.watch():
        if change.wait is not None and change.wait.ask_time is not None and change.wait.settle_time is None:
            return


@pytest.mark.parametrize("broker_dies", [False, True])
async def test_a_killed_worker_goes_on_where_it_was_with_one_ask(
    broker: Broker, client: AbeyanceClient, tmp_path: Path, broker_dies: bool
) -> None:
    with worker(broker, tmp_path) as first:
        word, token = line(first)
        assert word == "asked"
        await asked(client)
    assert first.returncode == -9
    if broker_dies:
        broker.kill()
        broker.start()

    with worker(broker, tmp_path) as second:
        # It attaches to the wait that was asked: had it asked, it would say so before it ends.
        await client.resolve(token, "no")
        # The loop asks again, under the same id, and that is a new question.
        word, next_token = line(second)
        assert word == "asked"
        assert next_token != token
        await asked(client)
    assert second.returncode == -9

    # Answered while no worker runs.
    await client.resolve(next_token, "yes")
    with worker(broker, tmp_path) as third:
        assert line(third) == ["ended", "['yes', 'done: yes']"]
        assert third.wait(30) == 0

    # Nothing is left to do, and nothing is done twice.
    with worker(broker, tmp_path) as fourth:
        assert line(fourth) == ["ended", "[]"]
        assert fourth.wait(30) == 0
