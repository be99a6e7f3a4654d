"""The keys under which a run that starts again meets its waits.

Pure: used by every waiter, also by those that run inside a workflow engine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from pydantic_ai.exceptions import UserError

if TYPE_CHECKING:
    from ._question import PendingCalls

# The contract's bound.
_KEY_CHARACTERS = 512


class RunKeys:
    """Gives the waits of one run their keys, and refuses two at once that cannot be told apart.

    For as long as the run lasts: it knows which of its waits are open.
    """

    def __init__(self, key: str, ordinal: int = 0) -> None:
        """`key` is the run's; of waits of which nothing but their name is known, `ordinal` lie behind it for each name.

        Raises `TypeError` for a key that is no text, and `ValueError` for an empty one, under which all runs would share their waits.
        """
        if not isinstance(key, str):
            raise TypeError(f"key must be a str, not {type(key).__name__}")
        if not key:
            raise ValueError("key must not be empty: all runs would share their waits. None is for a run without a key.")
        self._key = key
        self._ordinal = ordinal
        self._waits: Counter[str] = Counter()
        self._open: set[tuple[str, str]] = set()

    @contextmanager
    def enter(self, name: str, calls: PendingCalls | None) -> Generator[str]:
        """The key of a wait that lasts as long as the context. `calls` is what it asks about, if that is known.

        Raises:
            UserError: Another one is open that a run which comes again could take for this one.
        """
        if calls is None:
            place = ("name", name)
            key = external_key(self._key, name, self._ordinal + self._waits[name])
        else:
            key = calls.key(self._key, name)
            place = ("key", key)
        if place in self._open:
            raise UserError(_SAME_NAME.format(name=name) if calls is None else _SAME_CALLS.format(name=name))
        if calls is None:
            self._waits[name] += 1
        self._open.add(place)
        try:
            yield key
        finally:
            self._open.remove(place)


_SAME_NAME = (
    "A run with a key waits for {name!r} while another wait of that name is open. They are told apart by their order alone, so a run that "
    "comes again could give each the answer of the other. Give each a name of its own; or wait through "
    "abeyance.pydantic_ai.RequestInput, whose calls are part of the key. Nobody was asked."
)

_SAME_CALLS = (
    "A run with a key waits for decisions on the same tool calls twice at once, with the same name ({name!r}), ids and arguments, and as "
    "many messages before them: one decision would count for both. Run each agent that a tool calls in an external_event_scope of its "
    "own, whose waiter has a key of its own, such as the run's with the tool call's id behind it. Nobody was asked."
)


def external_key(key: str, name: str, ordinal: int) -> str:
    """The key of a wait of which nothing but its name is known.

    `ordinal` counts the waits of that name in one run, from 0.
    """
    return _joined(key, name, str(ordinal))


def calls_key(key: str, name: str, messages: int, digest: str) -> str:
    """The key of a wait for decisions on tool calls.

    `messages` is the number of messages of the run so far: ids may repeat within one run, and this tells the steps apart.
    `digest` is that of `calls_digest`.
    """
    return _joined(key, name, str(messages), digest)


def _joined(*parts: str) -> str:
    """One key of several parts, so that no two waits share one whatever characters the parts have.

    Plain ids stay as they are; a key beyond what the broker takes becomes a digest.
    """
    key = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)
    if len(key) > _KEY_CHARACTERS:
        return "sha256/" + sha256(key.encode()).hexdigest()
    return key


def calls_digest(requests_json: str) -> str:
    """A digest of pending tool calls: of each its id, tool and arguments, whatever their order.

    `requests_json` is the JSON form of `DeferredToolRequests`.

    Whether a call is to be approved or carried out elsewhere is left out, though the broker counts it: where a run that comes again
    differs in that alone, it meets its earlier wait and is refused with `KEY_CONFLICT`. With it, people would be asked about the same
    calls a second time, and the first question would stay open.
    """
    requests = json.loads(requests_json)
    calls = [*requests["approvals"], *requests["calls"]]
    told = [[call["tool_call_id"], call["tool_name"], call["args"]] for call in calls]
    told.sort(key=lambda call: str(call[0]))
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:32]
