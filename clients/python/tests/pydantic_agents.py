"""Agents whose tool calls wait, and what became of these."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.external_events import external_event_scope
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, Tool

from abeyance import AbeyanceClient
from abeyance.pydantic_ai import AbeyanceWaiter

REQUESTS = TypeAdapter(DeferredToolRequests)
RESULTS = TypeAdapter(DeferredToolResults)
ANY_ARGUMENTS = {"type": "object", "additionalProperties": True}


@dataclass
class Step:
    """One run of an agent that makes the calls of `requests`, in the JSON form of `DeferredToolRequests`, and then ends."""

    requests: dict[str, Any]
    ran: dict[str, Any] = field(default_factory=dict)
    """The tools that ran, by call: the arguments, and the metadata that the answer gave."""
    returned: dict[str, ToolReturnPart] = field(default_factory=dict)
    """What the model was told about each call."""

    def agent(self, *capabilities: AbstractCapability[None], may_leave_pending: bool = False) -> Agent[None, str | DeferredToolRequests]:
        output: Any = [str, DeferredToolRequests] if may_leave_pending else str
        names = dict.fromkeys(call["tool_name"] for call in self._calls())
        return Agent(
            FunctionModel(self._respond),
            output_type=output,
            tools=[self._tool(name) for name in names],
            capabilities=list(capabilities),
        )

    def effects(self) -> dict[str, str]:
        """What happened to each call that was answered, in the words of the vectors."""
        words = {"success": "value", "denied": "denied", "failed": "failed", "retried": "retry"}
        told = {call: words[part.outcome] for call, part in self.returned.items()}
        return told | dict.fromkeys(self.ran, "run")

    def told(self) -> dict[str, Any]:
        """What the model was told about each call, and what the tools that ran were given."""
        parts = {call: (part.outcome, repr(part.content), repr(part.metadata)) for call, part in self.returned.items()}
        return {"parts": parts, "ran": self.ran}

    def _calls(self) -> Sequence[dict[str, Any]]:
        return [*self.requests.get("approvals", []), *self.requests.get("calls", [])]

    def _respond(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            calls = self._calls()
            return ModelResponse([ToolCallPart(c["tool_name"], c["args"], c["tool_call_id"]) for c in calls])
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart):
                self.returned[part.tool_call_id] = part
        return ModelResponse([TextPart("done")])

    def _tool(self, name: str) -> Tool[None]:
        def run(ctx: RunContext[None], **arguments: Any) -> str:
            call = ctx.tool_call_id or ""
            metadata = self.requests.get("metadata", {}).get(call)
            if any(call == c["tool_call_id"] for c in self.requests.get("calls", [])):
                raise CallDeferred(metadata, kind=self.requests.get("_kinds", {}).get(call, "external"))
            if not ctx.tool_call_approved:
                raise ApprovalRequired(metadata)
            self.ran[call] = (arguments, ctx.tool_call_metadata)
            return "ran"

        return Tool.from_schema(run, name, "", ANY_ARGUMENTS, takes_ctx=True)


def answer_text(case: dict[str, Any]) -> str:
    """The answer of a vector, as JSON text."""
    return case["answer_text"] if "answer_text" in case else json.dumps(case["answer"])


def good_answer(requests: dict[str, Any]) -> str:
    """An answer that decides every call of `requests` as it can be."""
    approvals = {call["tool_call_id"]: True for call in requests.get("approvals", [])}
    calls = {call["tool_call_id"]: "fine" for call in requests.get("calls", [])}
    return json.dumps({"approvals": approvals, "calls": calls})


def refunds(ids: Sequence[str], *capabilities: AbstractCapability[None]) -> Agent[None, str]:
    """An agent that refunds one order in each step, under these call ids, and ends with a JSON list of what it was told."""

    def respond(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        told = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if len(told) == len(ids):
            return ModelResponse([TextPart(json.dumps(told))])
        return ModelResponse([ToolCallPart("issue_refund", {"order": len(told)}, ids[len(told)])])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for part in respond(messages, info).parts:
            if isinstance(part, ToolCallPart):
                yield {0: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    def issue_refund(ctx: RunContext[None], order: int) -> str:
        # `run_stream` ends at a tool that is listed as needing approval, before any capability is asked.
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return f"refunded {order}"

    return Agent(
        FunctionModel(respond, stream_function=stream),
        tools=[Tool(issue_refund)],
        capabilities=list(capabilities),
    )


class Inbox:
    """An `ask` that hands the token to the test, and how often it was called."""

    def __init__(self) -> None:
        self.tokens: asyncio.Queue[str] = asyncio.Queue()
        self.asked = 0

    async def __call__(self, ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        self.asked += 1
        self.tokens.put_nowait(token)

    async def token(self) -> str:
        async with asyncio.timeout(20):
            return await self.tokens.get()


def start(waiter: AbeyanceWaiter, agent: Any, **options: Any) -> asyncio.Task[Any]:
    """Begins a run inside the waiter's scope."""

    async def run() -> Any:
        with external_event_scope(waiter):
            async with asyncio.timeout(30):
                return (await agent.run("go", **options)).output

    return asyncio.create_task(run())


async def marked(client: AbeyanceClient, token: str) -> None:
    """Returns once the wait is known to be asked."""
    wait_id = (await client.describe(token)).wait_id
    async with asyncio.timeout(20):
        async for event in client.watch():
            if event.wait is not None and event.wait.wait_id == wait_id and event.wait.ask_time is not None:
                return


def pages_programs() -> dict[str, str]:
    """The programs of docs/pydantic-ai.md, by the file that each is titled with. Fails for code that has no title."""
    page = (Path(__file__).parents[1] / "docs/pydantic-ai.md").read_text()
    programs = dict(re.findall(r'^```python title="(\w+\.py)"\n(.*?)^```$', page, re.DOTALL | re.MULTILINE))
    assert 2 * len(programs) == page.count("```"), "code without a title would not be run"
    return programs
