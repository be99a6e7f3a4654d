"""How an answer reaches a workflow as it was given."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from google.genai import types

from .inputs import REQUEST_INPUT, PendingInput

try:
    # ADK reads a response once more when it resumes, in its own way, and what it cannot read there ends the invocation
    # for good. It has no public way to try that beforehand.
    from google.adk.workflow.utils._rehydration_utils import _validate_resume_response as adk_reader
except ImportError:  # pragma: no cover - a later ADK: what fits the schema is then sent without a rehearsal.
    adk_reader = None  # type: ignore[assignment]

__all__ = ["function_response"]


def function_response(pending: PendingInput, answer: Any) -> types.Part:
    """The part of a message that answers `pending` with `answer`, a JSON value.

    ADK takes the value out of `{"result": ...}` and parses it if it is text, and takes any other object as it is. So text
    is encoded here, or "5" would reach the workflow as a number; and an object that is itself `{"result": ...}` is wrapped
    once more.
    """
    if isinstance(answer, str):
        response = {"result": json.dumps(answer)}
    elif isinstance(answer, dict) and set(answer) != {"result"}:
        response = answer
    else:
        response = {"result": answer}
    return types.Part(function_response=types.FunctionResponse(id=pending.interrupt_id, name=REQUEST_INPUT, response=response))


def refuse_unreadable_schema(pending: PendingInput) -> None:
    """Raises `ValueError` if ADK cannot read any answer to a question with this schema, before anybody is asked."""
    try:
        _rehearse(pending, None)
    except ValueError:
        # This very answer does not fit, which is as good as any other news about the schema.
        return
    except Exception as error:
        raise ValueError(f"ADK cannot read an answer to {pending.interrupt_id!r}: its response schema makes ADK fail ({error})") from error


def refuse_unreadable(pending: PendingInput, answer: Any) -> None:
    """Raises `ValueError` if ADK would fail on `answer`, though it fits the schema: a whole number written as 1e20, say."""
    try:
        _rehearse(pending, answer)
    except Exception as error:
        raise ValueError(f"ADK cannot read the answer to {pending.interrupt_id!r}, so it was not sent to the session: {error}") from error


def refuse_misfit(pending: PendingInput, answer: Any) -> None:
    """Raises `ValueError` if `answer`, which no broker has checked, does not fit the response schema."""
    if pending.response_schema is None:
        return
    try:
        jsonschema.validate(answer, pending.response_schema)
    except jsonschema.ValidationError as error:
        raise ValueError(
            f"the value chosen for the unanswered {pending.interrupt_id!r} does not fit its schema: {error.message}"
        ) from error


def _rehearse(pending: PendingInput, answer: Any) -> None:
    # ADK asks `if schema`, so an empty one is none.
    if adk_reader is not None and pending.response_schema:
        adk_reader(answer, pending.response_schema)
