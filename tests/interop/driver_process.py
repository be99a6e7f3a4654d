"""One driver: a process that does with a client what lines of JSON ask for."""

import asyncio
import json
import sys
from collections import deque
from pathlib import Path
from typing import Any

from check import Wrong, short

# A line carries payloads of 1 MiB, escaped.
LINE_BYTES = 64 << 20
READY_SECONDS = 60.0
END_SECONDS = 10.0
ANSWER_SECONDS = 45.0


class Refused(Exception):
    """A driver answered a request with an error."""

    def __init__(self, op: str, error: dict[str, Any]) -> None:
        super().__init__(f"{op} was refused: {short(error)}")
        self.op = op
        self.error = error


class Driver:
    """A running driver. Requests may be made concurrently."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.count = 0
        # What the driver logged last, for the explanation of a failure.
        self.log: deque[str] = deque(maxlen=20)
        self.ended: str | None = None
        self.ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_log())]

    @classmethod
    async def start(cls, name: str, language: str, program: Path) -> "Driver":
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(program, stdin=pipe, stdout=pipe, stderr=pipe, limit=LINE_BYTES)
        driver = cls(name, process)
        try:
            async with asyncio.timeout(READY_SECONDS):
                ready = await driver.ready
        except TimeoutError:
            raise Wrong(f"{name}: not ready after {READY_SECONDS:.0f} s") from None
        if ready != {"language": language}:
            raise Wrong(f"{name}: it calls itself {short(ready)}")
        return driver

    async def ask(self, op: str, *, seconds: float = ANSWER_SECONDS, **arguments: object) -> dict[str, Any]:
        """The answer to a request. Arguments that are None are left out.

        Raises `Refused` for an error, and `Wrong` if no answer comes within `seconds` or the driver ends."""
        if self.ended is not None:
            raise Wrong(self.ended)
        self.count += 1
        number = self.count
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.asked[number] = answer
        request = {"id": number, "op": op} | {k: v for k, v in arguments.items() if v is not None}
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request, ensure_ascii=False).encode() + b"\n")
            await self.process.stdin.drain()
            async with asyncio.timeout(seconds):
                line = await answer
        except TimeoutError:
            raise Wrong(f"{self.name}: no answer to {op} within {seconds:.0f} s") from None
        except ConnectionError:
            # The reader sees the end too, and knows more about it.
            await asyncio.wait(self.tasks, timeout=END_SECONDS)
            raise Wrong(self.ended or f"{self.name}: it reads no more") from None
        finally:
            self.asked.pop(number, None)
        if "error" in line:
            raise Refused(op, line["error"])
        ok = line.get("ok")
        if not isinstance(ok, dict):
            raise Wrong(f"{self.name}: neither ok nor error: {short(line)}")
        return ok

    async def stop(self) -> None:
        """Ends its input and waits. Raises `Wrong` if it does not end with 0 by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                code = await self.process.wait()
        except TimeoutError:
            self.kill()
            raise Wrong(f"{self.name}: still running {END_SECONDS:.0f} s after its input ended") from None
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if code != 0:
            raise Wrong(f"{self.name}: ended with {code} at the end of its input; its log:\n{self.tail()}")

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()

    def tail(self) -> str:
        return "\n".join(f"        {line}" for line in self.log) or "        (nothing)"

    async def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while line := await self.process.stdout.readline():
                self._take(line)
            why = f"it ended with {await self.process.wait()}"
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"it wrote what is no answer: {error}"
            self.kill()
        self.ended = f"{self.name}: {why}; its log:\n{self.tail()}"
        for future in [self.ready, *self.asked.values()]:
            if not future.done():
                future.set_exception(Wrong(self.ended))
        # Of those nobody may be left who waits for it.
        if self.ready.done() and not self.ready.cancelled():
            self.ready.exception()

    def _take(self, line: bytes) -> None:
        answer = json.loads(line)
        if "ready" in answer:
            self.ready.set_result(answer["ready"])
            return
        # Nobody waits for it any more if its time was up.
        if (asked := self.asked.get(answer["id"])) is not None and not asked.done():
            asked.set_result(answer)

    async def _read_log(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            text = line.decode(errors="replace").rstrip()
            self.log.append(short(text))
            # A crash of a driver must be seen even if every scenario passes.
            if "panicked" in text:
                print(f"{self.name}: {text}", file=sys.stderr)
