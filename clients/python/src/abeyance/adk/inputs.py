"""What a session's events leave open."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types
from pydantic_core import to_jsonable_python

from ..question import Form

__all__ = ["PendingInput", "pending_inputs"]

REQUEST_INPUT = "adk_request_input"
"""The name of the function call with which ADK asks for input."""

# ADK's mark on the events with which it closes the calls of an invocation that was aborted.
_ABORTED = "INVOCATION_ABORTED"
# The contract's bounds.
_MESSAGE_CHARACTERS = 4096
_KEY_CHARACTERS = 512


@dataclass(frozen=True)
class PendingInput:
    """An input that a workflow asked for and that the session has no answer to. Two are equal if their ids are."""

    app_name: str
    """The app of the session."""
    user_id: str
    """The user of the session. Session ids need not be unique beyond their user."""
    session_id: str
    """The session."""
    invocation_id: str
    """The invocation that asked."""
    interrupt_id: str
    """The id of the call, which its answer names."""
    answers: int
    """How many answers this id has in this invocation already: a loop may ask again under one id."""
    message: str | None = field(default=None, compare=False)
    """What is asked, for people."""
    payload: Any = field(default=None, repr=False, compare=False)
    """What the answer is about, as a JSON value. None for the calls of a model's `request_input` tool."""
    response_schema: Any = field(default=None, repr=False, compare=False)
    """The JSON Schema that an answer must fit. None: any JSON."""

    @property
    def key(self) -> str:
        """The key of the input's wait: the same each time it is computed from the session's events, in any process."""
        parts = (self.app_name, self.user_id, self.session_id, self.invocation_id, self.interrupt_id, str(self.answers))
        # Quoted, so that no two inputs share a key whatever characters their ids have.
        key = "adk/" + "/".join(quote(part, safe="") for part in parts)
        if len(key) > _KEY_CHARACTERS:
            return "adk/sha256/" + hashlib.sha256(key.encode()).hexdigest()
        return key

    def form(self) -> Form:
        """The question of the input's wait. A message above 4096 characters is cut there."""
        message = self.message or ""
        if len(message) > _MESSAGE_CHARACTERS:
            message = message[: _MESSAGE_CHARACTERS - 1] + "…"
        given = {"payload": self.payload, "response_schema": self.response_schema}
        return Form(message, **{name: value for name, value in given.items() if value is not None})


def pending_inputs(session: Session) -> list[PendingInput]:
    """The inputs that `session` waits for, in the order in which they were asked."""
    return list(_walk(session, _live(session.events))[0].values())


def abandoned_inputs(session: Session) -> list[PendingInput]:
    """The inputs that were asked for and can never be answered: their invocation was rewound or aborted, or a later
    one asked under the same id, and ADK gives an answer to the last invocation that did."""
    waiting = {pending.key for pending in pending_inputs(session)}
    pending, abandoned = _walk(session, session.events)
    return [gone for gone in (*abandoned, *pending.values()) if gone.key not in waiting]


def _walk(session: Session, events: Iterable[Event]) -> tuple[dict[str, PendingInput], list[PendingInput]]:
    """The pending inputs by id, and those that will never be answered."""
    pending: dict[str, PendingInput] = {}
    abandoned: list[PendingInput] = []
    answers: Counter[tuple[str, str]] = Counter()
    for event in events:
        aborted = event.error_code == _ABORTED
        if event.author == "user" or aborted:
            for response in event.get_function_responses():
                closed = pending.pop(response.id or "", None)
                if closed and aborted:
                    abandoned.append(closed)
                elif closed:
                    answers[closed.invocation_id, closed.interrupt_id] += 1
        for call in event.get_function_calls():
            if call.name != REQUEST_INPUT or not call.id:
                continue
            open_already = pending.get(call.id)
            if open_already and open_already.invocation_id == event.invocation_id:
                # A node that ran again asks what is still open in a new event. The first one counts, so that the
                # wait's question stays what it was.
                continue
            if open_already:
                abandoned.append(pending.pop(call.id))
            pending[call.id] = _input(session, event, call, answers[event.invocation_id, call.id])
    return pending, abandoned


def _input(session: Session, event: Event, call: types.FunctionCall, answers: int) -> PendingInput:
    args = call.args or {}
    message = args.get("message")
    return PendingInput(
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        invocation_id=event.invocation_id,
        interrupt_id=call.id or "",
        answers=answers,
        message=None if message is None else str(message),
        # A session service that keeps events in memory keeps dates and the like as they are.
        payload=to_jsonable_python(args.get("payload")),
        response_schema=to_jsonable_python(args.get("response_schema")),
    )


def _live(events: Iterable[Event]) -> list[Event]:
    """The events without those that were rewound."""
    live: list[Event] = []
    for event in events:
        target = event.actions.rewind_before_invocation_id if event.actions else None
        if not target:
            live.append(event)
            continue
        first = next((i for i, earlier in enumerate(live) if earlier.invocation_id == target), len(live))
        del live[first:]
    return live
