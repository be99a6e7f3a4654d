"""ADK workflows that wait in a real broker."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pydantic
import pytest
from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.events import Event, RequestInput
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import request_input
from google.adk.workflow import START, Workflow, node
from google.genai import types

from abeyance import AbeyanceClient, AskFailed, Form, Refused, State, WaitEnded, WaitExpired, WaitFailed
from abeyance.adk import InputWaits, PendingInput, pending_inputs
from abeyance.external import Answered, Ticket

from . import adk_workflows as adk

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Days(pydantic.BaseModel):
    days: int = pydantic.Field(ge=1)


async def test_a_bad_answer_is_refused_and_never_reaches_the_session(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.one_question(seen, message="How long?", payload={"left": 12}, response_schema=Days))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    token = await person.token()

    asked = (await client.describe(token)).question
    assert isinstance(asked, Form)
    assert (asked.message, asked.payload_json) == ("How long?", '{"left": 12}')
    # ADK itself would take the second of these, since it reads no bounds, and fail for good on the others.
    for bad in ("three", {"days": 0}, {"days": "x"}, {}, None):
        with pytest.raises(Refused) as refused:
            await client.resolve(token, bad)
        assert refused.value.reason == "INVALID_ANSWER"
    assert await adk.responses(run) == []

    await client.resolve(token, {"days": 3})
    assert adk.output(await running) == {"days": 3}
    assert await adk.responses(run) == [{"q": {"days": 3}}]


@pytest.mark.parametrize("schema", [None, str])
async def test_text_that_looks_like_a_number_stays_text(client: AbeyanceClient, schema: Any) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.one_question(seen, response_schema=schema))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    await client.resolve(await person.token(), "5")
    await running
    assert seen.values == ["5"]


async def test_several_interrupts_at_once_are_answered_in_any_order(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.questions_at_once(seen, ["a", "b", "c"]))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    tokens = {each: await person.token(each) for each in ("a", "b", "c")}
    for each in ("c", "a", "b"):
        await client.resolve(tokens[each], f"answer {each}")
    await running
    assert seen.values == [{f"ask_{each}": f"answer {each}" for each in "abc"}]
    answered = [interrupt_id for message in await adk.responses(run) for interrupt_id in message]
    assert sorted(answered) == ["a", "b", "c"], "each once"
    assert len(person.asked) == 3


async def test_a_branch_goes_on_while_another_waits(client: AbeyanceClient) -> None:
    went_on = asyncio.Event()

    @node(name="go_on")
    def go_on(node_input: Any) -> None:
        went_on.set()

    person = adk.Person()
    run = await adk.runner(Workflow(name="two", edges=[(START, adk.asker("a"), go_on), (START, adk.asker("b"))]))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    await client.resolve(await person.token("a"), 1)
    await asyncio.wait_for(went_on.wait(), 30)
    await client.resolve(await person.token("b"), 2)
    await running


async def test_what_was_decided_during_a_resume_goes_into_one_message(client: AbeyanceClient) -> None:
    """The next resume takes all that is there, since each one runs the workflow."""
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.questions_at_once(seen, ["a", "b", "c"]))
    waits = InputWaits(client, run, person.ask, timeout=60)
    first = asyncio.create_task(adk.finish(waits, start=True))
    tokens = {each: await person.token(each) for each in ("a", "b", "c")}
    shared = waits._sessions[adk.USER, adk.SESSION]
    async with shared.alone:
        # As while the session is being resumed.
        for token in tokens.values():
            await client.resolve(token, 1)
        await asyncio.wait(shared.followed.values())
    await first
    assert [sorted(message) for message in await adk.responses(run)] == [["a", "b", "c"]]


async def test_a_loop_that_asks_again_gets_a_new_answer(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.loop(seen))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    tokens = []
    for said in ("no", "no", "yes"):
        tokens.append(await person.token())
        await client.resolve(tokens[-1], said)
    assert adk.output(await running) == "done: yes"
    assert seen.values == ["no", "no", "yes"]
    assert len(set(tokens)) == 3


async def test_two_users_with_one_session_id_do_not_get_each_others_answers(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.one_question(seen), users=["alice", "bob"])
    waits = InputWaits(client, run, person.ask, timeout=60)
    running = {user: asyncio.create_task(adk.finish(waits, start=True, user=user)) for user in ("alice", "bob")}
    alice, bob = await person.token(user="alice"), await person.token(user="bob")
    await client.resolve(bob, "for bob")
    assert adk.output(await running["bob"]) == "for bob"
    assert not running["alice"].done()
    await client.resolve(alice, "for alice")
    assert adk.output(await running["alice"]) == "for alice"


async def test_two_runs_of_a_session_ask_once_and_resume_once(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.one_question(seen))
    await adk.begin(run)
    waits = InputWaits(client, run, person.ask, timeout=60)
    both = [asyncio.create_task(adk.finish(waits)) for _ in range(2)]
    await client.resolve(await person.token(), "once")
    events = [await each for each in both]
    assert seen.values == ["once"]
    assert await adk.responses(run) == [{"q": {"result": '"once"'}}]
    assert len(person.asked) == 1
    assert sorted(len(each) for each in events) == [0, 1], "one of them resumed it"


async def test_what_others_ran_in_the_session_meanwhile_is_seen_before_it_is_resumed(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.one_question(seen))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    token = await person.token()
    # Somebody answers beside the broker.
    part = types.Part(function_response=types.FunctionResponse(id="q", name="adk_request_input", response={"result": 1}))
    async for _ in run.run_async(user_id=adk.USER, session_id=adk.SESSION, new_message=types.Content(role="user", parts=[part])):
        pass
    await client.resolve(token, 2)
    await running
    assert seen.values == [1]
    assert await adk.responses(run) == [{"q": {"result": 1}}]


async def test_a_question_that_a_later_one_replaced_is_withdrawn(client: AbeyanceClient) -> None:
    """ADK would give the answer to the old question to the new one."""
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.one_question(seen))
    waits = InputWaits(client, run, person.ask, timeout=60)
    first = asyncio.create_task(adk.finish(waits, start=True))
    old = await person.token()
    second = asyncio.create_task(adk.finish(waits, start=True))
    new = await person.token()
    assert (await client.describe(old)).state is State.CANCELLED
    with pytest.raises(Refused, match="ALREADY_SETTLED"):
        await client.resolve(old, "old")
    await client.resolve(new, "new")
    await first
    await second
    assert seen.values == ["new"]


async def test_a_question_that_comes_back_after_it_was_withdrawn_is_asked_again(client: AbeyanceClient) -> None:
    person = adk.Person()
    run = await adk.runner(adk.x_and_y_and_then_x())
    waits = InputWaits(client, run, person.ask, timeout=60)
    first = asyncio.create_task(adk.finish(waits, start=True))
    withdrawn, other = await person.token("x"), await person.token("y")
    second = asyncio.create_task(adk.finish(waits, start=True))
    later = await person.token("x")
    assert (await client.describe(withdrawn)).state is State.CANCELLED
    await client.resolve(other, 1)
    # The first invocation runs again and asks what it still wants, which takes it from the second.
    back = await person.token("x")
    assert len({withdrawn, later, back}) == 3
    assert (await client.describe(later)).state is State.CANCELLED
    await client.resolve(back, 2)
    outputs = [event.output for event in [*await first, *await second] if event.output is not None]
    assert outputs == [{"x": 2, "y": 1}]


async def test_a_run_again_finds_its_wait_and_its_answer(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.one_question(seen))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    token = await person.token()
    async for change in client.watch():
        if change.wait is not None and change.wait.ask_time is not None:
            break
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await client.describe(token)).state is State.PENDING
    await client.resolve(token, "meanwhile")
    # As another process would, which knows the session alone.
    events = await adk.finish(InputWaits(client, run, person.ask, timeout=60))
    assert adk.output(events) == "meanwhile"
    assert await adk.finish(InputWaits(client, run, person.ask, timeout=60)) == []
    assert len(person.asked) == 1
    assert len(await adk.responses(run)) == 1


async def test_a_wait_without_an_answer_becomes_the_value_that_was_chosen(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    ended: list[tuple[str, type[WaitEnded], str]] = []

    async def choose(pending: PendingInput, end: WaitEnded) -> Any:
        ended.append((pending.interrupt_id, type(end), end.outcome.reason))
        return f"{pending.interrupt_id} is unanswered"

    run = await adk.runner(adk.questions_at_once(seen, ["a", "b", "c"]))
    waits = InputWaits(client, run, person.ask, timeout=1.5, unanswered=choose)
    running = asyncio.create_task(adk.finish(waits, start=True))
    await client.fail(await person.token("a"), "Nobody is there.")
    await client.resolve(await person.token("b"), "b is answered")
    await running
    assert seen.values == [{"ask_a": "a is unanswered", "ask_b": "b is answered", "ask_c": "c is unanswered"}]
    assert ended == [
        ("a", WaitFailed, "Nobody is there."),
        ("c", WaitExpired, "No resolution arrived within 0:00:01.500000."),
    ]


async def test_without_a_choice_the_end_is_raised_and_the_session_is_as_it_was(client: AbeyanceClient) -> None:
    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(adk.one_question(seen, response_schema=Days))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    await client.fail(await person.token(), "Nobody is there.")
    with pytest.raises(WaitFailed, match="Nobody is there"):
        await running
    assert await adk.responses(run) == []
    # A choice that does not fit reaches the session as little as a bad answer does.
    with pytest.raises(ValueError, match="does not fit its schema"):
        await adk.finish(InputWaits(client, run, person.ask, unanswered=lambda *_: {"days": 0}))
    assert await adk.responses(run) == []
    assert adk.output(await adk.finish(InputWaits(client, run, person.ask, unanswered=lambda *_: {"days": 1}))) == {"days": 1}


async def test_an_ask_that_fails_is_asked_again_by_the_next_run(client: AbeyanceClient) -> None:
    seen = adk.Seen()
    run = await adk.runner(adk.one_question(seen))
    tokens = []

    async def ask(ticket: Ticket, _pending: PendingInput) -> Answered:
        tokens.append(ticket.token)
        if len(tokens) == 1:
            raise ConnectionError("no mail today")
        return Answered("known")

    waits = InputWaits(client, run, ask, timeout=60)
    with pytest.raises(AskFailed):
        await adk.finish(waits, start=True)
    assert adk.output(await adk.finish(waits)) == "known"
    assert len(tokens) == 2
    assert len(set(tokens)) == 1


async def test_a_schema_that_cannot_be_checked_asks_nobody(client: AbeyanceClient) -> None:
    person = adk.Person()
    anything = {"type": "object", "properties": {"note": True}}
    by_adk = await adk.runner(adk.one_question(adk.Seen(), response_schema=anything))
    with pytest.raises(ValueError, match="ADK cannot read"):
        await adk.finish(InputWaits(client, by_adk, person.ask, timeout=10), start=True)
    by_broker = await adk.runner(adk.one_question(adk.Seen(), response_schema={"type": "string", "pattern": "(?=a)"}))
    with pytest.raises(Refused, match="INVALID_FIELD"):
        await adk.finish(InputWaits(client, by_broker, person.ask, timeout=10), start=True)
    assert person.asked == []


async def test_an_answer_that_adk_fails_on_stays_out_of_the_session(client: AbeyanceClient) -> None:
    person = adk.Person()
    run = await adk.runner(adk.one_question(adk.Seen(), response_schema=int))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    # A whole number to JSON Schema, and so to the broker.
    await client.resolve(await person.token(), payload_json="1e20")
    with pytest.raises(ValueError, match="ADK cannot read the answer"):
        await running
    assert await adk.responses(run) == []


async def test_answers_for_two_invocations_go_into_two_messages(client: AbeyanceClient) -> None:
    """ADK takes no message that answers more than one."""
    asked = itertools.count()

    @node(name="ask")
    def ask() -> Any:
        yield RequestInput(interrupt_id=f"q{next(asked)}")

    seen, person = adk.Seen(), adk.Person()
    run = await adk.runner(Workflow(name="fresh", edges=[(START, ask, seen.node())]))
    await adk.begin(run)
    await adk.begin(run)
    waits = InputWaits(client, run, person.ask, timeout=60)
    running = asyncio.create_task(adk.finish(waits))
    tokens = [await person.token("q0"), await person.token("q1")]
    shared = waits._sessions[adk.USER, adk.SESSION]
    async with shared.alone:
        for token in tokens:
            await client.resolve(token, "late")
        await asyncio.wait(shared.followed.values())
    await running
    assert [list(message) for message in await adk.responses(run)] == [["q0"], ["q1"]]


async def test_a_model_that_asks_with_its_tool_waits_too(client: AbeyanceClient) -> None:
    class Model(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            told = [part.function_response for part in llm_request.contents[-1].parts if part.function_response]
            if told:
                part = types.Part(text=f"You said {told[0].response['result']}.")
            else:
                schema = {"type": "string", "minLength": 2}
                args = {"message": "Your name?", "response_schema": schema}
                part = types.Part(function_call=types.FunctionCall(name="adk_request_input", args=args))
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    person = adk.Person()
    run = await adk.runner(LlmAgent(name="agent", model=Model(model="scripted"), tools=[request_input]))
    running = asyncio.create_task(adk.finish(InputWaits(client, run, person.ask, timeout=60), start=True))
    await asyncio.wait_for(person.was_asked.wait(), 30)
    (pending,) = pending_inputs(await adk.session(run))
    assert (pending.message, pending.payload) == ("Your name?", None)
    token = await person.token(pending.interrupt_id)
    with pytest.raises(Refused, match="INVALID_ANSWER"):
        await client.resolve(token, "A")
    await client.resolve(token, "Ada")
    events = await running
    assert events[-1].content is not None
    assert [part.text for part in events[-1].content.parts or []] == ['You said "Ada".']


async def test_an_unknown_session_is_said_to_be_unknown(client: AbeyanceClient) -> None:
    run = await adk.runner(adk.one_question(adk.Seen()), users=[])
    with pytest.raises(ValueError, match="not known"):
        await adk.finish(InputWaits(client, run, adk.Person().ask))


@pytest.mark.parametrize("late", ["before it reads the session", "before it writes the answer"])
async def test_of_two_processes_that_follow_a_session_one_resumes_it(client: AbeyanceClient, tmp_path: Path, late: str) -> None:
    """The slower one has seen that the question is open, and is held up until the faster one is done."""
    slow, fast_is_done = asyncio.Event(), asyncio.Event()

    class LateRunner(Runner):
        async def run_async(self, **options: Any) -> Any:  # type: ignore[override]
            if late == "before it reads the session":
                slow.set()
                await fast_is_done.wait()
            async for event in super().run_async(**options):
                yield event

    class LateSessions(SqliteSessionService):
        async def append_event(self, session: Session, event: Event) -> Event:
            if late == "before it writes the answer":
                slow.set()
                await fast_is_done.wait()
            return await super().append_event(session, event)

    seen, person = adk.Seen(), adk.Person()
    workflow = adk.one_question(seen)
    faster = await adk.runner(workflow, adk.sqlite(tmp_path))
    await adk.begin(faster)
    slower = LateRunner(app_name=adk.APP, node=workflow, session_service=LateSessions(str(tmp_path / "sessions.db")))
    behind = asyncio.create_task(adk.finish(InputWaits(client, slower, person.ask, timeout=60)))
    await client.resolve(await person.token(), "once")
    await asyncio.wait_for(slow.wait(), 30)
    ahead = await adk.finish(InputWaits(client, faster, person.ask, timeout=60))
    fast_is_done.set()
    assert adk.output(ahead) == "once"
    assert await asyncio.wait_for(behind, 30) == []
    assert seen.values == ["once"]
    assert len(await adk.responses(faster)) == 1


async def test_a_resume_that_fails_after_its_answer_was_written_is_not_taken_for_somebody_elses(
    client: AbeyanceClient, tmp_path: Path
) -> None:
    sessions = adk.sqlite(tmp_path)

    @node(name="interfere")
    async def interfere(node_input: Any) -> Event:
        kept = await adk.session(run)
        await sessions.append_event(kept, Event(author="somebody", invocation_id="another"))
        return Event(output=node_input)

    run = await adk.runner(Workflow(name="cut", edges=[(START, adk.asker("q"), interfere)]), sessions)
    waits = InputWaits(client, run, lambda *_: Answered("known"), timeout=60)
    with pytest.raises(StaleSessionError):
        await adk.finish(waits, start=True)
    assert len(await adk.responses(run)) == 1
