"""The waiter that keeps a run's waits in a broker."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any

import anyio
from pydantic_ai.exceptions import UserError
from pydantic_ai.external_events import ExternalEventWaiter

from abeyance import AbeyanceClient, AbeyanceError, DeferredJson, Outcome, State, Wait

from ._keys import external_key
from ._outcome import payload
from ._question import PendingCalls, take

Ask = Callable[[str], Awaitable[Any]]

CLEAN_UP = 5.0
"""Seconds that a run which was cancelled, or whose ask failed, takes at most to withdraw or leave its wait."""
