"""An agent whose refunds and deletions need a person's approval. It waits in the broker, so it may be killed and run again.

    python worker.py ORDER

The order is the run's id too: the same order continues the same run, whose messages are saved before anybody is asked. A scripted model
stands in for a real one, so that no key is needed; like a real one it makes new call ids each time it is asked.
"""

import argparse
import asyncio
import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from abeyance import AbeyanceClient, Unavailable
from abeyance.pydantic_ai import AbeyanceWaiter, RequestInput
from pydantic_ai import Agent, RunContext
from pydantic_ai.external_events import external_event_scope
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests

from inbox import Inbox

SERVER = os.environ.get("ABEYANCE_SERVER", "127.0.0.1:2239")
DATA = Path(os.environ.get("APPROVALS_DIR", "data"))
PROMPT = "Refund {order} and close the account c-20481."


@dataclass
class Run:
    """One run and where it is kept."""

    run_id: str
    inbox: Inbox

    @property
    def saved(self) -> Path:
        """Its messages, since it asked."""
        return DATA / f"run-{self.run_id}.json"

    @property
    def result(self) -> Path:
        """What became of it, since it ended."""
        return DATA / f"run-{self.run_id}.txt"


def ask(ctx: RunContext[Run], requests: DeferredToolRequests, token: str) -> None:
    """Saves the run, then hands the token to the web page. In this order: whoever answers must find a run that can go on."""
    partial = ctx.deps.saved.with_suffix(".partial")
    partial.write_bytes(ModelMessagesTypeAdapter.dump_json(ctx.messages))
    partial.replace(ctx.deps.saved)
    ctx.deps.inbox.post(ctx.deps.run_id, token)
    print(f"asked about {len(requests.approvals)} tool calls", flush=True)


def model(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Stands in for a language model: calls two tools, then tells what came of it."""
    last = messages[-1]
    told = [part for part in last.parts if isinstance(part, ToolReturnPart)] if isinstance(last, ModelRequest) else []
    if told:
        return ModelResponse(parts=[TextPart("; ".join(f"{part.tool_name}: {part.content}" for part in told))])
    order = next(str(part.content) for part in last.parts if isinstance(part, UserPromptPart)).split()[1]
    return ModelResponse(
        parts=[
            ToolCallPart("issue_refund", {"order": order, "amount": 500}, tool_call_id=f"call_{uuid.uuid4().hex}"),
            ToolCallPart("delete_account", {"customer": "c-20481"}, tool_call_id=f"call_{uuid.uuid4().hex}"),
        ]
    )


agent = Agent(FunctionModel(model), deps_type=Run, capabilities=[RequestInput(ask, name="customer-service")])


@agent.tool_plain(requires_approval=True)
def issue_refund(order: str, amount: float) -> str:
    """Gives the customer money back."""
    return f"refunded ${amount:g} for {order}"


@agent.tool_plain(requires_approval=True)
def delete_account(customer: str) -> str:
    """Deletes all that is known of a customer."""
    return f"deleted {customer}"


async def main(run_id: str) -> None:
    run = Run(run_id, Inbox(DATA / "inbox.db"))
    if run.result.exists():
        # It ended before; its tools must not run twice.
        print(f"done: {run.result.read_text()}", flush=True)
        return
    # With its messages a run goes on where it asked, under the call ids that were asked about. Without them the model would be asked
    # anew, and people after it.
    messages = ModelMessagesTypeAdapter.validate_json(run.saved.read_bytes()) if run.saved.exists() else None
    print(f"run {run_id} {'goes on' if messages else 'begins'}", flush=True)
    async with AbeyanceClient(SERVER) as client:
        with external_event_scope(AbeyanceWaiter(client, key=run_id)):
            result = await agent.run(None if messages else PROMPT.format(order=run_id), message_history=messages, deps=run)
    run.result.write_text(result.output)
    print(f"done: {result.output}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent that needs approvals.")
    parser.add_argument("order", help="letters, digits and dashes; the same order continues the same run")
    order = parser.parse_args().order
    if not order.replace("-", "").isalnum():
        parser.error("an order has letters, digits and dashes")
    try:
        asyncio.run(main(order))
    except KeyboardInterrupt:
        print(f"stopped; `python worker.py {order}` goes on with it", file=sys.stderr)
        sys.exit(130)
    except Unavailable as error:
        sys.exit(f"worker.py: the broker at {SERVER} cannot be reached; is `abeyance serve` running? ({error})")
