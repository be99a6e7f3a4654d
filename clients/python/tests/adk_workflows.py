"""Workflows that ask, sessions to run them in, and somebody who answers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.adk.events import Event, EventActions, RequestInput
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.workflow import START, BaseNode, JoinNode, Workflow, node
from google.genai import types

from abeyance.adk import InputWaits, PendingInput
from abeyance.external import Ticket

APP = "app"
USER = "alice"
SESSION = "s"


def asker(interrupt_id: str, **request: Any) -> BaseNode:
    """A node that asks once, and whose output is the answer."""

    @node(name=f"ask_{interrupt_id}")
    def ask() -> Any:
        yield RequestInput(interrupt_id=interrupt_id, **request)

    return ask


class Seen:
    """A node that keeps what it is given, and gives it on."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def node(self, name: str = "seen") -> BaseNode:
        @node(name=name)
        def seen(node_input: Any) -> Event:
            self.values.append(node_input)
            return Event(output=node_input)

        return seen


def one_question(seen: Seen, **request: Any) -> Workflow:
    """Asks `q`."""
    return Workflow(name="one", edges=[(START, asker("q", **request), seen.node())])


def questions_at_once(seen: Seen, interrupt_ids: Sequence[str]) -> Workflow:
    """Asks all of these at once; what is seen is the answers by node."""
    join = JoinNode(name="join")
    edges: list[Any] = []
    for interrupt_id in interrupt_ids:
        ask = asker(interrupt_id)
        edges += [(START, ask), (ask, join)]
    return Workflow(name="many", edges=[*edges, (join, seen.node())])


def loop(seen: Seen) -> Workflow:
    """Asks `q` until the answer is "yes"."""

    @node(name="judge")
    def judge(node_input: Any) -> Event:
        seen.values.append(node_input)
        return Event(output=node_input, actions=EventActions(route="done" if node_input == "yes" else "again"))

    @node(name="done")
    def done(node_input: Any) -> Event:
        return Event(output=f"done: {node_input}")

    ask = asker("q")
    return Workflow(name="loop", edges=[(START, ask, judge), (judge, {"again": ask, "done": done})])


def x_and_y_and_then_x() -> Workflow:
    """Asks `x` and `y` at once in its first invocation and, when one is answered, what is left; `x` alone in later ones."""
    first: set[str] = set()

    @node(name="two", rerun_on_resume=True)
    def two(ctx: Any) -> Any:
        if not first:
            first.add(ctx.invocation_id)
        wanted = ("x", "y") if ctx.invocation_id in first else ("x",)
        for interrupt_id in wanted:
            if interrupt_id not in ctx.resume_inputs:
                yield RequestInput(interrupt_id=interrupt_id)
        if set(wanted) == set(ctx.resume_inputs):
            yield Event(output=dict(ctx.resume_inputs))

    return Workflow(name="again", edges=[(START, two)])


async def runner(workflow: Any, sessions: BaseSessionService | None = None, *, users: Sequence[str] = (USER,)) -> Runner:
    """A runner with a session of each user."""
    sessions = sessions or InMemorySessionService()
    for user in users:
        await sessions.create_session(app_name=APP, user_id=user, session_id=SESSION)
    return Runner(app_name=APP, node=workflow, session_service=sessions)


def sqlite(directory: Path) -> SqliteSessionService:
    """Sessions that outlive the process."""
    return SqliteSessionService(str(directory / "sessions.db"))


def text(message: str) -> types.Content:
    """A message of the user."""
    return types.Content(role="user", parts=[types.Part(text=message)])


async def begin(run: Runner, user: str = USER) -> None:
    """Runs a session with a message, and waits for nothing."""
    async for _ in run.run_async(user_id=user, session_id=SESSION, new_message=text("go")):
        pass


async def session(run: Runner, user: str = USER) -> Session:
    """The session as it is kept."""
    found = await run.session_service.get_session(app_name=APP, user_id=user, session_id=SESSION)
    assert found is not None
    return found


async def responses(run: Runner, user: str = USER) -> list[dict[str, Any]]:
    """The answers in the session: of each message with any, the response by interrupt id."""
    events = (await session(run, user)).events
    told = [{each.id or "": each.response for each in event.get_function_responses()} for event in events]
    return [message for message in told if message]


async def finish(waits: InputWaits, *, start: bool = False, user: str = USER) -> list[Event]:
    """Runs a session until it waits for nothing, and returns the events."""
    message = text("go") if start else None
    return [event async for event in waits.run_async(user_id=user, session_id=SESSION, new_message=message)]


def output(events: list[Event]) -> Any:
    """The last output among events."""
    return [event.output for event in events if event.output is not None][-1]


class Person:
    """Is asked, and holds the tokens."""

    def __init__(self) -> None:
        self.asked: list[PendingInput] = []
        self.was_asked = asyncio.Event()
        self._tickets: dict[tuple[str, str], asyncio.Queue[Ticket]] = defaultdict(asyncio.Queue)

    def ask(self, ticket: Ticket, pending: PendingInput) -> None:
        """The ask."""
        self.asked.append(pending)
        self._tickets[pending.user_id, pending.interrupt_id].put_nowait(ticket)
        self.was_asked.set()

    async def token(self, interrupt_id: str = "q", user: str = USER) -> str:
        """The next token for this interrupt, once there is one."""
        return (await asyncio.wait_for(self._tickets[user, interrupt_id].get(), 30)).token
