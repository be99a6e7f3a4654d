"""The client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from . import _convert, v1
from ._absence import Absence
from ._channels import Channels
from ._check import duration, json_text, key_or_empty, text, text_or_empty, texts
from ._follow import Streams
from ._json import NOTHING, encode_json
from ._retry import Cut, Restraint, Tries, lost, within
from .errors import ProtocolError
from .external import WITHDRAWAL, AskFunction, ask_for, wait_asking
from .inbox import WatchEvent, list_waits, wait_filter, watch_waits
from .info import Settled, WaitInfo
from .outcome import Answer, OpenedWait, Outcome, State
from .question import Question, question_message
from .results import Results, results_message
from .settings import Settings
from .wait import Wait

__all__ = ["AbeyanceClient"]

T = TypeVar("T")


class AbeyanceClient:
    """A client of one broker, for `asyncio`.

    It connects when it is first used, with three connections for each event loop: for the streams of waits, for calls that have one
    answer, and for watches. So one client may serve several loops, also in several threads; what it returns belongs to the loop that
    asked.

    Every call is safe to repeat, so every call is repeated by itself while the broker cannot be reached, for as long as
    `Settings.patience` says, with full jitter. A clear refusal is never repeated. A call that is cancelled may have been carried out or
    not, and may be made again.

    Every call raises `Refused` for a clear refusal, `Unavailable` at the end of patience and `ProtocolError` for what it cannot
    understand; below, the reasons of refusals are named.
    """

    def __init__(self, target: str = "127.0.0.1:2239", *, settings: Settings | None = None) -> None:
        """`target` is `host:port` or `http://host:port`; anything else raises `ValueError`. Nothing connects yet."""
        self.settings = settings or Settings()
        """How it connects and how patient it is."""
        self.target = target
        """The broker's address, as it was given."""
        self._channels = Channels(target, self.settings)
        self._restraint = Restraint()
        self._absence = Absence(target)
        self._streams = Streams(self._channels, self.settings, self._restraint, self._absence)

    def __repr__(self) -> str:
        return f"AbeyanceClient({self.target!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy, also in another process, connects for itself. So a `Ticket` can be handed to where its ask is done.
        return partial(type(self), settings=self.settings), (self.target,)

    async def __aenter__(self) -> AbeyanceClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Detaches the waits of the running event loop and closes its connections. Those of other loops go with their loops. A later call
        connects anew. What still waits raises `Detached`; a `wait_for_external_event` without a key has its wait withdrawn before, within
        5 s."""
        lines = self._channels.if_any()
        if lines is None:
            return
        unkeyed = list(lines.unkeyed)
        await lines.let_go()
        if unkeyed:
            leaving = [asyncio.ensure_future(self.cancel(token, "The worker's client was closed.")) for token in unkeyed]
            await asyncio.wait(leaving, timeout=WITHDRAWAL)
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)
        await self._channels.close()

    # Workers

    async def open(
        self,
        name: str,
        *,
        key: str | None = None,
        namespace: str | None = None,
        timeout: timedelta | float | None = None,
        heartbeat_timeout: timedelta | float | None = None,
        question: Question | None = None,
        question_later: bool = False,
        labels: Mapping[str, str] | None = None,
        request_id: str | None = None,
    ) -> OpenedWait:
        """Opens a wait, or re-opens it by its key, without staying attached. Durable when it returns.

        - `name`: what kind of wait this is, 1 to 256 characters.
        - `key`: the worker's own name for the wait, unique in its namespace, 1 to 512 characters. Opening again with the same key, name
          and question gives the same wait with the same token, whatever has become of it. Default: none.
        - `namespace`: default `default`.
        - `timeout`: expire the wait after this time, in seconds where it is a number. Default: as long as the broker allows (366 days
          unless it is set otherwise).
        - `heartbeat_timeout`: expire it when the answering side, once asked, sends no heartbeat for this long. Default: none is demanded.
        - `question`: what is asked: `FreeJson`, `DeferredCalls`, `DeferredJson` or `Form`. Default: nothing, and any JSON answers.
        - `question_later`: the question comes by `set_question`; until then answers are refused.
        - `labels`: to find the wait by, at most 64.
        - `request_id`: makes an open without a key the same as an earlier one with this id. Default: a fresh UUIDv7.

        Reasons: `INVALID_FIELD`, `INVALID_JSON`, `KEY_CONFLICT`, `WAIT_PURGED`, `REQUEST_ID_REUSED`.
        """
        spec = _spec(name, key, namespace, timeout, heartbeat_timeout, question, question_later, labels)
        return await self._open(v1.WaitRequest(spec=spec, request_id=_request_id(request_id)))

    async def wait(
        self,
        name: str,
        *,
        key: str | None = None,
        namespace: str | None = None,
        timeout: timedelta | float | None = None,
        heartbeat_timeout: timedelta | float | None = None,
        question: Question | None = None,
        question_later: bool = False,
        labels: Mapping[str, str] | None = None,
        request_id: str | None = None,
    ) -> Wait:
        """Opens a wait, or re-opens it by its key, and stays attached until its outcome or until it is closed. Arguments and reasons as
        for `open`. Returns once the wait is durable; the outcome may be there already."""
        spec = _spec(name, key, namespace, timeout, heartbeat_timeout, question, question_later, labels)
        return await self._follow(v1.WaitRequest(spec=spec, request_id=_request_id(request_id)))

    async def attach(self, token: str | None = None, *, key: str | None = None, namespace: str | None = None) -> Wait:
        """Attaches to a wait by its token, or by its key, in any state. Never opens one.

        Reasons: `TOKEN_UNKNOWN`, `WAIT_UNKNOWN`, `WAIT_PURGED`. Raises `ValueError` unless exactly one of token and key is given.
        """
        if (token is None) == (key is None):
            raise ValueError("give either a token or a key")
        if token is not None:
            request = v1.AttachRequest(token=text("token", token))
        else:
            wait_key = v1.WaitKey(namespace=text_or_empty("namespace", namespace), key=key_or_empty(key))
            request = v1.AttachRequest(key=wait_key)
        return await self._follow(request)

    async def mark_asked(self, token: str) -> datetime | None:
        """Records that question and token were handed on, so that a worker that runs again does not ask again. Starts the heartbeat
        clock. Idempotent: returns when it was first marked, `None` if the wait was settled before anybody marked it.

        Reasons: `TOKEN_UNKNOWN`, `WAIT_PURGED`.
        """
        return await self._mark_asked(token, self.settings.patience)

    async def mark_asked_at_last(self, token: str) -> None:
        """As `mark_asked`, for as long as it takes: what was handed on cannot be taken back."""
        await self._mark_asked(token, None)

    async def set_question(self, token: str, question: Question) -> None:
        """Sets the question of a wait that was opened with `question_later`. The same question again is OK.

        Reasons: `QUESTION_CONFLICT`, `ALREADY_SETTLED`, `INVALID_JSON`, `INVALID_FIELD`.
        """
        request = v1.SetQuestionRequest(token=text("token", token), question=question_message(question))
        await self._call(lambda line: line.waits.SetQuestion, request)

    async def cancel(self, token: str, reason: str = "") -> Outcome:
        """Withdraws a wait whose answer is no longer needed, and returns what is recorded: cancelled, or the outcome that came before.
        `reason` is for people, at most 4096 characters.

        Reasons: `TOKEN_UNKNOWN`, `WAIT_PURGED`.
        """
        request = v1.CancelWaitRequest(token=text("token", token), reason=text("reason", reason))
        response: v1.CancelWaitResponse = await self._call(lambda line: line.waits.CancelWait, request)
        return _convert.outcome(response.outcome)

    async def wait_for_external_event(
        self,
        name: str,
        ask: AskFunction,
        *,
        key: str | None = None,
        namespace: str | None = None,
        timeout: timedelta | float | None = None,
        heartbeat_timeout: timedelta | float | None = None,
        question: Question | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Answer:
        """Opens a wait, asks, and returns the answer. Arguments and reasons as for `open`.

        `ask` is called once with the wait's `Ticket`, to hand the token on, and runs beside the open stream: an outcome that arrives
        meanwhile cancels it. It is not called for a wait that was asked before, or that is settled. It may be a coroutine function, or a
        function that returns at once. What it returns: `None`, and the wait is marked asked and its answer awaited; or `Answered`, and
        that is recorded like anybody else's answer, and the recorded one is returned. If it raises, a wait without a key is cancelled,
        and one with a key stays open and not asked, so that running again asks again.

        If the calling task is cancelled, a wait without a key is withdrawn, within 5 s or in the background; one with a key lives on.

        Raises `WaitFailed`, `WaitExpired` and `WaitCancelled` for an end without an answer, `AskFailed` where `ask` raised.
        """
        spec = _spec(name, key, namespace, timeout, heartbeat_timeout, question, False, labels)
        return (await wait_asking(self, spec, ask)).answer()

    async def ask(self, wait: Wait, ask: AskFunction) -> None:
        """The part of `wait_for_external_event` between opening and waiting, for those who do these themselves: asks for a wait that is
        attached to, unless it was asked before or is settled, and marks it asked or records the answer. Returns once that is done or the
        outcome has arrived. It cancels nothing.

        Raises `AskFailed` if `ask` raised, `Refused` if its answer was refused.
        """
        await ask_for(self, wait, ask)

    # Resolvers

    async def resolve(
        self,
        token: str,
        answer: Any = NOTHING,
        *,
        payload_json: str | None = None,
        results: v1.DeferredToolResults | Results | None = None,
        partial: bool = False,
        answered_by: str = "",
        request_id: str | None = None,
    ) -> Settled:
        """Answers a wait. When it returns, the answer is durable and is what every worker gets. Give exactly one of:

        - `answer`: any value that JSON has, which is encoded;
        - `payload_json`: JSON text, delivered byte for byte. Tool calls are answered with the JSON form of `DeferredToolResults`;
        - `results`: decisions on tool calls.

        `partial` decides only those tool calls that the answer names, all of them or none, and leaves the wait open until the last one
        is decided. `answered_by` says who answers, up to 256 characters: an equal answer by somebody else is a repeat. `request_id`, 1 to
        128 characters, is refused with another answer.

        Reasons, which leave the wait as it was: `INVALID_JSON`, `INVALID_ANSWER`, `INVALID_FIELD`, `ALREADY_SETTLED`, `ALREADY_DECIDED`,
        `QUESTION_NOT_SET`, `REQUEST_ID_REUSED`, `TOKEN_UNKNOWN`, `WAIT_PURGED`; see `Refused`.
        """
        if (answer is not NOTHING) + (payload_json is not None) + (results is not None) != 1:
            raise ValueError("give exactly one of answer, payload_json and results")
        request = v1.ResolveRequest(
            token=text("token", token),
            partial=partial,
            answered_by=text("answered_by", answered_by),
            request_id=text_or_empty("request_id", request_id),
        )
        if results is not None:
            request.results.CopyFrom(results_message(results))
        else:
            request.payload_json = (
                json_text("answer", encode_json(answer)) if payload_json is None else json_text("payload_json", payload_json)
            )
        return _convert.resolved(await self._call(lambda line: line.resolves.Resolve, request))

    async def approve(
        self,
        token: str,
        tool_call_id: str,
        *,
        override_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        answered_by: str = "",
    ) -> Settled:
        """Lets one tool call run, with the model's arguments or with `override_args`, and leaves the others open: a partial answer.
        `metadata` is for the tool. A click that comes twice is OK. Reasons as for `resolve`."""
        results = Results().approve(tool_call_id, override_args)
        return await self._decide(token, tool_call_id, results, metadata, answered_by)

    async def deny(
        self,
        token: str,
        tool_call_id: str,
        message: str | None = None,
        *,
        metadata: dict[str, Any] | None = None,
        answered_by: str = "",
    ) -> Settled:
        """Keeps one tool call from running; `message` is what the model is told. Otherwise as `approve`."""
        results = Results().deny(tool_call_id, message)
        return await self._decide(token, tool_call_id, results, metadata, answered_by)

    async def fail(
        self,
        token: str,
        reason: str = "",
        *,
        error_type: str = "",
        details_json: str = "",
        request_id: str | None = None,
    ) -> Settled:
        """Ends a wait without an answer: the worker gets the reason, as data. `reason` is for people, at most 4096 characters;
        `error_type` a name that programs may branch on, at most 256; `details_json` more about it, as JSON text. Reasons as for
        `resolve`."""
        request = v1.FailRequest(
            token=text("token", token),
            reason=text("reason", reason),
            error_type=text("error_type", error_type),
            details_json=json_text("details_json", details_json),
            request_id=text_or_empty("request_id", request_id),
        )
        return _convert.failed(await self._call(lambda line: line.resolves.Fail, request))

    async def describe(self, token: str) -> WaitInfo:
        """Shows a wait by its token: what is asked, until when, and the outcome if there is one. Reasons: `TOKEN_UNKNOWN`,
        `WAIT_PURGED`."""
        request = v1.DescribeWaitRequest(token=text("token", token))
        response: v1.DescribeWaitResponse = await self._call(lambda line: line.resolves.DescribeWait, request)
        return _convert.info(response.wait)

    async def heartbeat(self, token: str) -> datetime | None:
        """Says that the answering side is alive, and returns when the heartbeat timeout now runs out: `None` where no heartbeat is
        demanded and before the wait is asked. Reasons: `ALREADY_SETTLED` (stop working on it), `TOKEN_UNKNOWN`, `WAIT_PURGED`."""
        request = v1.HeartbeatRequest(token=text("token", token))
        response: v1.HeartbeatResponse = await self._call(lambda line: line.resolves.Heartbeat, request)
        return _convert.time_or_none(response, "heartbeat_expire_time")

    # People's tools

    async def get(self, wait_id: str) -> WaitInfo:
        """Shows a wait by its public name. Reasons: `WAIT_UNKNOWN`."""
        request = v1.GetWaitRequest(wait_id=text("wait_id", wait_id))
        response: v1.GetWaitResponse = await self._call(lambda line: line.inbox.GetWait, request)
        return _convert.info(response.wait)

    def list(
        self,
        *,
        namespace: str | None = None,
        states: Iterable[State] = (),
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        min_age: timedelta | float | None = None,
        max_age: timedelta | float | None = None,
        page_size: int = 0,
    ) -> AsyncIterator[WaitInfo]:
        """Lists waits, newest first, without question and outcome. Everything that is given must match.

        - `states`: any of these; default all. `name`: exactly this. `labels`: all of these.
        - `min_age`, `max_age`: opened at least, or at most, this long ago, in seconds where it is a number.
        - `page_size`: how many the broker is asked for at once, up to 1000; default 50.

        Reasons: `INVALID_FIELD`.
        """
        return list_waits(self, wait_filter(namespace, states, name, labels, min_age, max_age), page_size)

    def watch(
        self,
        *,
        namespace: str | None = None,
        states: Iterable[State] = (),
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        min_age: timedelta | float | None = None,
        max_age: timedelta | float | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """Follows the waits that match: first each of them as it is, then each one that changes. A wait that no longer matches is told
        once more. Arguments as for `list`.

        It never ends by itself, and begins again after a cut. Read it steadily: a watcher that falls behind is let go by the broker, and
        then begins again. Raises `Unavailable` if the broker cannot be reached at first. Reasons: `INVALID_FIELD`.
        """
        return watch_waits(self, wait_filter(namespace, states, name, labels, min_age, max_age))

    # What the above are made of

    async def _open(self, wait: v1.WaitRequest) -> OpenedWait:
        request = v1.OpenWaitRequest(spec=wait.spec, request_id=wait.request_id)
        response: v1.OpenWaitResponse = await self._call(lambda line: line.waits.OpenWait, request)
        if not response.HasField("opened"):
            raise ProtocolError("an open without its wait")
        outcome = _convert.outcome(response.outcome) if response.HasField("outcome") else None
        return OpenedWait(_convert.opened(response.opened), outcome)

    async def _follow(self, request: v1.WaitRequest | v1.AttachRequest) -> Wait:
        stream = await self._streams.begin_patiently(request)
        return Wait(self._streams, stream, self._channels.here())

    async def _mark_asked(self, token: str, patience: float | None) -> datetime | None:
        request = v1.MarkAskedRequest(token=text("token", token))
        response: v1.MarkAskedResponse = await self._call(lambda line: line.waits.MarkAsked, request, patience=patience)
        return _convert.time_or_none(response, "ask_time")

    async def _decide(self, token: str, tool_call_id: str, results: Results, metadata: dict[str, Any] | None, answered_by: str) -> Settled:
        if metadata is not None:
            results.metadata(tool_call_id, metadata)
        return await self.resolve(token, results=results, partial=True, answered_by=answered_by)

    async def _call(self, rpc: Callable[[Any], Callable[..., Awaitable[T]]], request: Any, *, patience: float | None = NOTHING) -> Any:
        """Makes a call until it succeeds, is refused, or `patience` has passed at the end of a try; `None` for ever."""
        limit = self.settings.attempt_timeout
        tries = Tries(self.settings, self._restraint, self._absence, self.settings.patience if patience is NOTHING else patience)
        while True:
            lines = self._channels.here()
            line = lines.get("calls")
            try:
                # The deadline goes to the broker as well, but grpcio may itself be late to notice it.
                response = await within(limit + 1, rpc(line)(request, timeout=limit), f"no answer within {limit:g} s")
                if response is None:
                    # What grpcio gives for bytes that are no such message, and for a success without one.
                    raise lost("the answer could not be read")
                self._absence.over()
                return response
            except Cut as cut:
                if cut.silent:
                    lines.give_up("calls", line, grace=limit)
                await tries.pause(cut.why)


def _request_id(given: str | None) -> str:
    return text_or_empty("request_id", given) or _convert.new_request_id()


def _spec(
    name: str,
    key: str | None,
    namespace: str | None,
    timeout: timedelta | float | None,
    heartbeat_timeout: timedelta | float | None,
    question: Question | None,
    question_later: bool,
    labels: Mapping[str, str] | None,
) -> v1.WaitSpec:
    spec = v1.WaitSpec(
        name=text("name", name),
        key=key_or_empty(key),
        namespace=text_or_empty("namespace", namespace),
        question_later=question_later,
        labels=texts("labels", labels),
    )
    # One of the two is always said: otherwise the deadline of a stream would become the timeout of the wait.
    if timeout is None:
        spec.no_timeout = True
    else:
        spec.timeout.CopyFrom(duration("timeout", timeout))
    if heartbeat_timeout is not None:
        spec.heartbeat_timeout.CopyFrom(duration("heartbeat_timeout", heartbeat_timeout))
    if question is not None:
        spec.question.CopyFrom(question_message(question))
    return spec
