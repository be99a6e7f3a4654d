"""The keys under which a run that starts again meets its waits.

Pure: used by every waiter, also by those that run inside a workflow engine.
"""

from __future__ import annotations

import json
from hashlib import sha256


def external_key(key: str, name: str, ordinal: int) -> str:
    """The key of a wait of which nothing but its name is known.

    `ordinal` counts the waits of that name in one run, from 0.
    """
    return f"{key}/{name}/{ordinal}"


def calls_key(key: str, name: str, messages: int, digest: str) -> str:
    """The key of a wait for decisions on tool calls.

    `messages` is the number of messages of the run so far: ids may repeat within one run, and this tells the steps apart.
    `digest` is that of `calls_digest`.
    """
    return f"{key}/{name}/{messages}/{digest}"


def calls_digest(requests_json: str) -> str:
    """A digest of pending tool calls: of each its id, tool and arguments, whatever their order.

    `requests_json` is the JSON form of `DeferredToolRequests`.
    """
    requests = json.loads(requests_json)
    calls = [*requests["approvals"], *requests["calls"]]
    told = [[call["tool_call_id"], call["tool_name"], call["args"]] for call in calls]
    told.sort(key=lambda call: str(call[0]))
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:32]
