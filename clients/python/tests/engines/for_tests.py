"""Appended to the application's part of the recipes: where things are, and a model that behaves as real ones do."""

import json
import os
from datetime import timedelta
from uuid import uuid4

from pydantic_ai import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from abeyance import AbeyanceClient

__all__ = ["HEARTBEAT", "MODEL", "TEMPORAL", "broker"]

broker = AbeyanceClient(os.environ["BROKER"])
TEMPORAL = os.environ.get("TEMPORAL", "")
HEARTBEAT = timedelta(seconds=2)


def _respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Refunds the orders that the prompt lists, one in each step, and then tells what came of them. Call ids are always fresh."""
    print("model: asked", flush=True)
    parts = [part for message in messages for part in message.parts]
    orders = next(str(part.content) for part in parts if isinstance(part, UserPromptPart)).split()
    told = [part.content for part in parts if isinstance(part, ToolReturnPart)]
    if len(told) < len(orders):
        order = orders[len(told)]
        return ModelResponse([ToolCallPart("issue_refund", {"order": order}, tool_call_id=f"call_{uuid4().hex}")])
    return ModelResponse([TextPart(json.dumps(told))])


MODEL = FunctionModel(_respond)
