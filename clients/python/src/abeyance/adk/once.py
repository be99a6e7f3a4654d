"""Keeps two processes that follow one session from resuming it with the same answer."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.plugins import BasePlugin
from google.adk.runners import Runner
from google.genai import types

from .inputs import PendingInput, pending_inputs

__all__ = ["Resumes"]


class _Overtaken(Exception):
    """The session has the answer already."""


@dataclass
class _Resume:
    """One message that answers, on its way into a session."""

    message: types.Content
    answered: frozenset[str]
    """The keys of the inputs that it answers."""
    context: InvocationContext | None = None
    """The run that takes it, once it looked at the session."""
    overtaken: bool = False
    recorded: bool = False
    """It is in the session."""


class Resumes:
    """Resumes sessions of a runner with answers that the session does not have.

    A runner reads the session anew when it resumes. Between the look at it that found an input open and that reading, another process
    may have answered. So a plugin looks once more at what the runner has read. From there on the session service sees to it: it does
    not let a session be changed that is not as it was read.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._plugin = _LastLook()
        runner.plugin_manager.register_plugin(self._plugin)

    async def run(
        self,
        user_id: str,
        session_id: str,
        message: types.Content,
        answered: Iterable[PendingInput],
        run_config: RunConfig | None,
    ) -> AsyncGenerator[Event, None]:
        """Resumes a session with `message`. Ends without an event, and without having changed the session, if another was faster."""
        resume = _Resume(message, frozenset(each.key for each in answered))
        self._plugin.resumes.append(resume)
        try:
            run = self._runner.run_async(user_id=user_id, session_id=session_id, new_message=message, run_config=run_config)
            async with aclosing(run):
                async for event in run:
                    yield event
        except StaleSessionError:
            # Later than that it is not our answer that came too late.
            if resume.context is None or resume.recorded:
                raise
        except Exception:
            if not resume.overtaken:
                raise
        finally:
            self._plugin.resumes.remove(resume)


class _LastLook(BasePlugin):
    def __init__(self) -> None:
        super().__init__(name=f"abeyance_{uuid.uuid4().hex}")
        self.resumes: list[_Resume] = []

    async def on_user_message_callback(self, *, invocation_context: InvocationContext, user_message: types.Content) -> None:
        for resume in self.resumes:
            if resume.message is user_message:
                resume.context = invocation_context
                if not resume.answered <= {each.key for each in pending_inputs(invocation_context.session)}:
                    resume.overtaken = True
                    raise _Overtaken("another process has resumed the session with these answers")

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        for resume in self.resumes:
            if resume.context is invocation_context:
                resume.recorded = True
