"""A Temporal server, the real one."""

from __future__ import annotations

import asyncio
import os
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from .process import PATIENCE
from .servers import Server, free_ports

_REPOSITORY = Path(__file__).resolve().parents[4]
_PORTS = (
    *("frontend", "frontend_members", "frontend_http", "matching", "matching_members"),
    *("history", "history_members", "worker", "worker_members"),
)


@pytest.fixture(scope="module")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Temporal server with the namespace `default`. Its `host:port`."""
    directory = tmp_path_factory.mktemp("temporal")
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    template = string.Template((_REPOSITORY / "tests/data/temporal-development.yaml").read_text())
    (directory / "config").mkdir()
    (directory / "config" / "development.yaml").write_text(template.substitute({k: str(v) for k, v in ports.items()}))
    command = [_binary(), "--root", str(directory), "--env", "development", "--allow-no-auth", "start"]
    server = Server(command, directory, {})
    target = f"127.0.0.1:{ports['frontend']}"
    server.wait_until(lambda: asyncio.run(_connects(target)))
    asyncio.run(asyncio.wait_for(_register(target), PATIENCE))
    yield target
    server.stop()


def _binary() -> str:
    binary = Path(os.environ.get("TEMPORAL_SERVER_BIN", _REPOSITORY / "target/tools/engines/bin/server"))
    if not binary.is_file():
        raise FileNotFoundError(f"there is no Temporal server at {binary}: `tests/run engines` installs it")
    return str(binary)


async def _connects(target: str) -> bool:
    try:
        await Client.connect(target)
    except RuntimeError:
        return False
    return True


async def _register(target: str) -> None:
    service = (await Client.connect(target)).workflow_service
    retention = Duration(seconds=24 * 60 * 60)
    await service.register_namespace(RegisterNamespaceRequest(namespace="default", workflow_execution_retention_period=retention))
