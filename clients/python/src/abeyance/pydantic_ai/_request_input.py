"""The capability that asks about tool calls, with the calls as the wait's question."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.capabilities import RequestInput as LibraryRequestInput
from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import AgentDepsT, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_core import PydanticSerializationError

from ._output_types import may_leave_pending
from ._question import PendingCalls, offer

# The library's own settings write NaN and infinities as null. A list of one, since a class alone takes no settings of others.
_REQUESTS = TypeAdapter(list[DeferredToolRequests], config=ConfigDict(ser_json_inf_nan="constants"))

_Answer = DeferredToolResults | None


@dataclass
class RequestInput(LibraryRequestInput[AgentDepsT]):
    """Pydantic AI's `RequestInput`, whose pending calls are the question of its wait in the broker.

    It takes the place of theirs among the agent's own capabilities, with the same `ask`, `timeout` and `name`. A run must wait
    inside `external_event_scope` of an `AbeyanceWaiter`. The broker then knows what is asked before the token leaves the run: it
    shows the calls to whoever has the token, takes decisions one by one, and refuses an answer that the run could not use to whoever
    sent it, so that a slip of theirs never fails the run.

    Other capabilities that handle deferred tool calls go first. Only what they leave is asked about.
    """

    may_leave_pending: bool | None = field(default=None, kw_only=True)
    """Whether one answer may leave calls undecided and still settle the wait; the run then ends with them as its output.

    `None`: if `DeferredToolRequests` is among the agent's output types. Those given to a single run as `output_type=` cannot be seen
    from here: say `True` or `False` where they differ in this from the agent's.
    """

    async def handle_deferred_tool_calls(self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests) -> DeferredToolResults:
        """Waits for decisions on `requests`. Called by the run.

        Raises:
            UserError: The run does not wait through Abeyance; nobody was asked. Or the calls, or an answer given by `ask` itself,
                cannot be used.
            AbeyanceError: The broker refused the wait, or could not be reached.
        """
        calls = PendingCalls(
            requests_json=_to_json(requests),
            may_leave_pending=self._may_leave_pending(ctx),
            messages=len(ctx.messages),
        )
        inner = LibraryRequestInput(self._ask_if_taken(calls), timeout=self.timeout, name=self.name)
        with offer(calls):
            return await inner.handle_deferred_tool_calls(ctx, requests=requests)

    def _may_leave_pending(self, ctx: RunContext[AgentDepsT]) -> bool:
        if self.may_leave_pending is not None:
            return self.may_leave_pending
        return ctx.agent is not None and may_leave_pending(ctx.agent.output_type)

    def _ask_if_taken(
        self, calls: PendingCalls
    ) -> Callable[[RunContext[AgentDepsT], DeferredToolRequests, str], Awaitable[_Answer] | _Answer]:
        """`ask`, which refuses unless a waiter has made the calls its question: without one the token is not the broker's."""
        ask = self.ask

        def check() -> None:
            if not calls.taken:
                raise UserError(
                    "abeyance.pydantic_ai.RequestInput waits in an Abeyance broker, but no AbeyanceWaiter is installed here: run the "
                    "agent inside `with external_event_scope(AbeyanceWaiter(...))`, and consume a streamed run there too. Nobody was asked."
                )

        async def ask_in_loop(ctx: RunContext[AgentDepsT], requests: DeferredToolRequests, token: str) -> _Answer:
            check()
            answer = ask(ctx, requests, token)
            return await answer if inspect.isawaitable(answer) else answer

        def ask_in_thread(ctx: RunContext[AgentDepsT], requests: DeferredToolRequests, token: str) -> Awaitable[_Answer] | _Answer:
            check()
            return ask(ctx, requests, token)

        # The library runs a sync `ask` in a worker thread, and tells them apart by looking at the function.
        is_async = inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(type(ask).__call__)
        return ask_in_loop if is_async else ask_in_thread


def _to_json(requests: DeferredToolRequests) -> str:
    try:
        text = _REQUESTS.dump_json([requests]).decode()[1:-1]
        json.loads(text, parse_constant=_refuse)
    except (PydanticSerializationError, ValueError) as error:
        raise UserError(f"The pending tool calls cannot be shown to anybody, since they have no JSON form: {error}") from error
    return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
