"""A server with the broker's contract that does what a test tells it, and the proxy that harms connections."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from abeyance import v1

TOKEN = "abey_of-a-test"
WAIT_ID = "01a22c49-cfdb-7856-8203-a2cab9fa4984"
JUNK = b"\xff\xff\xff\xff"
"""No message of any kind."""
_PROXY = Path(__file__).resolve().parents[3] / "tests/interop/fault_proxy.py"


def opened(**fields: Any) -> v1.WaitEvent:
    """The first event of a stream, with signs of life promised every second."""
    event = v1.WaitEvent(opened=v1.Opened(token=TOKEN, wait_id=WAIT_ID, resumed=True, **fields))
    event.opened.alive_interval.FromSeconds(1)
    return event


def resolved(payload_json: str = "true") -> v1.WaitEvent:
    """The last event of a stream."""
    result = v1.Resolved(payload_json=payload_json)
    return v1.WaitEvent(outcome=v1.Outcome(wait_id=WAIT_ID, state=v1.Wait.STATE_RESOLVED, resolved=result))


def detached(reason: v1.Detached.Reason, delay: float = 0.0) -> v1.WaitEvent:
    """The end of a stream by the broker."""
    event = v1.WaitEvent(detached=v1.Detached(reason=reason))
    event.detached.retry_delay.FromNanoseconds(int(delay * 1e9))
    return event


Events = AsyncIterator[Any]
Context = Any
Script = Callable[[Any, Context], Events]


class FakeBroker(v1.WaitServiceServicer, v1.ResolveServiceServicer, v1.InboxServiceServicer):
    """Each stream plays the next script, the last one again and again. Unary calls are answered by `unary`."""

    def __init__(self, *scripts: Script, unary: Callable[[Any, Context], Awaitable[Any]] | None = None) -> None:
        self._scripts = scripts
        self._unary = unary
        self.requests: list[Any] = []
        """The requests, in order."""
        self.times: list[float] = []
        """When each came, by the clock of the event loop."""
        self.target = ""

    def _note(self, request: Any) -> int:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        return len(self.requests) - 1

    async def Wait(self, request: Any, context: Context) -> AsyncIterator[v1.WaitResponse]:
        async for event in self._play(request, context):
            yield v1.WaitResponse(event=event)

    async def Attach(self, request: Any, context: Context) -> AsyncIterator[v1.AttachResponse]:
        async for event in self._play(request, context):
            yield v1.AttachResponse(event=event)

    async def WatchWaits(self, request: Any, context: Context) -> AsyncIterator[v1.WatchWaitsResponse]:
        async for response in self._play(request, context):
            yield response

    def _play(self, request: Any, context: Context) -> Events:
        turn = min(self._note(request), len(self._scripts) - 1)
        return self._scripts[turn](request, context)

    async def _answer(self, request: Any, context: Context) -> Any:
        self._note(request)
        assert self._unary is not None
        return await self._unary(request, context)

    OpenWait = DescribeWait = Resolve = CancelWait = MarkAsked = _answer


@asynccontextmanager
async def serving(fake: FakeBroker) -> AsyncIterator[FakeBroker]:
    """Serves it on a free port, as its `target` says."""
    server = grpc.aio.server()
    v1.add_WaitServiceServicer_to_server(fake, server)  # type: ignore[no-untyped-call]
    v1.add_ResolveServiceServicer_to_server(fake, server)  # type: ignore[no-untyped-call]
    v1.add_InboxServiceServicer_to_server(fake, server)  # type: ignore[no-untyped-call]
    fake.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield fake
    finally:
        await server.stop(None)


class RawBroker(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Each call, of whatever method, is answered with the next list of bytes as messages, the last list again and again, and OK."""

    def __init__(self, *answers: list[bytes]) -> None:
        self._answers = answers
        self.methods: list[str] = []
        """What was called, in order."""
        self.target = ""

    def service(self, details: Any) -> Any:
        async def answer(request: bytes, context: Context) -> AsyncIterator[bytes]:
            turn = min(len(self.methods), len(self._answers) - 1)
            self.methods.append(details.method.rsplit("/", 1)[1])
            for message in self._answers[turn]:
                yield message

        # To whoever calls, one message of a stream is the same as an answer.
        return grpc.unary_stream_rpc_method_handler(answer)


@asynccontextmanager
async def serving_raw(raw: RawBroker) -> AsyncIterator[RawBroker]:
    """Serves it on a free port, as its `target` says."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((raw,))
    raw.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield raw
    finally:
        await server.stop(None)


class FaultProxy:
    """`tests/interop/fault_proxy.py`, as a process."""

    def __init__(self, process: asyncio.subprocess.Process, target: str) -> None:
        self._process = process
        self.target = target
        self._events: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    def count(self, event: str) -> int:
        """How many events of a kind there were."""
        return sum(1 for e in self._events if e["event"] == event)

    async def until(self, event: str, count: int) -> None:
        """Waits until there were so many events of a kind."""
        async with self._news:
            await self._news.wait_for(lambda: self.count(event) >= count)

    async def command(self, name: str) -> None:
        """Carries out a command: `freeze`, `cut` or `calm`."""
        done = self.count("done")
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n".encode())
        await self.until("done", done + 1)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self._events.append(json.loads(line))
            async with self._news:
                self._news.notify_all()


@asynccontextmanager
async def fault_proxy(target: str, *options: str) -> AsyncIterator[FaultProxy]:
    """A proxy before `target` that harms connections."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, str(_PROXY), "--target", target, *options, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    proxy = FaultProxy(process, json.loads(await process.stdout.readline())["listen"])
    try:
        yield proxy
    finally:
        process.kill()
        await process.wait()
        await proxy._reader
