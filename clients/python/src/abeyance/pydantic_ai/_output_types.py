"""Whether an agent's run can go on with tool calls left pending."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic_ai.tools import DeferredToolRequests


def may_leave_pending(output_type: Any) -> bool:
    """Whether `DeferredToolRequests` is among `output_type`, an agent's output types: listed, nested, or in a union."""
    return any(output is DeferredToolRequests for output in _outputs(output_type))


def _outputs(output_type: Any) -> Iterator[Any]:
    # `type X = A | B`.
    output_type = getattr(output_type, "__value__", output_type)
    if isinstance(output_type, Sequence):
        members: Sequence[Any] = output_type
    elif get_origin(output_type) in (Union, UnionType):
        members = get_args(output_type)
    else:
        yield output_type
        return
    for member in members:
        yield from _outputs(member)
