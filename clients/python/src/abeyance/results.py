"""Decisions on tool calls: an answer to `DeferredCalls`."""

from __future__ import annotations

from typing import Any

from . import v1
from ._check import json_text, text
from ._json import encode_json

__all__ = ["Results"]


class Results:
    """Builds decisions on tool calls. Each method returns the same object, so that they can be chained.

        Results().approve("call_1").deny("call_2", "Over the limit.").value("call_3", {"status": "shipped"})

    Values are encoded as JSON; where the text of the JSON matters, fill `message` itself. The last word on a call counts. A step that
    raises `TypeError` or `ValueError`, for what JSON does not have, changes nothing.
    """

    def __init__(self) -> None:
        self.message = v1.DeferredToolResults()
        """The message of the contract that is built."""

    def __repr__(self) -> str:
        return f"Results({sorted({*self.message.approvals, *self.message.calls})})"

    def approve(self, tool_call_id: str, override_args: dict[str, Any] | None = None) -> Results:
        """Lets the tool run: with the model's arguments, or with `override_args` instead."""
        args = "" if override_args is None else json_text("override_args", encode_json(override_args))
        return self._approval(tool_call_id, v1.ToolApproval(approved=v1.ToolApproved(override_args_json=args)))

    def deny(self, tool_call_id: str, message: str | None = None) -> Results:
        """Keeps the tool from running; `message` is what the model is told, by default `The tool call was denied.`"""
        told = None if message is None else text("message", message)
        return self._approval(tool_call_id, v1.ToolApproval(denied=v1.ToolDenied(message=told)))

    def value(self, tool_call_id: str, value: Any) -> Results:
        """The value that an external call returned, or the answer to a question. Always data, whatever it looks like."""
        return self._call(tool_call_id, v1.ToolCallResult(return_value_json=json_text("value", encode_json(value))))

    def failed(self, tool_call_id: str, message: str) -> Results:
        """The external call failed; `message` is what the model is told."""
        return self._call(tool_call_id, v1.ToolCallResult(failed=v1.ToolFailed(message=text("message", message))))

    def retry(self, tool_call_id: str, message: str) -> Results:
        """The external call cannot be made so, and the model is to try again; `message` is what it is told."""
        return self._call(tool_call_id, v1.ToolCallResult(retry=v1.ModelRetry(message=text("message", message))))

    def metadata(self, tool_call_id: str, metadata: dict[str, Any]) -> Results:
        """Tells the tool something about a call."""
        encoded = json_text("metadata", encode_json(metadata))
        self.message.metadata_json[text("tool_call_id", tool_call_id)] = encoded
        return self

    def answered_by(self, tool_call_id: str, who: str) -> Results:
        """Says who decided a call: up to 256 characters."""
        said = text("who", who)
        self.message.answered_by[text("tool_call_id", tool_call_id)] = said
        return self

    # What is said is made before the call gets its place: a step that is refused leaves nothing behind.

    def _approval(self, tool_call_id: str, decision: v1.ToolApproval) -> Results:
        self.message.approvals[text("tool_call_id", tool_call_id)].CopyFrom(decision)
        return self

    def _call(self, tool_call_id: str, result: v1.ToolCallResult) -> Results:
        self.message.calls[text("tool_call_id", tool_call_id)].CopyFrom(result)
        return self


def results_message(results: Results | v1.DeferredToolResults) -> v1.DeferredToolResults:
    """Decisions as a message of the contract."""
    if isinstance(results, Results):
        return results.message
    if isinstance(results, v1.DeferredToolResults):
        return results
    raise TypeError(f"results must be Results or v1.DeferredToolResults, not {type(results).__name__}")


def forget(message: v1.DeferredToolResults, tool_call_id: str) -> bool:
    """Takes out all that is said about a call, and says whether it was decided."""
    decided = tool_call_id in message.approvals or tool_call_id in message.calls
    for said in (message.approvals, message.calls, message.metadata_json, message.answered_by):
        if tool_call_id in said:
            del said[tool_call_id]
    return decided
