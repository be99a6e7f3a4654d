"""Arguments that can never be sent are refused by their names, before anything is sent."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from abeyance import AbeyanceClient, Answered, DeferredCalls, DeferredJson, Form, FreeJson, Results, SyncAbeyanceClient, ToolCall, Wait, v1
from abeyance._check import duration

NOWHERE = AbeyanceClient("127.0.0.1:1")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: ToolCall("a", "t", {"x": 1}), "args_json must be JSON text (a str), not dict"),  # type: ignore[arg-type]
        (lambda: ToolCall("a", "t", metadata_json={}), "metadata_json must be JSON text (a str), not dict"),  # type: ignore[arg-type]
        (lambda: ToolCall(5, "t"), "tool_call_id must be a str, not int"),  # type: ignore[arg-type]
        (lambda: ToolCall("a", "t", kind="approval"), "kind must be a CallKind, not str"),  # type: ignore[arg-type]
        (lambda: DeferredCalls([{"tool_call_id": "a"}]), "calls[0] must be a ToolCall, not dict"),  # type: ignore[list-item]
        (lambda: DeferredJson({}), "requests_json must be JSON text (a str), not dict"),  # type: ignore[arg-type]
        (lambda: FreeJson.text({}), "json_text must be JSON text (a str), not dict"),  # type: ignore[arg-type]
        (lambda: Form(5), "message must be a str, not int"),  # type: ignore[arg-type]
        (lambda: Form("", payload_json=[1]), "payload_json must be JSON text (a str), not list"),  # type: ignore[arg-type]
        (lambda: Answered(payload_json={}), "payload_json must be JSON text (a str), not dict"),  # type: ignore[arg-type]
        (lambda: Answered(results={}), "results must be Results or v1.DeferredToolResults, not dict"),  # type: ignore[arg-type]
    ],
)
def test_what_is_built(build: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        build()
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"name": 5}, TypeError, "name must be a str, not int"),
        ({"key": 5}, TypeError, "key must be a str, not int"),
        ({"key": ""}, ValueError, "key must not be empty; leave it out for a wait without one"),
        ({"labels": {"team": 3}}, TypeError, "labels['team'] must be a str, not int"),
        ({"labels": {3: "team"}}, TypeError, "the key 3 of labels must be a str, not int"),
        ({"labels": ["team"]}, TypeError, "labels must map str to str, and is list"),
        ({"timeout": "5m"}, TypeError, "timeout must be a timedelta or a number of seconds, not str ('5m')"),
        ({"timeout": True}, TypeError, "timeout must be a timedelta or a number of seconds, not bool (True)"),
        ({"timeout": -1}, ValueError, "timeout must not be negative, and is -1"),
        ({"timeout": timedelta(days=-1)}, ValueError, "timeout must not be negative, and is datetime.timedelta(days=-1)"),
        ({"timeout": float("nan")}, ValueError, "timeout must be a length of time, and is nan"),
        ({"heartbeat_timeout": float("inf")}, ValueError, "heartbeat_timeout must be a length of time, and is inf"),
        ({"name": "\ud800"}, ValueError, "name has no UTF-8: surrogates not allowed at character 0"),
    ],
)
async def test_what_is_opened(given: dict[str, Any], kind: type[Exception], said: str) -> None:
    for call in (NOWHERE.open, NOWHERE.wait):
        with pytest.raises(kind) as caught:
            await call(**({"name": "n"} | given))  # type: ignore[operator]
        assert str(caught.value) == said


@pytest.mark.parametrize("length", [1e30, float("nan"), float("inf"), -0.001, timedelta(-1)])
def test_what_is_no_length_of_time(length: float | timedelta) -> None:
    with pytest.raises(ValueError, match=r"^max_age "):
        duration("max_age", length)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: NOWHERE.resolve("t", payload_json={"a": 1}), "payload_json must be JSON text (a str), not dict"),  # type: ignore[arg-type]
        (lambda: NOWHERE.resolve(5, 1), "token must be a str, not int"),  # type: ignore[arg-type]
        (lambda: NOWHERE.fail("t", details_json={}), "details_json must be JSON text (a str), not dict"),  # type: ignore[arg-type]
        (lambda: NOWHERE.approve("t", 5), "tool_call_id must be a str, not int"),  # type: ignore[arg-type]
        (lambda: NOWHERE.get(None), "wait_id must be a str, not NoneType"),  # type: ignore[arg-type]
        (lambda: anext(NOWHERE.list(states=["PENDING"])), "states must be of the type State, not str"),  # type: ignore[list-item]
    ],
)
async def test_what_is_called(call: Callable[[], Awaitable[object]], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        await call()
    assert str(caught.value) == said


def test_a_tool_call_takes_its_arguments_as_a_value() -> None:
    assert ToolCall("a", "t", args={"x": 1}) == ToolCall("a", "t", '{"x": 1}')
    assert ToolCall("a", "t", args=None).args_json == ToolCall("a", "t").args_json == "null"
    with pytest.raises(ValueError, match="give args or args_json, not both"):
        ToolCall("a", "t", "{}", args={})
    assert DeferredJson(b"{}") == DeferredJson("{}")


@pytest.mark.parametrize(
    "step",
    [
        lambda r: r.value("new", object()),
        lambda r: r.value("new", "\ud800"),
        lambda r: r.approve("new", {"x": object()}),
        lambda r: r.deny("new", 5),
        lambda r: r.failed("new", 5),
        lambda r: r.retry("new", None),
        lambda r: r.metadata("new", {"x": float("nan")}),
        lambda r: r.answered_by("new", 5),
        lambda r: r.approve(5),
        lambda r: r.deny("a", 5),
        lambda r: r.approve("\ud800"),
    ],
)
def test_a_step_that_is_refused_changes_nothing(step: Callable[[Results], Results]) -> None:
    results = Results().approve("a").value("b", 1)
    before = v1.DeferredToolResults()
    before.CopyFrom(results.message)
    with pytest.raises((TypeError, ValueError)):
        step(results)
    assert results.message == before


def test_help_says_what_is_there() -> None:
    assert "answer: 'Any' = <not given>" in str(inspect.signature(AbeyanceClient.resolve))
    for attribute in ("opened", "attached", "reattached", "time_left", "progress", "token", "wait_id"):
        assert inspect.getdoc(getattr(Wait, attribute))
    sync = {name for name, _ in inspect.getmembers(SyncAbeyanceClient, inspect.isfunction) if not name.startswith("_")}
    assert sync == {name for name, _ in inspect.getmembers(AbeyanceClient, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("integration", ["adk", "pydantic_ai", "temporal"])
def test_a_missing_extra_is_named(integration: str) -> None:
    hidden = "sys.modules.update(dict.fromkeys(['jsonschema', 'google.adk', 'pydantic_ai', 'temporalio']))"
    program = f"import sys; {hidden}; import abeyance.{integration}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: abeyance.{integration} needs packages that are not installed")
    assert f"`pip install 'PATH[{integration.replace('_', '-')}]'`" in last
    assert "Python 3.11" in last
