"""Fixtures for all tests of the package."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from abeyance import AbeyanceClient

from .broker import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that serves, with SQLite in a directory of its own and an alive interval of 1 s."""
    broker = Broker(tmp_path / "broker").start()
    yield broker
    broker.kill()


@pytest_asyncio.fixture
async def client(broker: Broker) -> AsyncIterator[AbeyanceClient]:
    """A client of that broker."""
    async with AbeyanceClient(broker.target) as client:
        yield client
