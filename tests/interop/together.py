"""What the pairings of a scenario share."""

import asyncio
import itertools
import random
from types import TracebackType
from typing import Self

from servers import Broker

ids = itertools.count()


class Shared:
    """Shared by the pairings that run a scenario together. Entered before the first begins and left after the last."""

    def __init__(self, broker: Broker, pairings: int, seed: int) -> None:
        self.broker = broker
        self.pairings = pairings
        self.random = random.Random(seed)
        # Where workers and resolvers find the broker.
        self.target = broker.target

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def unique(self) -> int:
        """A number for a key: keys outlive scenarios, which the self-test runs again and again."""
        return next(ids)

    def gone(self) -> None:
        """A pairing is done, or failed: the others need not wait for it."""


class Restart(Shared):
    """Kills the broker and starts it again once all pairings wait."""

    def __init__(self, broker: Broker, pairings: int, seed: int) -> None:
        super().__init__(broker, pairings, seed)
        self.here = 0
        self.left = pairings
        self.restarting: asyncio.Task[None] | None = None
        self.restarted = asyncio.Event()

    async def all_here(self) -> None:
        """Returns when the broker is up again."""
        self.here += 1
        self._go()
        await self.restarted.wait()
        assert self.restarting is not None
        await self.restarting

    def gone(self) -> None:
        self.left -= 1
        self._go()

    def _go(self) -> None:
        if self.restarting is None and self.here and self.here >= self.left:
            self.restarting = asyncio.create_task(self._restart())

    async def _restart(self) -> None:
        try:
            await self._stop()
            await self.broker.start()
        finally:
            self.restarted.set()

    async def _stop(self) -> None:
        await self.broker.kill()


class Drain(Restart):
    """Stops the broker in order, and starts it again."""

    async def _stop(self) -> None:
        await self.broker.stop()
