"""What is read from the events of real ADK sessions."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.events import Event, RequestInput
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.workflow import START, Workflow, node
from google.genai import types

from abeyance.adk import PendingInput, function_response, pending_inputs
from abeyance.adk.inputs import abandoned_inputs

from . import adk_workflows as adk


def pending(**changes: Any) -> PendingInput:
    ids = {"app_name": "a", "user_id": "u", "session_id": "s", "invocation_id": "i", "interrupt_id": "q", "answers": 0}
    return PendingInput(**{**ids, **changes})


async def answer(run: Runner, value: Any) -> None:
    waiting = pending_inputs(await adk.session(run))
    message = types.Content(role="user", parts=[function_response(waiting[0], value)])
    async for _ in run.run_async(user_id=adk.USER, session_id=adk.SESSION, new_message=message):
        pass


def test_every_part_of_a_key_counts_and_none_runs_into_the_next() -> None:
    inputs = [
        pending(),
        pending(app_name="a/u", user_id="s"),
        pending(app_name="a", user_id="u/s"),
        pending(app_name="a%2Fu", user_id="s"),
        pending(session_id="t"),
        pending(invocation_id="j"),
        pending(interrupt_id="q/0"),
        pending(interrupt_id="line\nbreak"),
        pending(answers=1),
        pending(withdrawn=1),
        pending(answers=1, withdrawn=1),
        pending(interrupt_id="q/0", answers=1),
        pending(interrupt_id="x" * 600),
        pending(interrupt_id="x" * 601),
    ]
    keys = [each.key for each in inputs]
    assert len(set(keys)) == len(inputs)
    assert all(len(key) <= 512 and key.isprintable() for key in keys)


def test_a_long_message_is_cut_to_what_the_broker_takes() -> None:
    assert len(pending(message="x" * 5000).form().message) == 4096
    assert pending(message="x" * 4096).form().message == "x" * 4096


async def test_an_input_is_what_the_workflow_asked() -> None:
    run = await adk.runner(adk.one_question(adk.Seen(), message="How many?", payload={"left": [1, None]}, response_schema=int))
    await adk.begin(run)
    (found,) = pending_inputs(await adk.session(run))
    assert (found.app_name, found.user_id, found.session_id) == (adk.APP, adk.USER, adk.SESSION)
    assert (found.interrupt_id, found.answers, found.message) == ("q", 0, "How many?")
    assert found.payload == {"left": [1, None]}
    assert found.response_schema == {"type": "integer"}
    await answer(run, 3)
    assert pending_inputs(await adk.session(run)) == []


async def test_a_loop_asks_anew_under_one_id() -> None:
    seen = adk.Seen()
    run = await adk.runner(adk.loop(seen))
    await adk.begin(run)
    keys = set()
    for round_, said in enumerate(["no", "not yet", "yes"]):
        (found,) = pending_inputs(await adk.session(run))
        assert found.answers == round_
        keys.add(found.key)
        await answer(run, said)
    assert len(keys) == 3
    assert pending_inputs(await adk.session(run)) == []


async def test_a_node_that_runs_again_asks_the_same_as_before() -> None:
    asked = []

    @node(name="two", rerun_on_resume=True)
    async def two(ctx: Any) -> Any:
        for interrupt_id in ("a", "b"):
            if interrupt_id not in ctx.resume_inputs:
                asked.append(interrupt_id)
                yield RequestInput(interrupt_id=interrupt_id, message=f"{interrupt_id}, asked as number {len(asked)}")
        if len(ctx.resume_inputs) == 2:
            yield Event(output=dict(ctx.resume_inputs))

    run = await adk.runner(Workflow(name="again", edges=[(START, two)]))
    await adk.begin(run)
    _, second = pending_inputs(await adk.session(run))
    await answer(run, 1)
    assert asked == ["a", "b", "b"], "the node asked a second time"
    (still,) = pending_inputs(await adk.session(run))
    assert (still.key, still.form()) == (second.key, second.form())
    assert abandoned_inputs(await adk.session(run)) == []


async def test_an_id_that_a_later_invocation_asks_for_is_lost_to_the_earlier_one() -> None:
    run = await adk.runner(adk.one_question(adk.Seen()))
    await adk.begin(run)
    (first,) = pending_inputs(await adk.session(run))
    await adk.begin(run)
    (second,) = pending_inputs(await adk.session(run))
    assert second.invocation_id != first.invocation_id
    assert [each.key for each in abandoned_inputs(await adk.session(run))] == [first.key]
    # Also after the later one has its answer.
    await answer(run, 1)
    assert pending_inputs(await adk.session(run)) == []
    assert [each.key for each in abandoned_inputs(await adk.session(run))] == [first.key]


async def test_a_question_that_comes_back_after_it_was_lost_is_another_wait() -> None:
    """The one before was cancelled when it was lost."""
    run = await adk.runner(adk.x_and_y_and_then_x())
    await adk.begin(run)
    lost, _ = pending_inputs(await adk.session(run))
    await adk.begin(run)
    other, later = pending_inputs(await adk.session(run))
    assert (other.invocation_id, later.interrupt_id) == (lost.invocation_id, "x")
    await answer(run, 1)
    (again,) = pending_inputs(await adk.session(run))
    assert (again.invocation_id, again.interrupt_id, again.answers) == (lost.invocation_id, "x", 0)
    assert again.key != lost.key
    assert [each.key for each in abandoned_inputs(await adk.session(run))] == [lost.key, later.key]


async def test_a_question_that_a_rewind_brings_back_is_another_wait() -> None:
    run = await adk.runner(adk.one_question(adk.Seen()))
    await adk.begin(run)
    (lost,) = pending_inputs(await adk.session(run))
    await adk.begin(run)
    (later,) = pending_inputs(await adk.session(run))
    await run.rewind_async(user_id=adk.USER, session_id=adk.SESSION, rewind_before_invocation_id=later.invocation_id)
    (again,) = pending_inputs(await adk.session(run))
    assert (again.invocation_id, again.interrupt_id) == (lost.invocation_id, "q")
    assert again.key != lost.key
    assert [each.key for each in abandoned_inputs(await adk.session(run))] == [lost.key, later.key]
    # And once more: the wait that was opened since is lost, too.
    await adk.begin(run)
    (last,) = pending_inputs(await adk.session(run))
    assert [each.key for each in abandoned_inputs(await adk.session(run))] == [lost.key, later.key, again.key]
    await answer(run, 1)
    assert pending_inputs(await adk.session(run)) == []
    assert last.key not in [each.key for each in abandoned_inputs(await adk.session(run))]


async def test_what_was_rewound_is_not_asked() -> None:
    run = await adk.runner(adk.one_question(adk.Seen()))
    await adk.begin(run)
    (first,) = pending_inputs(await adk.session(run))
    await run.rewind_async(user_id=adk.USER, session_id=adk.SESSION, rewind_before_invocation_id=first.invocation_id)
    assert pending_inputs(await adk.session(run)) == []
    assert [each.key for each in abandoned_inputs(await adk.session(run))] == [first.key]


async def test_what_an_aborted_run_asked_is_not_asked() -> None:
    abort = asyncio.Event()

    @node(name="abort")
    async def aborting(ctx: Any) -> Any:
        yield RequestInput(interrupt_id="q")

    @node(name="never")
    async def never(ctx: Any) -> Any:
        abort.set()
        await asyncio.Event().wait()

    sessions = InMemorySessionService()
    run = await adk.runner(Workflow(name="aborted", edges=[(START, aborting), (START, never)]), sessions)
    async for _ in run.run_async(user_id=adk.USER, session_id=adk.SESSION, new_message=adk.text("go"), abort_signal=abort):
        pass
    found = await adk.session(run)
    assert any(call.id == "q" for event in found.events for call in event.get_function_calls()), "it asked first"
    assert pending_inputs(found) == []
    assert [each.interrupt_id for each in abandoned_inputs(found)] == ["q"]


async def test_adk_finishes_an_invocation_that_was_cut_after_its_answer() -> None:
    """What docs/adk.md says of a process that is killed while the resumed workflow runs."""
    seen = adk.Seen()
    run = await adk.runner(adk.one_question(seen))
    await adk.begin(run)
    cut = await adk.session(run)
    (waiting,) = pending_inputs(cut)
    message = types.Content(role="user", parts=[function_response(waiting, "yes")])
    await run.session_service.append_event(cut, Event(author="user", invocation_id=waiting.invocation_id, content=message))
    assert pending_inputs(await adk.session(run)) == []
    last = (await adk.session(run)).events[-1].invocation_id
    async for _ in run.run_async(user_id=adk.USER, session_id=adk.SESSION, invocation_id=last):
        pass
    assert seen.values == ["yes"]
