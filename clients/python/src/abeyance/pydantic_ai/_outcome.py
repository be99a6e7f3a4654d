"""What a run is told of a wait's end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic_ai.external_events import ExternalEventError

if TYPE_CHECKING:
    from abeyance import Outcome


def payload(outcome: Outcome) -> Any:
    """The JSON value that the run goes on with.

    For tool calls the JSON form of `DeferredToolResults`: of an answered wait, and also of one that failed, expired or was cancelled
    once some calls were decided. There the broker has denied the others.

    Raises:
        ExternalEventError: The wait ended and nothing was decided. Its text is the reason.
        ProtocolError: The wait is resolved, and its outcome carries no answer.
    """
    # Answered: also if the answer leaves every call pending.
    if outcome.state.name == "RESOLVED":
        return outcome.value
    results = None if outcome.results_json is None else json.loads(outcome.results_json)
    reason = outcome.reason or ""
    if results is not None and _anything_decided(results, reason):
        return results
    raise ExternalEventError(reason)


def _anything_decided(results: dict[str, Any], reason: str) -> bool:
    """Whether a wait's results hold anything beside the denials that the broker makes for `reason`."""
    message = f"No decision on this tool call arrived: {reason}"
    made = {
        "approvals": {"kind": "tool-denied", "message": message},
        "calls": {"kind": "tool-failed", "message": message},
    }
    return (
        any(entry != denial for section, denial in made.items() for entry in results[section].values())
        or bool(results["metadata"])
        or bool(results["answered_by"])
    )
