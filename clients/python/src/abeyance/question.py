"""What a wait asks, and so what answers it. The broker checks each answer against it before anything is recorded."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import v1
from ._check import json_text as checked_json
from ._check import text
from ._json import NOTHING, encode_json
from .results import Results

__all__ = ["CallKind", "DeferredCalls", "DeferredJson", "Form", "FreeJson", "Question", "ToolCall"]


@dataclass(frozen=True)
class FreeJson:
    """Any JSON, shown to whoever answers. Any JSON answers it."""

    json_text: str
    """The JSON text, kept byte for byte."""

    def __init__(self, value: Any) -> None:
        """Takes a value, which is encoded. For JSON text as it is, use `FreeJson.text`."""
        object.__setattr__(self, "json_text", checked_json("value", encode_json(value)))

    @classmethod
    def text(cls, json_text: str) -> FreeJson:
        """Takes JSON text, which is kept byte for byte."""
        question = cls.__new__(cls)
        object.__setattr__(question, "json_text", checked_json("json_text", json_text))
        return question

    @property
    def value(self) -> Any:
        """The question, decoded from JSON."""
        return json.loads(self.json_text)

    def to_message(self) -> v1.Question:
        """The same as a message of the contract."""
        return v1.Question(free_json=self.json_text)


class CallKind(enum.Enum):
    """What a tool call waits for."""

    OTHER = v1.DeferredToolCall.KIND_UNSPECIFIED
    """Something that this version of the client does not know. Refused where it is sent."""
    APPROVAL = v1.DeferredToolCall.KIND_APPROVAL
    """Somebody's permission to run the tool: decided under `approvals`."""
    EXTERNAL = v1.DeferredToolCall.KIND_EXTERNAL
    """A result that is made elsewhere: decided under `calls`."""
    QUESTION = v1.DeferredToolCall.KIND_QUESTION
    """An answer to a question of the model: decided under `calls`."""


@dataclass(frozen=True)
class ToolCall:
    """One tool call that waits. Its JSON texts are kept byte for byte."""

    tool_call_id: str
    """The call's id: 1 to 256 characters, unique in its wait."""
    tool_name: str
    """The tool: 1 to 256 characters."""
    args_json: str = "null"
    """The arguments that the model gave, as JSON text: an object; a string that holds JSON, as some models write it; or `null`."""
    kind: CallKind = CallKind.APPROVAL
    """What the call waits for."""
    metadata_json: str | None = None
    """What the worker tells about the call beside its arguments: JSON text of an object."""
    description: str = ""
    """What the call would do, for people who decide it: up to 4096 characters. May be empty."""

    def __init__(
        self,
        tool_call_id: str,
        tool_name: str,
        args_json: str | None = None,
        kind: CallKind = CallKind.APPROVAL,
        metadata_json: str | None = None,
        description: str = "",
        *,
        args: Any = NOTHING,
    ) -> None:
        """Takes the arguments as `args`, a value, which is encoded, or as `args_json`, which is kept byte for byte. Default: `null`."""
        if not isinstance(kind, CallKind):
            raise TypeError(f"kind must be a CallKind, not {type(kind).__name__}")
        encoded = _text("args", args, args_json)
        object.__setattr__(self, "tool_call_id", text("tool_call_id", tool_call_id))
        object.__setattr__(self, "tool_name", text("tool_name", tool_name))
        object.__setattr__(self, "args_json", "null" if encoded is None else encoded)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "metadata_json", _text("metadata", NOTHING, metadata_json))
        object.__setattr__(self, "description", text("description", description))


@dataclass(frozen=True)
class DeferredCalls:
    """Tool calls of an agent's run that wait for a decision each. The broker always shows such a question in this form."""

    calls: tuple[ToolCall, ...]
    """The calls: at most 64, each with an id of its own."""
    may_leave_pending: bool = False
    """One answer may leave calls undecided and still settle the wait. Default: an answer decides them all."""

    def __init__(self, calls: Sequence[ToolCall], may_leave_pending: bool = False) -> None:
        for n, call in enumerate(calls):
            if not isinstance(call, ToolCall):
                raise TypeError(f"calls[{n}] must be a ToolCall, not {type(call).__name__}")
        object.__setattr__(self, "calls", tuple(calls))
        object.__setattr__(self, "may_leave_pending", may_leave_pending)

    def approve_all(self) -> Results:
        """The decisions that approve each call that waits for an approval, and say nothing about the others."""
        results = Results()
        for call in self.calls:
            if call.kind is CallKind.APPROVAL:
                results.approve(call.tool_call_id)
        return results

    def deny_all(self, message: str | None = None) -> Results:
        """As `approve_all`, but denies them; `message` is what the model is told."""
        results = Results()
        for call in self.calls:
            if call.kind is CallKind.APPROVAL:
                results.deny(call.tool_call_id, message)
        return results

    def to_message(self) -> v1.Question:
        """The same as a message of the contract."""
        calls = [
            v1.DeferredToolCall(
                tool_call_id=call.tool_call_id,
                tool_name=call.tool_name,
                args_json=call.args_json,
                kind=call.kind.value,
                metadata_json=call.metadata_json or "",
                description=call.description,
            )
            for call in self.calls
        ]
        return v1.Question(deferred=v1.DeferredToolRequests(calls=calls, may_leave_pending=self.may_leave_pending))


@dataclass(frozen=True)
class DeferredJson:
    """Tool calls that wait, as `TypeAdapter(DeferredToolRequests).dump_json` of Pydantic AI writes them. The broker reads it, and never
    sends it."""

    requests_json: str
    """The JSON text."""
    may_leave_pending: bool = False
    """As `DeferredCalls.may_leave_pending`."""

    def __init__(self, requests_json: str | bytes, may_leave_pending: bool = False) -> None:
        """Takes JSON text, also as the bytes that `dump_json` gives."""
        given = requests_json.decode() if isinstance(requests_json, bytes) else requests_json
        object.__setattr__(self, "requests_json", checked_json("requests_json", given))
        object.__setattr__(self, "may_leave_pending", may_leave_pending)

    def to_message(self) -> v1.Question:
        """The same as a message of the contract."""
        requests = v1.DeferredToolRequestsJson(requests_json=self.requests_json, may_leave_pending=self.may_leave_pending)
        return v1.Question(deferred_json=requests)


@dataclass(frozen=True)
class Form:
    """A question whose answer must fit a JSON Schema: what `RequestInput` of Google ADK asks."""

    message: str = ""
    """What is asked, for people: up to 4096 characters. May be empty."""
    payload_json: str | None = field(default=None)
    """What the answer is about, as JSON text."""
    response_schema_json: str | None = field(default=None)
    """The JSON Schema that an answer must fit, as JSON text. Draft 2020-12 unless its `$schema` names an older one. A schema that the
    broker cannot check within bounds opens no wait. `None`: any JSON fits."""

    def __init__(
        self,
        message: str = "",
        payload: Any = NOTHING,
        response_schema: Any = NOTHING,
        *,
        payload_json: str | None = None,
        response_schema_json: str | None = None,
    ) -> None:
        """Takes `payload` and `response_schema` as values, which are encoded, or as JSON text, which is kept byte for byte."""
        object.__setattr__(self, "message", text("message", message))
        object.__setattr__(self, "payload_json", _text("payload", payload, payload_json))
        object.__setattr__(self, "response_schema_json", _text("response_schema", response_schema, response_schema_json))

    def to_message(self) -> v1.Question:
        """The same as a message of the contract."""
        form = v1.Form(
            message=self.message,
            payload_json=self.payload_json or "",
            response_schema_json=self.response_schema_json or "",
        )
        return v1.Question(form=form)


def _text(name: str, value: Any, given: str | None) -> str | None:
    if value is NOTHING:
        return None if given is None else checked_json(f"{name}_json", given)
    if given is not None:
        raise ValueError(f"give {name} or {name}_json, not both")
    return checked_json(name, encode_json(value))


Question: TypeAlias = FreeJson | DeferredCalls | DeferredJson | Form | v1.Question
"""What can be asked. A message of the contract is taken as it is."""


def question_message(question: Question) -> v1.Question:
    """The question as a message of the contract. Raises `TypeError` for a bare value: what kind of question it is, is not guessed."""
    if isinstance(question, v1.Question):
        return question
    if isinstance(question, FreeJson | DeferredCalls | DeferredJson | Form):
        return question.to_message()
    raise TypeError(f"a question is FreeJson, DeferredCalls, DeferredJson, Form or v1.Question, not {type(question).__name__}")


def question_from_message(message: v1.Question) -> Question:
    """The question that a message of the contract holds; the message itself where this version of the client does not know it."""
    kind = message.WhichOneof("kind")
    if kind == "free_json":
        return FreeJson.text(message.free_json)
    if kind == "form":
        form = message.form
        return Form(
            form.message,
            payload_json=form.payload_json or None,
            response_schema_json=form.response_schema_json or None,
        )
    if kind == "deferred":
        return DeferredCalls(
            [
                ToolCall(
                    tool_call_id=call.tool_call_id,
                    tool_name=call.tool_name,
                    # An empty text means null on the wire; here it can be parsed without a look at that.
                    args_json=call.args_json or "null",
                    kind=_kind(call.kind),
                    metadata_json=call.metadata_json or None,
                    description=call.description,
                )
                for call in message.deferred.calls
            ],
            message.deferred.may_leave_pending,
        )
    return message


def _kind(kind: int) -> CallKind:
    try:
        return CallKind(kind)
    except ValueError:
        return CallKind.OTHER
