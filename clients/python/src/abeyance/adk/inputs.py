"""What a session's events leave open."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
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
    withdrawn: int = 0
    """How often this very question was out of reach before, so that its wait was cancelled: a later invocation asked under the same id,
    and this one then asked again."""
    message: str | None = field(default=None, compare=False)
    """What is asked, for people."""
    payload: Any = field(default=None, repr=False, compare=False)
    """What the answer is about, as a JSON value. None for the calls of a model's `request_input` tool."""
    response_schema: Any = field(default=None, repr=False, compare=False)
    """The JSON Schema that an answer must fit. None: any JSON."""

    @property
    def key(self) -> str:
        """The key of the input's wait: the same each time it is computed from the session's events, in any process."""
        parts: tuple[str, ...] = (self.app_name, self.user_id, self.session_id, self.invocation_id, self.interrupt_id, str(self.answers))
        if self.withdrawn:
            parts = (*parts, str(self.withdrawn))
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
    return list(_walk(session).pending.values())


def abandoned_inputs(session: Session) -> list[PendingInput]:
    """The inputs that were asked for and can never be answered: their invocation was rewound or aborted, or a later
    one asked under the same id, and ADK gives an answer to the last invocation that did."""
    return _walk(session).abandoned


@dataclass
class _Walk:
    """What a session's events come to, taken one after the other."""

    session: Session
    pending: dict[str, PendingInput] = field(default_factory=dict)
    """By interrupt id."""
    abandoned: list[PendingInput] = field(default_factory=list)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By invocation and interrupt id."""
    withdrawn: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """By invocation, interrupt id and the answers before."""
    live: list[Event] = field(default_factory=list)
    """The events that were not rewound."""

    def take(self, event: Event) -> None:
        target = event.actions.rewind_before_invocation_id if event.actions else None
        if target:
            self._rewind(target)
            return
        self.live.append(event)
        aborted = event.error_code == _ABORTED
        if event.author == "user" or aborted:
            for response in event.get_function_responses():
                self._close(response.id or "", aborted)
        for call in event.get_function_calls():
            if call.name == REQUEST_INPUT and call.id:
                self._ask(event, call, call.id)

    def _close(self, interrupt_id: str, aborted: bool) -> None:
        closed = self.pending.pop(interrupt_id, None)
        if closed and aborted:
            self._abandon(closed)
        elif closed:
            self.answers[closed.invocation_id, closed.interrupt_id] += 1

    def _ask(self, event: Event, call: types.FunctionCall, interrupt_id: str) -> None:
        open_already = self.pending.get(interrupt_id)
        if open_already and open_already.invocation_id == event.invocation_id:
            # A node that ran again asks what is still open in a new event. The first one counts, so that the
            # wait's question stays what it was.
            return
        if open_already:
            self._abandon(self.pending.pop(interrupt_id))
        asked = _input(self.session, event, call, self.answers[event.invocation_id, interrupt_id])
        self.pending[interrupt_id] = self._counted(asked)

    def _rewind(self, invocation_id: str) -> None:
        first = next((i for i, event in enumerate(self.live) if event.invocation_id == invocation_id), len(self.live))
        del self.live[first:]
        again = _Walk(self.session)
        for event in self.live:
            again.take(event)
        for each in self.pending.values():
            now = again.pending.get(each.interrupt_id)
            if now is None or _place(now) != _place(each):
                self._abandon(each)
        # What was out of reach may be open once more.
        self.pending = {each.interrupt_id: self._counted(each) for each in again.pending.values()}
        self.answers = again.answers

    def _abandon(self, gone: PendingInput) -> None:
        self.abandoned.append(gone)
        self.withdrawn[_place(gone)] += 1

    def _counted(self, asked: PendingInput) -> PendingInput:
        return replace(asked, withdrawn=self.withdrawn[_place(asked)])


def _place(asked: PendingInput) -> tuple[str, str, int]:
    return asked.invocation_id, asked.interrupt_id, asked.answers


def _walk(session: Session) -> _Walk:
    walk = _Walk(session)
    for event in session.events:
        walk.take(event)
    return walk


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
