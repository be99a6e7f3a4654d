"""What the broker takes, a run can use; what it refuses would have failed one, or was told the model as something it is not.

Each vector is answered through the broker to a run of the real Pydantic AI, and to the same run without Abeyance.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic_ai import RunContext
from pydantic_ai.agent import AgentRunResult
from pydantic_ai.capabilities import RequestInput as LibraryRequestInput
from pydantic_ai.external_events import external_event_scope, resolve_external_event
from pydantic_ai.messages import DeferredToolResultsEvent
from pydantic_ai.tools import DeferredToolRequests

from abeyance import AbeyanceClient, Refused, State
from abeyance.pydantic_ai import AbeyanceWaiter, RequestInput

from .broker import Broker
from .pydantic_agents import REQUESTS, RESULTS, Step, answer_text, good_answer

DATA = Path(__file__).resolve().parents[3] / "tests/data"
VECTORS = json.loads((DATA / "deferred_tool_results.json").read_text())
# A run never waits with nothing pending.
CASES = {case["id"]: case for case in VECTORS["cases"] if case["requests"]["calls"] or case["requests"]["approvals"]}
DENIALS = {
    denial["id"]: denial
    for denial in VECTORS["denials"]
    if (denial["requests"]["calls"] or denial["requests"]["approvals"]) and denial.get("timeout_micros", 0) < 1_000_000
}
TIMEOUTS = [text for text in VECTORS["timeout_texts"] if text["timeout_micros"] < 1_000_000]

in_one_loop = pytest.mark.asyncio(loop_scope="module")


def stricter() -> set[str]:
    """The cases that Abeyance refuses by design: the table of the vectors' own page."""
    section = (DATA / "README.md").read_text().split("## Where Abeyance is stricter")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


STRICTER = stricter()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("broker")).start()
    yield broker
    broker.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(broker: Broker) -> AsyncIterator[AbeyanceClient]:
    async with AbeyanceClient(broker.target) as client:
        yield client


class Asked:
    """A run that waits in the broker, and its token."""

    def __init__(self, client: AbeyanceClient, step: Step, *, timeout: timedelta | None = None, partial: bool = False) -> None:
        self.token: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.results: Any = None
        agent = step.agent(RequestInput(self._ask, timeout=timeout), may_leave_pending=partial)

        async def run() -> AgentRunResult[Any]:
            with external_event_scope(AbeyanceWaiter(client)):
                async with agent.iter("go") as run, asyncio.timeout(30):
                    async for node in run:
                        if agent.is_call_tools_node(node):
                            async with node.stream(run.ctx) as events:
                                async for event in events:
                                    if isinstance(event, DeferredToolResultsEvent):
                                        self.results = RESULTS.dump_python(event.results, mode="json")
                    assert run.result is not None
                    return run.result

        self.run = asyncio.create_task(run())

    async def _ask(self, ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        self.requests = REQUESTS.dump_python(requests, mode="json")
        self.token.set_result(token)


def test_the_table_names_cases_that_exist() -> None:
    assert STRICTER, "the table was not found"
    assert {case["id"] for case in VECTORS["cases"]} >= STRICTER


@in_one_loop
@pytest.mark.parametrize("name", CASES)
async def test_case(client: AbeyanceClient, name: str) -> None:
    case = CASES[name]
    step = Step(case["requests"])
    asked = Asked(client, step, partial=case["allow_partial"])
    token = await asked.token
    assert asked.requests == case["requests"]

    taken = await _takes(client, token, answer_text(case))
    assert taken == (case["expect"] == "ok" and name not in STRICTER)
    if not taken:
        # The wait is as it was, and the run goes on with a better answer.
        assert await _takes(client, token, good_answer(case["requests"]))
    result = await asked.run

    if not taken:
        assert result.output == "done"
        assert set(step.effects().values()) <= {"run", "value"}
        assert set(step.effects()) == {call["tool_call_id"] for call in (*case["requests"]["calls"], *case["requests"]["approvals"])}
        return
    theirs = Step(case["requests"])
    expected = await _without_abeyance(theirs, case)
    assert result.output == expected.output
    assert step.told() == theirs.told()
    if case["remaining"] is None:
        assert step.effects() == case["effects"]
    else:
        assert REQUESTS.dump_python(result.output, mode="json") == case["remaining"]


@in_one_loop
@pytest.mark.parametrize("name", DENIALS)
async def test_denial(client: AbeyanceClient, name: str) -> None:
    denial = DENIALS[name]
    micros = denial.get("timeout_micros")
    step = Step(denial["requests"])
    asked = Asked(client, step, timeout=None if micros is None else timedelta(microseconds=micros))
    if micros is None:
        await client.fail(await asked.token, denial["reason"])
    assert (await asked.run).output == "done"
    assert asked.results == denial["results"]


@in_one_loop
@pytest.mark.parametrize("text", TIMEOUTS, ids=lambda text: str(text["timeout_micros"]))
async def test_timeout(client: AbeyanceClient, text: dict[str, Any]) -> None:
    step = Step(DENIALS["fail-plain"]["requests"])
    asked = Asked(client, step, timeout=timedelta(microseconds=text["timeout_micros"]))
    assert (await asked.run).output == "done"
    [told] = step.returned.values()
    assert told.outcome == "denied"
    assert told.content == f"No decision on this tool call arrived: {text['reason']}"


async def _takes(client: AbeyanceClient, token: str, answer: str) -> bool:
    """Whether the broker takes an answer. One that it refuses leaves the wait pending."""
    try:
        await client.resolve(token, payload_json=answer)
    except Refused as refused:
        reason = refused.reason
    else:
        return True
    assert reason in ("INVALID_ANSWER", "INVALID_JSON")
    assert (await client.describe(token)).state is State.PENDING
    return False


async def _without_abeyance(step: Step, case: dict[str, Any]) -> AgentRunResult[Any]:
    """The same run as the library alone makes it."""
    loop = asyncio.get_running_loop()

    async def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> None:
        loop.call_soon(resolve_external_event, token, json.loads(answer_text(case)))

    agent = step.agent(LibraryRequestInput(ask), may_leave_pending=case["allow_partial"])
    return await agent.run("go")
