"""A network that loses all connections again and again, and a broker that is killed."""

import asyncio
from types import TracebackType
from typing import Self

from servers import Broker, Proxy
from together import Shared

# One in so many cuts is one of the broker itself.
KILLS = 6
# How long the cuts go on, and how far apart they are. Some fall into the middle of a connection that is just being made.
STORM_SECONDS = 6.0
LONGEST_CALM_SECONDS = 0.6


class Cuts(Shared):
    """All pairings reach the broker through one proxy that resets every connection at random moments, until the storm is over, and
    the broker is killed in between."""

    def __init__(self, broker: Broker, pairings: int, seed: int) -> None:
        super().__init__(broker, pairings, seed)
        self.proxy: Proxy | None = None
        self.storm: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.proxy = await Proxy.start("fault_proxy.py", self.broker.target)
        self.target = self.proxy.target
        self.storm = asyncio.create_task(self._rage(self.proxy))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self.storm is not None and self.proxy is not None
        # To its end, so that the broker is there for whoever comes next.
        await self.storm
        await self.proxy.stop()

    async def moment(self) -> None:
        """Some time within the storm."""
        await asyncio.sleep(self.random.uniform(0, STORM_SECONDS / 2))

    async def _rage(self, proxy: Proxy) -> None:
        now = asyncio.get_running_loop().time
        over = now() + STORM_SECONDS
        while now() < over:
            await asyncio.sleep(self.random.uniform(0, LONGEST_CALM_SECONDS))
            if self.random.randrange(KILLS) == 0:
                await self.broker.kill()
                await self.broker.start()
            else:
                await proxy.command("cut")
