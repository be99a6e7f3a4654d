"""Decisions on tool calls: an answer to `DeferredCalls`."""

from __future__ import annotations

from typing import Any

from . import v1
from ._json import encode_json

__all__ = ["Results"]


class Results:
    """Builds decisions on tool calls. Each method returns the same object, so that they can be chained.

        Results().approve("call_1").deny("call_2", "Over the limit.").value("call_3", {"status": "shipped"})

    Values are encoded as JSON; where the text of the JSON matters, fill `message` itself. The last word on a call counts.
    """

    def __init__(self) -> None:
        self.message = v1.DeferredToolResults()
        """The message of the contract that is built."""

    def __repr__(self) -> str:
        return f"Results({sorted({*self.message.approvals, *self.message.calls})})"

    def approve(self, tool_call_id: str, override_args: dict[str, Any] | None = None) -> Results:
        """Lets the tool run: with the model's arguments, or with `override_args` instead."""
        approved = v1.ToolApproved(override_args_json="" if override_args is None else encode_json(override_args))
        self.message.approvals[tool_call_id].CopyFrom(v1.ToolApproval(approved=approved))
        return self

    def deny(self, tool_call_id: str, message: str | None = None) -> Results:
        """Keeps the tool from running; `message` is what the model is told, by default `The tool call was denied.`"""
        self.message.approvals[tool_call_id].CopyFrom(v1.ToolApproval(denied=v1.ToolDenied(message=message)))
        return self

    def value(self, tool_call_id: str, value: Any) -> Results:
        """The value that an external call returned, or the answer to a question. Always data, whatever it looks like."""
        self.message.calls[tool_call_id].CopyFrom(v1.ToolCallResult(return_value_json=encode_json(value)))
        return self

    def failed(self, tool_call_id: str, message: str) -> Results:
        """The external call failed; `message` is what the model is told."""
        self.message.calls[tool_call_id].CopyFrom(v1.ToolCallResult(failed=v1.ToolFailed(message=message)))
        return self

    def retry(self, tool_call_id: str, message: str) -> Results:
        """The external call cannot be made so, and the model is to try again; `message` is what it is told."""
        self.message.calls[tool_call_id].CopyFrom(v1.ToolCallResult(retry=v1.ModelRetry(message=message)))
        return self

    def metadata(self, tool_call_id: str, metadata: dict[str, Any]) -> Results:
        """Tells the tool something about a call."""
        self.message.metadata_json[tool_call_id] = encode_json(metadata)
        return self

    def answered_by(self, tool_call_id: str, who: str) -> Results:
        """Says who decided a call: up to 256 characters."""
        self.message.answered_by[tool_call_id] = who
        return self


def forget(message: v1.DeferredToolResults, tool_call_id: str) -> bool:
    """Takes out all that is said about a call, and says whether it was decided."""
    decided = tool_call_id in message.approvals or tool_call_id in message.calls
    for said in (message.approvals, message.calls, message.metadata_json, message.answered_by):
        if tool_call_id in said:
            del said[tool_call_id]
    return decided
