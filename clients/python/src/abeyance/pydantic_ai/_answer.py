"""An answer that a run's own `ask` gives."""

from __future__ import annotations

from typing import Any

from pydantic_ai.exceptions import UserError

from abeyance import Refused, Ticket

_SECTIONS = ("approvals", "calls", "metadata", "answered_by")


async def record(ticket: Ticket, answer: Any) -> None:
    """Records a JSON value as the answer, like anybody else's. If somebody was faster, theirs counts.

    Raises:
        UserError: The broker refuses it, for example since it does not fit the calls.
    """
    while True:
        try:
            await ticket.client.resolve(ticket.token, answer)
            return
        except Refused as refused:
            if refused.reason == "ALREADY_SETTLED":
                return
            # Somebody was faster with one call: the answer is still needed for the others. Each turn takes one call out.
            if refused.reason == "ALREADY_DECIDED" and _forget(answer, refused.metadata.get("tool_call_id", "")):
                continue
            raise UserError(f"The answer that `ask` returned is refused: {refused}") from refused
        except ValueError as error:
            raise UserError(f"The answer that `ask` returned has no JSON form: {error}") from error


def _forget(answer: Any, tool_call_id: str) -> bool:
    """Takes out all that an answer says about a call, and says whether it decided that call."""
    decided = tool_call_id in answer.get("approvals", {}) or tool_call_id in answer.get("calls", {})
    for section in _SECTIONS:
        answer.get(section, {}).pop(tool_call_id, None)
    return decided
