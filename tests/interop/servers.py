"""The broker, and the proxies that stand in front of it."""

import asyncio
import json
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from check import Wrong

HERE = Path(__file__).resolve().parent
START_SECONDS = 30.0


class Broker:
    """A real broker with a data directory of its own. After a kill it starts again at the same address, with the same data."""

    def __init__(self, program: Path, *options: str) -> None:
        self.program = program
        self.options = options
        self.data = tempfile.mkdtemp(prefix="abeyance-interop-")
        self.log = Path(self.data, "broker.log")
        self.target = "127.0.0.1:0"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                self.program,
                "serve",
                f"--listen={self.target}",
                f"--data-dir={self.data}/data",
                *self.options,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = (await self.process.stdout.readline()).decode()
        if not (address := re.fullmatch(r"listening on (\S+)\n", line)):
            raise Wrong(f"the broker does not start: {line or self.log.read_text()}")
        self.target = address[1]

    async def kill(self) -> None:
        """As a power cut would, for the process."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> None:
        """In order: streams are told to attach again, calls in flight finish."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_SECONDS):
            code = await self.process.wait()
        if code != 0:
            raise Wrong(f"the broker does not stop in order: it ended with {code}")

    async def remove(self) -> None:
        if self.process is not None and self.process.returncode is None:
            await self.kill()
        shutil.rmtree(self.data)


class Proxy:
    """A proxy that runs as a process: `fault_proxy.py`, or `strict_proxy.py` with the interpreter that has grpcio."""

    def __init__(self, process: asyncio.subprocess.Process, target: str) -> None:
        self.process = process
        self.target = target
        # Each with the time of the runner's clock at which it was told.
        self.events: list[dict[str, Any]] = []
        self.news = asyncio.Condition()
        self.reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, script: str, target: str, *options: str, python: Path | str = sys.executable) -> "Proxy":
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(python, HERE / script, f"--target={target}", *options, stdin=pipe, stdout=pipe)
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
        if not line:
            raise Wrong(f"{script} does not start")
        return cls(process, json.loads(line)["listen"])

    async def command(self, name: str) -> None:
        """Tells the proxy to do something, and waits until it is done."""
        before = len(self.of("done"))
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\n".encode())
        async with asyncio.timeout(START_SECONDS), self.news:
            await self.news.wait_for(lambda: len(self.of("done")) > before)

    def of(self, event: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event]

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self.reader

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.events.append(json.loads(line) | {"told": time.monotonic()})
            async with self.news:
                self.news.notify_all()
