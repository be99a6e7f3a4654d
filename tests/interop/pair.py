"""A worker of one language and a resolver of another, and what scenarios do with them."""

import asyncio
import json
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from check import Wrong, equal, fields, short, true
from driver_process import Driver, Refused
from servers import Broker

Answer = TypeVar("Answer")

MINUTE = 60_000
# What was said last is enough to explain a failure.
REMEMBERED = 8


@dataclass
class Opened:
    """A wait that a worker follows."""

    token: str
    wait_id: str
    name: str


@dataclass
class Side:
    """One driver in one pairing, with the broker (or a proxy) that it talks to."""

    role: str
    driver: Driver
    target: str
    said: deque[str]

    async def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        shown = {k: v for k, v in arguments.items() if k not in ("token", "seconds")}
        line = f"{self.role} {self.driver.name} {op} {short(json.dumps(shown, ensure_ascii=False))}"
        try:
            answer = await self.driver.ask(op, target=self.target, **arguments)
        except Refused as refused:
            self.said.append(f"{line} -> error {short(json.dumps(refused.error, ensure_ascii=False))}")
            raise
        except Wrong as wrong:
            self.said.append(f"{line} -> {wrong}")
            raise
        shown = {k: v for k, v in answer.items() if k != "token"}
        self.said.append(f"{line} -> {short(json.dumps(shown, ensure_ascii=False))}")
        return answer

    async def refused(self, op: str, **arguments: Any) -> dict[str, Any]:
        """The error of a request that must not succeed."""
        try:
            answer = await self.ask(op, **arguments)
        except Refused as refused:
            error = refused.error
        else:
            raise Wrong(f"{op} must be refused, and gave {short(answer)}")
        equal(f"{op}: is the message a text", isinstance(error.get("message"), str) and error["message"] != "", True)
        return error


@dataclass
class Pair:
    """One pairing in one scenario."""

    label: str
    worker: Side
    resolver: Side
    broker: Broker
    # What a scenario shares among all pairings; see `together.py`.
    shared: Any = None
    begun: list[asyncio.Task[Any]] = field(default_factory=list)

    def begin(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        """Begins what the scenario awaits later."""
        task = asyncio.create_task(work)
        self.begun.append(task)
        return task

    async def end(self) -> None:
        """Lets go of what a scenario that failed did not await."""
        for task in self.begun:
            task.cancel()
        await asyncio.gather(*self.begun, return_exceptions=True)

    async def open(self, timeout_ms: int | None = 5 * MINUTE, **arguments: Any) -> Opened:
        """Opens a wait, and checks all that `opened` says of it."""
        name = arguments.pop("name", f"interop {self.label}")
        answer = await self.worker.ask("open", name=name, timeout_ms=timeout_ms, **arguments)
        fields("opened", answer, asked=False, resumed=False, timeout_ms=timeout_ms, timeout_source="TIMEOUT")
        return self.follow(answer, name)

    def follow(self, answer: dict[str, Any], name: str) -> Opened:
        token, wait_id = answer.get("token"), answer.get("wait_id")
        true("opened.token", isinstance(token, str) and token.startswith("abey_"), "something else")
        true("opened.wait_id", isinstance(wait_id, str) and len(wait_id) == 36, wait_id)
        assert isinstance(token, str) and isinstance(wait_id, str)
        return Opened(token, wait_id, name)

    async def outcome(self, wait: Opened, state: str, **expected: object) -> dict[str, Any]:
        """The outcome that the worker got, with these fields."""
        answer = await self.worker.ask("outcome", wait_id=wait.wait_id)
        fields("outcome", answer, state=state, **expected)
        return answer

    async def resolve(self, wait: Opened, **arguments: Any) -> None:
        """Answers a wait for the first time and to its end."""
        answer = await self.resolver.ask("resolve", token=wait.token, **arguments)
        fields("resolve", answer, state="RESOLVED", replayed=False)

    async def settled(self, wait: Opened, state: str) -> None:
        """The resolver is told that the wait has this outcome, and that another answer comes too late."""
        fields("describe", await self.resolver.ask("describe", token=wait.token), state=state, name=wait.name)
        error = await self.resolver.refused("resolve", token=wait.token, payload_json='"too late"')
        fields("the refusal", error, code="FAILED_PRECONDITION", reason="ALREADY_SETTLED")
        metadata = error.get("metadata", {})
        fields("the refusal's metadata", metadata, state=state, wait_id=wait.wait_id)
        true("the refusal's metadata.settle_time", str(metadata.get("settle_time", "")).startswith("20"), metadata)
