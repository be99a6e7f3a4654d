#!/usr/bin/env python3
"""The driver of the Python client. README.md beside it says what a driver is. Needs the package `abeyance`."""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from abeyance import AbeyanceClient, AbeyanceError, Opened, Outcome, Wait, v1

Request = dict[str, Any]
Answer = dict[str, Any]
CROWD_TIMEOUT = 300.0


class Warnings(logging.Handler):
    """Keeps what the client logs at warning level or above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def milliseconds(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)


def opened_answer(opened: Opened) -> Answer:
    return {
        "token": opened.token,
        "wait_id": opened.wait_id,
        "asked": opened.asked,
        "resumed": opened.resumed,
        "timeout_ms": milliseconds(opened.timeout),
        "timeout_source": opened.timeout_source.name,
    }


def outcome_answer(outcome: Outcome, reattached: int) -> Answer:
    answer: Answer = {"state": outcome.state.name, "reattached": reattached}
    for field in ("payload_json", "answered_by", "reason", "cause", "error_type", "details_json", "results_json"):
        if (value := getattr(outcome, field)) is not None:
            answer[field] = value
    if outcome.results is not None:
        answer["results"] = MessageToDict(outcome.results)
    return answer


def error_answer(error: Exception) -> Answer:
    if isinstance(error, grpc.aio.AioRpcError):
        return {"code": error.code().name, "message": error.details() or ""}
    if isinstance(error, AbeyanceError) and error.code is not None:
        return {
            "code": error.code.name,
            "reason": error.reason or "",
            "message": error.message,
            "metadata": error.metadata,
            "violations": [{"field": v.field, "description": v.description} for v in error.violations],
        }
    return {"code": "CLIENT", "message": f"{type(error).__name__}: {error}"}


class StubWait:
    """A wait that the generated stub alone holds."""

    def __init__(self, channel: grpc.aio.Channel, call: Any) -> None:
        self._channel = channel
        self._call = call

    async def opened(self) -> v1.Opened:
        event = (await self._call.read()).event
        if event.WhichOneof("event") != "opened":
            raise RuntimeError(f"the stream begins with {event.WhichOneof('event')}")
        return event.opened

    async def outcome(self) -> v1.Outcome:
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                if message.event.WhichOneof("event") == "outcome":
                    return message.event.outcome
            raise RuntimeError("the stream ended without an outcome")
        finally:
            await self._channel.close()


class Driver:
    def __init__(self) -> None:
        self.clients: dict[str, AbeyanceClient] = {}
        self.waits: dict[str, Wait | StubWait] = {}
        self.warned = Warnings()
        logging.getLogger("abeyance").addHandler(self.warned)

    def client(self, request: Request) -> AbeyanceClient:
        target = request["target"]
        return self.clients.setdefault(target, AbeyanceClient(target))

    async def open(self, request: Request) -> Answer:
        timeout_ms = request.get("timeout_ms")
        question = request.get("question")
        wait = await self.client(request).wait(
            request["name"],
            key=request.get("key"),
            timeout=None if timeout_ms is None else timedelta(milliseconds=timeout_ms),
            question=None if question is None else ParseDict(question, v1.Question()),
            labels=request.get("labels"),
        )
        self.waits[wait.wait_id] = wait
        return opened_answer(wait.opened)

    async def outcome(self, request: Request) -> Answer:
        wait = self.waits[request["wait_id"]]
        if isinstance(wait, Wait):
            return outcome_answer(await wait.outcome(), wait.reattached)
        outcome = await wait.outcome()
        state = v1.Wait.State.Name(outcome.state).removeprefix("STATE_")
        result = getattr(outcome, state.lower())
        answer = {"state": state, "reattached": 0}
        for field in ("payload_json", "answered_by", "reason"):
            if getattr(result, field, ""):
                answer[field] = getattr(result, field)
        if state == "EXPIRED":
            answer["cause"] = v1.Expired.Cause.Name(result.cause).removeprefix("CAUSE_")
        return answer

    async def mark_asked(self, request: Request) -> Answer:
        await self.client(request).mark_asked(request["token"])
        return {}

    async def cancel(self, request: Request) -> Answer:
        outcome = await self.client(request).cancel(request["token"], request.get("reason", ""))
        return {"state": outcome.state.name}

    async def resolve(self, request: Request) -> Answer:
        results = request.get("results")
        settled = await self.client(request).resolve(
            request["token"],
            payload_json=request.get("payload_json"),
            results=None if results is None else ParseDict(results, v1.DeferredToolResults()),
            partial=request.get("partial", False),
            answered_by=request.get("answered_by", ""),
            request_id=request.get("request_id"),
        )
        return {"state": settled.state.name, "replayed": settled.replayed, "answered_by": settled.answered_by or ""}

    async def fail(self, request: Request) -> Answer:
        settled = await self.client(request).fail(
            request["token"],
            request.get("reason", ""),
            error_type=request.get("error_type", ""),
            details_json=request.get("details_json", ""),
        )
        return {"state": settled.state.name, "replayed": settled.replayed}

    async def describe(self, request: Request) -> Answer:
        info = await self.client(request).describe(request["token"])
        return {
            "state": info.state.name,
            "name": info.name,
            "timeout_ms": milliseconds(info.timeout),
            "timeout_source": info.timeout_source.name,
        }

    async def by_deadline(self, request: Request) -> Answer:
        spec = v1.WaitSpec(name=request["name"])
        return await self._stub_wait(request, spec, [], timeout=request["deadline_ms"] / 1000)

    async def hold(self, request: Request) -> Answer:
        spec = v1.WaitSpec(name=request["name"])
        spec.timeout.FromMilliseconds(request["timeout_ms"])
        options = [
            ("grpc.keepalive_time_ms", request["keepalive_ms"]),
            ("grpc.keepalive_permit_without_calls", 1),
            # Otherwise this library stops pinging after two pings on a stream that sends nothing.
            ("grpc.http2.max_pings_without_data", 0),
        ]
        return await self._stub_wait(request, spec, options)

    async def _stub_wait(self, request: Request, spec: v1.WaitSpec, options: list[tuple[str, Any]], timeout: float | None = None) -> Answer:
        channel = grpc.aio.insecure_channel(request["target"], [*options, ("grpc.use_local_subchannel_pool", 1)])
        call = v1.WaitServiceStub(channel).Wait(v1.WaitRequest(spec=spec), timeout=timeout)
        wait = StubWait(channel, call)
        opened = await wait.opened()
        self.waits[opened.wait_id] = wait
        return {
            "token": opened.token,
            "wait_id": opened.wait_id,
            "asked": opened.asked,
            "resumed": opened.resumed,
            "timeout_ms": opened.timeout.ToMilliseconds(),
            "timeout_source": v1.TimeoutSource.Name(opened.timeout_source).removeprefix("TIMEOUT_SOURCE_"),
        }

    async def crowd(self, request: Request) -> Answer:
        client = self.client(request)
        opening = (client.wait(request["name"], timeout=CROWD_TIMEOUT) for _ in range(request["count"]))
        *others, last = await asyncio.gather(*opening)
        begun = time.monotonic()
        await client.resolve(last.token, True)
        took = time.monotonic() - begun
        await asyncio.gather(*(client.cancel(wait.token) for wait in others))
        await asyncio.gather(*(wait.outcome() for wait in (*others, last)))
        return {"resolve_ms": took * 1000}

    async def warnings(self, request: Request) -> Answer:
        lines, self.warned.lines = self.warned.lines, []
        return {"warnings": lines}

    async def answer(self, line: bytes) -> None:
        request = json.loads(line)
        ops: dict[str, Callable[[Request], Awaitable[Answer]]] = {
            op.__name__: op
            for op in (
                *(self.open, self.outcome, self.mark_asked, self.cancel, self.resolve, self.fail, self.describe),
                *(self.by_deadline, self.hold, self.crowd, self.warnings),
            )
        }
        try:
            write({"id": request["id"], "ok": await ops[request["op"]](request)})
        except Exception as error:  # Whatever it is belongs to whoever asked.
            write({"id": request["id"], "error": error_answer(error)})


def write(answer: Answer) -> None:
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
    sys.stdout.buffer.flush()


async def main() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    driver = Driver()
    write({"ready": {"language": "python"}})
    running: set[asyncio.Task[None]] = set()
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        task = asyncio.create_task(driver.answer(line))
        running.add(task)
        task.add_done_callback(running.discard)
    for client in driver.clients.values():
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
