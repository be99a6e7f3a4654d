"""Fixtures for the tests of the engines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ..broker import Broker
from .journey import Proxy
from .process import Program


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """An empty directory for the programs of a test."""
    directory = tmp_path / "application"
    directory.mkdir()
    return directory


@pytest_asyncio.fixture
async def proxy(broker: Broker, tmp_path: Path) -> AsyncIterator[Proxy]:
    """What the programs take for the broker."""
    program = Program(tmp_path, {})
    proxy = Proxy(program)
    await proxy.start(broker.target)
    yield proxy
    await program.close()


@pytest.fixture
def environment() -> dict[str, str]:
    """What the programs need in their environment, beside the broker. For the engine's tests to replace."""
    return {}


@pytest_asyncio.fixture
async def program(proxy: Proxy, application: Path, environment: dict[str, str]) -> AsyncIterator[Program]:
    """Runs programs in that directory, with that broker."""
    program = Program(application, {**environment, "BROKER": proxy.target})
    yield program
    await program.close()
