"""Programs of a test, in processes of their own that can be killed at any moment."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

PATIENCE = 150.0
"""Seconds until something that should have happened long ago is given up. Generous: the machine may be busy."""


class Program:
    """Runs programs of one directory and remembers all lines that they wrote, those of killed processes too."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.lines: list[str] = []
        self._environment = {**os.environ, **environment}
        self._changed = asyncio.Event()
        self._processes: dict[asyncio.subprocess.Process, asyncio.Task[None]] = {}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Starts `python ARGUMENTS` in the directory."""
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                cwd=self.directory,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        reading = asyncio.create_task(self._read(process))
        reading.add_done_callback(lambda _: self._change())
        self._processes[process] = reading
        return process

    async def kill(self, process: asyncio.subprocess.Process) -> None:
        """SIGKILL. Returns once it is dead and everything that it wrote has been read."""
        if process.returncode is None:
            process.kill()
        await self._ended(process)

    async def end(self, process: asyncio.subprocess.Process) -> int:
        """Waits until it ends by itself, and returns its exit code."""
        await asyncio.wait_for(asyncio.shield(self._processes[process]), PATIENCE)
        return await self._ended(process)

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        await self._processes.pop(process)
        return await process.wait()

    async def close(self) -> None:
        """Kills what still runs."""
        for process in list(self._processes):
            await self.kill(process)

    def told(self, label: str) -> list[str]:
        """What was written so far behind `label`, one for each line that begins with it."""
        return [line.removeprefix(label).strip() for line in self.lines if line.startswith(label)]

    async def tells(self, label: str, count: int = 1) -> str:
        """Waits for the `count`th line that begins with `label`, and returns what stands behind. Fails once nothing runs that could
        write it."""

        def there() -> bool:
            return len(self.told(label)) >= count

        def over() -> bool:
            return there() or all(reading.done() for reading in self._processes.values())

        async def change() -> None:
            while not over():
                await self._changed.wait()

        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(change(), PATIENCE)
        if not there():
            written = "\n".join(self.lines)
            raise AssertionError(f"{label!r} came {len(self.told(label))} times; written was:\n{written}\n{self.errors}")
        return self.told(label)[count - 1]

    @property
    def errors(self) -> str:
        """The end of what the processes wrote on standard error."""
        return self._log.read_text(errors="replace")[-8000:] if self._log.exists() else ""

    @property
    def _log(self) -> Path:
        return self.directory / "errors.log"

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.lines.append(line.decode().rstrip("\n"))
            self._change()

    def _change(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
