"""The client for code without an event loop: threads and scripts."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, TypeAlias

from . import v1
from ._check import seconds
from ._json import NOTHING
from ._loop import ClientLoop, each, in_own_thread
from .client import AbeyanceClient
from .external import Answered, Ticket
from .inbox import WatchEvent
from .info import Decided, Settled, WaitInfo
from .outcome import Answer, Opened, OpenedWait, Outcome, State
from .question import Question
from .results import Results
from .settings import Settings
from .wait import Wait

__all__ = ["SyncAbeyanceClient", "SyncAskFunction", "SyncTicket", "SyncWait"]


class SyncWait:
    """A wait that is attached to, as `Wait`. Made by `SyncAbeyanceClient.wait` and `attach`. Safe to use from any thread."""

    def __init__(self, loop: ClientLoop, wait: Wait) -> None:
        self._loop = loop
        self._wait = wait

    @property
    def opened(self) -> Opened:
        """What the wait was when it was first attached to."""
        return self._wait.opened

    @property
    def token(self) -> str:
        """The bearer credential of this wait. A secret."""
        return self._wait.token

    @property
    def wait_id(self) -> str:
        """The wait's public name."""
        return self._wait.wait_id

    @property
    def attached(self) -> bool:
        """As `Wait.attached`."""
        return self._wait.attached

    @property
    def reattached(self) -> int:
        """As `Wait.reattached`."""
        return self._wait.reattached

    @property
    def time_left(self) -> float | None:
        """As `Wait.time_left`."""
        return self._wait.time_left

    @property
    def progress(self) -> Decided | None:
        """As `Wait.progress`."""
        return self._wait.progress

    def __repr__(self) -> str:
        return f"Sync{self._wait!r}"

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Waits for the outcome, as `Wait.outcome`. Raises `TimeoutError` if it is not there after `timeout` seconds (default: as long as
        it takes); nothing is lost then, and it may be called again."""
        if timeout is not None:
            seconds("timeout", timeout)
        return self._loop.run(self._wait.outcome(), timeout)

    def decisions(self) -> Iterator[Decided]:
        """As `Wait.decisions`: blocks until each next one."""
        return each(self._loop, self._wait.decisions())

    def close(self) -> None:
        """Detaches, and nothing more."""
        self._loop.run(self._wait.aclose())

    def __enter__(self) -> SyncWait:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class SyncTicket:
    """What an ask is given, as `Ticket`."""

    token: str = field(repr=False)
    """As `Ticket.token`."""
    wait_id: str
    """As `Ticket.wait_id`."""
    client: SyncAbeyanceClient = field(repr=False, compare=False)
    """As `Ticket.client`."""


SyncAskFunction: TypeAlias = Callable[[SyncTicket], Answered | None]
"""What hands a ticket on, or knows the answer. It may block."""


class SyncAbeyanceClient:
    """`AbeyanceClient` for code without an event loop. Its methods are the same, and block; it is safe to use from any thread.

    It runs the other one in an event loop of its own, in a thread that is begun with the first call and ends with `close`.
    """

    def __init__(self, target: str = "127.0.0.1:2239", *, settings: Settings | None = None) -> None:
        """As for `AbeyanceClient`. `target` is `host:port` or `http://host:port`. Nothing connects yet."""
        self._client = AbeyanceClient(target, settings=settings)
        self._loop = ClientLoop()

    def __repr__(self) -> str:
        return f"Sync{self._client!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        # As for the other client.
        return functools.partial(type(self), settings=self._client.settings), (self._client.target,)

    def __enter__(self) -> SyncAbeyanceClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Detaches all waits, closes the connections and ends the thread. Calls that other threads are in raise `Detached`. A later call
        begins anew."""
        self._loop.run(self._client.close())
        self._loop.stop()

    def open(
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
        """As `AbeyanceClient.open`."""
        return self._loop.run(
            self._client.open(
                name,
                key=key,
                namespace=namespace,
                timeout=timeout,
                heartbeat_timeout=heartbeat_timeout,
                question=question,
                question_later=question_later,
                labels=labels,
                request_id=request_id,
            )
        )

    def wait(
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
    ) -> SyncWait:
        """As `AbeyanceClient.wait`."""
        wait = self._loop.run(
            self._client.wait(
                name,
                key=key,
                namespace=namespace,
                timeout=timeout,
                heartbeat_timeout=heartbeat_timeout,
                question=question,
                question_later=question_later,
                labels=labels,
                request_id=request_id,
            )
        )
        return SyncWait(self._loop, wait)

    def attach(self, token: str | None = None, *, key: str | None = None, namespace: str | None = None) -> SyncWait:
        """As `AbeyanceClient.attach`."""
        return SyncWait(self._loop, self._loop.run(self._client.attach(token, key=key, namespace=namespace)))

    def mark_asked(self, token: str) -> datetime | None:
        """As `AbeyanceClient.mark_asked`."""
        return self._loop.run(self._client.mark_asked(token))

    def mark_asked_at_last(self, token: str) -> None:
        """As `AbeyanceClient.mark_asked_at_last`."""
        self._loop.run(self._client.mark_asked_at_last(token))

    def set_question(self, token: str, question: Question) -> None:
        """As `AbeyanceClient.set_question`."""
        self._loop.run(self._client.set_question(token, question))

    def cancel(self, token: str, reason: str = "") -> Outcome:
        """As `AbeyanceClient.cancel`."""
        return self._loop.run(self._client.cancel(token, reason))

    def wait_for_external_event(
        self,
        name: str,
        ask: SyncAskFunction,
        *,
        key: str | None = None,
        namespace: str | None = None,
        timeout: timedelta | float | None = None,
        heartbeat_timeout: timedelta | float | None = None,
        question: Question | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Answer:
        """As `AbeyanceClient.wait_for_external_event`. `ask` runs in a thread of its own, with the caller's context variables. An outcome
        that arrives meanwhile cannot interrupt it, but is returned at once."""
        return self._loop.run(
            self._client.wait_for_external_event(
                name,
                self._in_thread(ask),
                key=key,
                namespace=namespace,
                timeout=timeout,
                heartbeat_timeout=heartbeat_timeout,
                question=question,
                labels=labels,
            )
        )

    def ask(self, wait: SyncWait, ask: SyncAskFunction) -> None:
        """As `AbeyanceClient.ask`; `ask` runs as for `wait_for_external_event`."""
        self._loop.run(self._client.ask(wait._wait, self._in_thread(ask)))

    def _in_thread(self, ask: SyncAskFunction) -> Callable[[Ticket], Awaitable[Answered | None]]:
        context = contextvars.copy_context()

        async def asking(ticket: Ticket) -> Answered | None:
            given = SyncTicket(ticket.token, ticket.wait_id, self)
            return await in_own_thread(lambda: context.run(ask, given))

        return asking

    def resolve(
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
        """As `AbeyanceClient.resolve`."""
        return self._loop.run(
            self._client.resolve(
                token,
                answer,
                payload_json=payload_json,
                results=results,
                partial=partial,
                answered_by=answered_by,
                request_id=request_id,
            )
        )

    def approve(
        self,
        token: str,
        tool_call_id: str,
        *,
        override_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        answered_by: str = "",
    ) -> Settled:
        """As `AbeyanceClient.approve`."""
        return self._loop.run(
            self._client.approve(token, tool_call_id, override_args=override_args, metadata=metadata, answered_by=answered_by)
        )

    def deny(
        self,
        token: str,
        tool_call_id: str,
        message: str | None = None,
        *,
        metadata: dict[str, Any] | None = None,
        answered_by: str = "",
    ) -> Settled:
        """As `AbeyanceClient.deny`."""
        return self._loop.run(self._client.deny(token, tool_call_id, message, metadata=metadata, answered_by=answered_by))

    def fail(
        self,
        token: str,
        reason: str = "",
        *,
        error_type: str = "",
        details_json: str = "",
        request_id: str | None = None,
    ) -> Settled:
        """As `AbeyanceClient.fail`."""
        return self._loop.run(self._client.fail(token, reason, error_type=error_type, details_json=details_json, request_id=request_id))

    def describe(self, token: str) -> WaitInfo:
        """As `AbeyanceClient.describe`."""
        return self._loop.run(self._client.describe(token))

    def heartbeat(self, token: str) -> datetime | None:
        """As `AbeyanceClient.heartbeat`."""
        return self._loop.run(self._client.heartbeat(token))

    def get(self, wait_id: str) -> WaitInfo:
        """As `AbeyanceClient.get`."""
        return self._loop.run(self._client.get(wait_id))

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
    ) -> Iterator[WaitInfo]:
        """As `AbeyanceClient.list`."""
        waits = self._client.list(
            namespace=namespace,
            states=states,
            name=name,
            labels=labels,
            min_age=min_age,
            max_age=max_age,
            page_size=page_size,
        )
        return each(self._loop, waits)

    def watch(
        self,
        *,
        namespace: str | None = None,
        states: Iterable[State] = (),
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        min_age: timedelta | float | None = None,
        max_age: timedelta | float | None = None,
    ) -> Iterator[WatchEvent]:
        """As `AbeyanceClient.watch`."""
        events = self._client.watch(namespace=namespace, states=states, name=name, labels=labels, min_age=min_age, max_age=max_age)
        return each(self._loop, events)
