"""Answers reach a real workflow as they were given, and nothing reaches it that ADK cannot read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService
from google.genai import types

from abeyance.adk import PendingInput, answers, function_response, pending_inputs

from . import adk_workflows as adk

VALUES: list[Any] = [
    *("5", "", "null", '"quoted"', "{}", "five", "🙂\n"),
    *(None, True, False, 0, 5, 9007199254740993, 1.5, 1.0),
    *([], ["5", 5, None], [{"result": 1}]),
    *({}, {"days": 3}, {"result": 3}, {"result": "5"}, {"result": {"result": None}}, {"result": 1, "other": "2"}),
]


@pytest.mark.parametrize("kept", ["memory", "sqlite"])
async def test_a_workflow_gets_what_was_answered(kept: str, tmp_path: Path) -> None:
    for number, value in enumerate(VALUES):
        seen = adk.Seen()
        place = tmp_path / str(number)
        place.mkdir()
        run = await adk.runner(adk.one_question(seen), adk.sqlite(place) if kept == "sqlite" else InMemorySessionService())
        await adk.begin(run)
        (waiting,) = pending_inputs(await adk.session(run))
        message = types.Content(role="user", parts=[function_response(waiting, value)])
        async for _ in run.run_async(user_id=adk.USER, session_id=adk.SESSION, new_message=message):
            pass
        assert [(type(got), got) for got in seen.values] == [(type(value), value)]


def asked(schema: Any) -> PendingInput:
    return PendingInput("a", "u", "s", "i", "q", 0, response_schema=schema)


def test_this_version_of_adk_lets_answers_be_rehearsed() -> None:
    assert answers.adk_reader is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"a": True}},
    ],
)
def test_a_schema_with_which_adk_fails_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="'q'"):
        answers.refuse_unreadable_schema(asked(schema))


@pytest.mark.parametrize("schema", [None, {}, {"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}])
def test_other_schemas_are_not(schema: Any) -> None:
    answers.refuse_unreadable_schema(asked(schema))


def test_an_answer_with_which_adk_fails_is_refused() -> None:
    # It fits: a whole number, as JSON Schema sees it.
    answers.refuse_misfit(asked({"type": "integer"}), 1e20)
    with pytest.raises(ValueError, match="not sent to the session"):
        answers.refuse_unreadable(asked({"type": "integer"}), 1e20)
    answers.refuse_unreadable(asked({"type": "integer"}), 10**20)
