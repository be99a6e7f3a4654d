"""What a worker of one language and a resolver of another do with each other: one table for all pairings."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import samples
from chaos import Cuts
from check import equal, fields, normal, true
from pair import MINUTE, Opened, Pair
from together import Drain, Restart

DAY = 86_400_000


@dataclass
class Scenario:
    """A row of the matrix."""

    name: str
    about: str
    run: Callable[[Pair], Awaitable[None]]
    # Made once for all pairings that run together.
    shared: Callable[..., AbstractAsyncContextManager[Any]] | None


SCENARIOS: dict[str, Scenario] = {}


def scenario(about: str, shared: Callable[..., AbstractAsyncContextManager[Any]] | None = None) -> Callable[..., Any]:
    def add(run: Callable[[Pair], Awaitable[None]]) -> Callable[[Pair], Awaitable[None]]:
        SCENARIOS[run.__name__] = Scenario(run.__name__, about, run, shared)
        return run

    return add


async def json_there_and_back(pair: Pair, payload: str) -> None:
    wait = await pair.open(question={"freeJson": payload})
    waiting = pair.begin(pair.outcome(wait, "RESOLVED", payload_json=payload))
    await pair.resolve(wait, payload_json=payload)
    await waiting


async def results_there(pair: Pair, wait: Opened) -> None:
    """The worker gets the results of `samples`, typed and as JSON."""
    outcome = await pair.outcome(wait, "RESOLVED")
    equal("outcome.results", normal(outcome["results"]), samples.RESULTS | {"answeredBy": samples.EVERYTHING_BY_ALICE})
    equal("outcome.results_json, read", json.loads(outcome["results_json"]), json.loads(samples.RESULTS_JSON))
    for part in samples.BYTE_FOR_BYTE:
        true(f"outcome.results_json holds {part}", part in outcome["results_json"], outcome["results_json"])


@scenario("open, hand over, mark asked, resolve: the JSON arrives byte for byte")
async def resolve(pair: Pair) -> None:
    wait = await pair.open(question={"freeJson": '{"text" : "Refund?"}'}, labels={"team": "füße 🦶"})
    expected = {"payload_json": samples.SPACED, "answered_by": "alice", "reattached": 0}
    waiting = pair.begin(pair.outcome(wait, "RESOLVED", **expected))
    await pair.worker.ask("mark_asked", token=wait.token)
    described = await pair.resolver.ask("describe", token=wait.token)
    fields("describe", described, state="PENDING", name=wait.name, timeout_ms=5 * MINUTE, timeout_source="TIMEOUT")
    answer = await pair.resolver.ask("resolve", token=wait.token, payload_json=samples.SPACED, answered_by="alice")
    fields("resolve", answer, state="RESOLVED", replayed=False, answered_by="alice")
    await waiting


@scenario("tool calls, results sent typed: every kind of decision")
async def typed_results(pair: Pair) -> None:
    wait = await pair.open(question={"deferred": {"calls": samples.CALLS}})
    await pair.resolve(wait, results=samples.RESULTS, answered_by="alice")
    await results_there(pair, wait)


@scenario("tool calls asked and answered in the JSON form of Pydantic AI: every kind of decision")
async def json_results(pair: Pair) -> None:
    wait = await pair.open(question={"deferredJson": {"requestsJson": samples.CALLS_JSON}})
    await pair.resolve(wait, payload_json=samples.RESULTS_JSON, answered_by="alice")
    await results_there(pair, wait)


@scenario("two resolvers decide a call each; calls that may stay pending are left so")
async def partial_answers(pair: Pair) -> None:
    wait = await pair.open(question={"deferred": {"calls": samples.CALLS[:2]}})
    first: dict[str, Any] = {"approvals": {"approve": {"approved": {}}}}
    second: dict[str, Any] = {"approvals": {"override": {"approved": {}}}}
    for replayed in (False, True):
        answer = await pair.resolver.ask("resolve", token=wait.token, results=first, partial=True, answered_by="alice")
        fields("the first decision", answer, state="PENDING", replayed=replayed)
    error = await pair.worker.refused("resolve", token=wait.token, **samples.REFUSED_CHANGE.arguments)
    samples.REFUSED_CHANGE.check(error, wait.wait_id)
    # The worker's language is the second resolver.
    answer = await pair.worker.ask("resolve", token=wait.token, results=second, partial=True, answered_by="bob")
    fields("the second decision", answer, state="RESOLVED", replayed=False)
    outcome = await pair.outcome(wait, "RESOLVED")
    both = {"approvals": first["approvals"] | second["approvals"], "answeredBy": {"approve": "alice", "override": "bob"}}
    equal("outcome.results", normal(outcome["results"]), both)

    lenient = await pair.open(question={"deferred": {"calls": samples.CALLS[:2], "mayLeavePending": True}})
    await pair.resolve(lenient, results=first)
    outcome = await pair.outcome(lenient, "RESOLVED")
    equal("outcome.results", normal(outcome["results"]), first)


@scenario("the resolver fails a wait with a type and details; the same failure again is a repeat")
async def fail(pair: Pair) -> None:
    wait = await pair.open()
    failure = {"reason": "the printer is on fire 🔥", "error_type": "printer.fire", "details_json": '{"heat": 1.0e3}'}
    for replayed in (False, True):
        answer = await pair.resolver.ask("fail", token=wait.token, **failure)
        fields("fail", answer, state="FAILED", replayed=replayed)
    await pair.outcome(wait, "FAILED", payload_json="", **failure)
    await pair.settled(wait, "FAILED")


@scenario("tool calls that end without an answer are denied; what was decided before stays")
async def denial_on_fail(pair: Pair) -> None:
    wait = await pair.open(question={"deferred": {"calls": samples.CALLS}})
    decided: dict[str, Any] = {"approvals": {"approve": {"approved": {}}}}
    await pair.resolver.ask("resolve", token=wait.token, results=decided, partial=True)
    await pair.resolver.ask("fail", token=wait.token, reason="nobody is in")
    outcome = await pair.outcome(wait, "FAILED", reason="nobody is in")
    message = "No decision on this tool call arrived: nobody is in"
    approvals: dict[str, Any] = {call: {"denied": {"message": message}} for call in samples.APPROVALS}
    calls = {call: {"failed": {"message": message}} for call in samples.RESULTS["calls"]}
    expected = {"approvals": approvals | decided["approvals"], "calls": calls}
    equal("outcome.results", normal(outcome["results"]), expected)
    ready_made = json.loads(outcome["results_json"])
    equal("outcome.results_json: denied", ready_made["approvals"]["deny"], {"kind": "tool-denied", "message": message})
    equal("outcome.results_json: failed", ready_made["calls"]["value"], {"kind": "tool-failed", "message": message})


@scenario("a wait expires by its call's gRPC deadline, and the worker reads that before the deadline cuts the stream")
async def expiry_by_deadline(pair: Pair) -> None:
    name = f"interop {pair.label}"
    answer = await pair.worker.ask("by_deadline", name=name, deadline_ms=3000)
    fields("opened", answer, asked=False, resumed=False, timeout_source="DEADLINE")
    # A library may send what is left of the deadline.
    true("opened.timeout_ms", 1000 < answer["timeout_ms"] <= 3000, answer["timeout_ms"])
    wait = pair.follow(answer, name)
    outcome = await pair.outcome(wait, "EXPIRED", cause="TIMEOUT")
    true("outcome.reason", outcome["reason"].startswith("No resolution arrived within 0:00:0"), outcome["reason"])
    await pair.settled(wait, "EXPIRED")


@scenario("a wait expires by its timeout, and says so in words")
async def expiry_by_timeout(pair: Pair) -> None:
    wait = await pair.open(timeout_ms=1500, question={"deferred": {"calls": samples.CALLS[:1]}})
    reason = "No resolution arrived within 0:00:01.500000."
    outcome = await pair.outcome(wait, "EXPIRED", cause="TIMEOUT", reason=reason)
    denied = {"approve": {"denied": {"message": f"No decision on this tool call arrived: {reason}"}}}
    equal("outcome.results", normal(outcome["results"]), {"approvals": denied})
    await pair.settled(wait, "EXPIRED")


@scenario("the worker withdraws a wait; the resolver is told so")
async def cancel(pair: Pair) -> None:
    wait = await pair.open()
    for reason in ("no longer needed", "cancelled twice"):
        answer = await pair.worker.ask("cancel", token=wait.token, reason=reason)
        fields("cancel", answer, state="CANCELLED")
    await pair.outcome(wait, "CANCELLED", reason="no longer needed", payload_json="")
    await pair.settled(wait, "CANCELLED")


@scenario("an equal answer is a repeat, by whoever it comes; another one is refused; a request id belongs to one body")
async def repeat(pair: Pair) -> None:
    wait = await pair.open()
    payload = '{"a": 1, "b": [true]}'
    await pair.resolve(wait, payload_json=payload, answered_by="alice", request_id="r-1")
    # The same JSON value, in other words and by somebody else.
    answer = await pair.resolver.ask("resolve", token=wait.token, payload_json='{"b":[true],"a":1}', answered_by="bob")
    fields("the repeat", answer, state="RESOLVED", replayed=True, answered_by="alice")
    error = await pair.resolver.refused("resolve", token=wait.token, payload_json="2", request_id="r-1")
    fields("the same request id", error, code="INVALID_ARGUMENT", reason="REQUEST_ID_REUSED")
    await pair.settled(wait, "RESOLVED")
    # Who cancels too late is told what is recorded.
    fields("cancel", await pair.worker.ask("cancel", token=wait.token, reason="late"), state="RESOLVED")
    await pair.outcome(wait, "RESOLVED", payload_json=payload, answered_by="alice")


@scenario("a worker that opens again with its key gets the same wait, and need not ask again")
async def reopen(pair: Pair) -> None:
    key = f"key of {pair.label} {pair.shared.unique()}"
    wait = await pair.open(key=key)
    await pair.worker.ask("mark_asked", token=wait.token)
    again = await pair.worker.ask("open", name=wait.name, timeout_ms=5 * MINUTE, key=key)
    fields("opened again", again, token=wait.token, wait_id=wait.wait_id, asked=True, resumed=True)
    await pair.resolve(wait, payload_json="[]")
    await pair.outcome(wait, "RESOLVED", payload_json="[]")
    # Settled or not, it is the same wait: this is how a run that is replayed finds its answer.
    again = await pair.worker.ask("open", name=wait.name, timeout_ms=5 * MINUTE, key=key)
    fields("opened once more", again, token=wait.token, wait_id=wait.wait_id, asked=True, resumed=True)
    await pair.outcome(wait, "RESOLVED", payload_json="[]")


@scenario("the broker is killed and started again while all of them wait", shared=Restart)
async def restart(pair: Pair) -> None:
    await through_restart(pair)


@scenario("the broker is stopped in order and started again while all of them wait", shared=Drain)
async def drain(pair: Pair) -> None:
    await through_restart(pair)


async def through_restart(pair: Pair) -> None:
    wait = await pair.open()
    waiting = pair.begin(pair.outcome(wait, "RESOLVED", payload_json='"after"', answered_by="alice"))
    await pair.shared.all_here()
    await pair.resolve(wait, payload_json='"after"', answered_by="alice")
    outcome = await waiting
    true("outcome.reattached", outcome["reattached"] >= 1, outcome["reattached"])


@scenario("an answer of 1 MiB")
async def payload_1mib(pair: Pair) -> None:
    await json_there_and_back(pair, samples.ONE_MIB)


@scenario("C64: numbers keep their text, in answers, values, overrides and metadata")
async def numbers(pair: Pair) -> None:
    for number in samples.NUMBERS:
        await json_there_and_back(pair, number)
    listed = f"[{','.join(samples.NUMBERS)}]"
    await json_there_and_back(pair, listed)

    wait = await pair.open(question={"deferred": {"calls": [samples.CALLS[0], samples.CALLS[3]]}})
    results = {
        "approvals": {"approve": {"approved": {"overrideArgsJson": f'{{"n": {listed}}}'}}},
        "calls": {"value": {"returnValueJson": listed}},
        "metadataJson": {"approve": f'{{"m": {listed}}}'},
    }
    await pair.resolve(wait, results=results)
    outcome = await pair.outcome(wait, "RESOLVED")
    equal("outcome.results", normal(outcome["results"]), results)
    equal("the list in outcome.results_json", outcome["results_json"].count(listed), 3)


@scenario("emoji, scripts, escapes and what line-based programs stumble over, byte for byte")
async def text(pair: Pair) -> None:
    await json_there_and_back(pair, samples.TEXT)
    name = "naïve 🦀 名前"
    wait = await pair.open(name=name, key=f"clé 🔑 {pair.label} {pair.shared.unique()}")
    fields("describe", await pair.resolver.ask("describe", token=wait.token), name=name)
    await pair.resolver.ask("fail", token=wait.token, reason=samples.WORDS, error_type="тип", details_json=samples.TEXT)
    await pair.outcome(wait, "FAILED", reason=samples.WORDS, error_type="тип", details_json=samples.TEXT)


@scenario("C16: a timeout of 60 days is 60 days in the record; none is the server's maximum")
async def sixty_days(pair: Pair) -> None:
    wait = await pair.open(timeout_ms=60 * DAY)
    described = await pair.resolver.ask("describe", token=wait.token)
    fields("describe", described, timeout_ms=60 * DAY, timeout_source="TIMEOUT", state="PENDING")
    await pair.resolve(wait, payload_json="60")
    await pair.outcome(wait, "RESOLVED", payload_json="60", reattached=0)

    answer = await pair.worker.ask("open", name=wait.name)
    fields("opened", answer, timeout_ms=366 * DAY, timeout_source="SERVER_MAXIMUM")
    unbounded = pair.follow(answer, wait.name)
    await pair.worker.ask("cancel", token=unbounded.token, reason="enough")
    await pair.outcome(unbounded, "CANCELLED", reason="enough")


@scenario("refusals carry code, reason, metadata and every violation, to workers and to resolvers")
async def error_details(pair: Pair) -> None:
    wait = await pair.open(question={"deferred": {"calls": samples.CALLS[:2]}})
    for refusal in samples.REFUSED_ANSWERS:
        error = await pair.resolver.refused(refusal.op, token=wait.token, **refusal.arguments)
        refusal.check(error, wait.wait_id)
    form = await pair.open(question={"form": samples.FORM})
    error = await pair.resolver.refused("resolve", token=form.token, payload_json='{"n":0,"s":"c"}')
    samples.REFUSED_FORM.check(error, form.wait_id)
    error = await pair.resolver.refused("resolve", token="abey_nobody", payload_json="1")
    fields("an unknown token", error, code="NOT_FOUND", reason="TOKEN_UNKNOWN")

    error = await pair.worker.refused("open", **samples.REFUSED_OPEN.arguments)
    samples.REFUSED_OPEN.check(error, "")
    key = f"one key of {pair.label} {pair.shared.unique()}"
    first = await pair.open(key=key, question={"freeJson": "1"})
    error = await pair.worker.refused("open", name=first.name, timeout_ms=MINUTE, key=key, question={"freeJson": "2"})
    fields("another question", error, code="ALREADY_EXISTS", reason="KEY_CONFLICT")
    fields("its metadata", error["metadata"], wait_id=first.wait_id, field="question")

    # Refused answers left all of them open.
    await pair.resolve(form, payload_json='{"n":1,"s":"a"}')
    await pair.outcome(form, "RESOLVED", payload_json='{"n":1,"s":"a"}')
    await pair.resolve(first, payload_json="0")
    await pair.outcome(first, "RESOLVED", payload_json="0")
    await pair.resolve(wait, payload_json='{"approvals": {"approve": true, "override": false}}')
    await pair.outcome(wait, "RESOLVED")


@scenario("the largest refusal there is arrives whole: 64 faults, 4 KiB of status")
async def largest_refusal(pair: Pair) -> None:
    calls = [call | {"toolCallId": name} for call, name in zip([samples.CALLS[0]] * 64, samples.LONG_IDS, strict=True)]
    wait = await pair.open(question={"deferred": {"calls": calls}})
    wrong = {"calls": {name: {"returnValueJson": "1"} for name in samples.LONG_IDS}}
    error = await pair.resolver.refused("resolve", token=wait.token, results=wrong)
    fields("the refusal", error, code="INVALID_ARGUMENT", reason="INVALID_ANSWER", metadata={"wait_id": wait.wait_id})
    *named, last = error["violations"]
    equal("the last violation", last, {"field": "", "description": f"and {64 - len(named)} more"})
    equal("what is wrong", {v["description"] for v in named}, {"waits for an approval; decide it under `approvals`"})
    true("how many are named", len(named) > 20, len(named))
    for name, violation in zip(samples.LONG_IDS, named, strict=False):
        true("a violation's field", violation["field"].startswith(f'calls["{name[:40]}'), violation["field"])
    await pair.resolve(wait, results={"approvals": {name: {"approved": {}} for name in samples.LONG_IDS}})
    await pair.outcome(wait, "RESOLVED")


@scenario("connections are cut and the broker is killed at random: each wait gets its own answer, and nobody is asked twice", shared=Cuts)
async def chaos(pair: Pair) -> None:
    await asyncio.gather(*(through_cuts(pair, number) for number in range(3)))


async def through_cuts(pair: Pair, number: int) -> None:
    """One wait whose worker and resolver are cut off again and again."""
    cuts: Cuts = pair.shared
    key = f"chaos {pair.label} {number} {cuts.unique()}"
    payload = json.dumps({"for": key})
    opened = await pair.worker.ask("open", name="chaos", key=key, timeout_ms=5 * MINUTE)
    wait = pair.follow(opened, "chaos")
    asks = 0 if opened["asked"] else 1
    waiting = pair.begin(pair.outcome(wait, "RESOLVED", payload_json=payload))
    await pair.worker.ask("mark_asked", token=wait.token)
    await cuts.moment()
    # A worker that lost its memory comes back while the connections are cut.
    again = await pair.worker.ask("open", name="chaos", key=key, timeout_ms=5 * MINUTE)
    asks += 0 if again["asked"] else 1
    fields("opened again", again, token=wait.token, wait_id=wait.wait_id, resumed=True)
    equal("how often somebody was asked", asks, 1)
    await cuts.moment()
    answer = await pair.resolver.ask("resolve", token=wait.token, payload_json=payload)
    # The first try may have been recorded before its reply was cut.
    equal("resolve.state", answer["state"], "RESOLVED")
    await waiting
    await pair.settled(wait, "RESOLVED")
