"""What arguments must be, said by their names: protobuf says "bad argument type for built-in operation"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

__all__ = ["duration", "json_text", "key_or_empty", "seconds", "text", "text_or_empty", "texts"]


def text(argument: str, value: str) -> str:
    """A text. Raises `TypeError` for anything else, and `ValueError` for a text that has no UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a str, not {type(value).__name__}")
    return _encodable(argument, value)


def text_or_empty(argument: str, value: str | None) -> str:
    """A text, or the empty one for `None`, as the contract has it."""
    return "" if value is None else text(argument, value)


def key_or_empty(key: str | None) -> str:
    """The key of a wait. An empty one would silently be none."""
    if key == "":
        raise ValueError("key must not be empty; leave it out for a wait without one")
    return text_or_empty("key", key)


def json_text(argument: str, value: str) -> str:
    """JSON text. Whether it is JSON is for the broker to say."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be JSON text (a str), not {type(value).__name__}")
    return _encodable(argument, value)


def texts(argument: str, value: Mapping[str, str] | None) -> dict[str, str]:
    """Texts by their names."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{argument} must map str to str, and is {type(value).__name__}")
    return {text(f"the key {key!r} of {argument}", key): text(f"{argument}[{key!r}]", each) for key, each in value.items()}


def duration(argument: str, length: timedelta | float) -> Duration:
    """A length of time, in seconds where it is a number. Raises `TypeError` for what is neither, `ValueError` for what is no length."""
    given = length if isinstance(length, timedelta) else _timedelta(argument, length)
    if given < timedelta(0):
        raise ValueError(f"{argument} must not be negative, and is {length!r}")
    message = Duration()
    message.FromTimedelta(given)
    return message


def seconds(argument: str, value: float) -> float:
    """A number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{argument} must be a number of seconds, not {type(value).__name__}")
    if math.isnan(value):
        raise ValueError(f"{argument} must be a number of seconds, and is {value!r}")
    return value


def _timedelta(argument: str, value: float) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{argument} must be a timedelta or a number of seconds, not {type(value).__name__} ({value!r})")
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{argument} must be a length of time, and is {value!r}") from error


def _encodable(argument: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        # The error's own object would show the text, which may be a token or an answer.
        raise ValueError(f"{argument} has no UTF-8: {error.reason} at character {error.start}") from None
    return value
