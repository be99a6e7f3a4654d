"""Event loops and threads: a client serves whichever loop asks. Engines run loops of their own."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref

from abeyance import AbeyanceClient, Answered
from abeyance._channels import Channels
from abeyance.settings import Settings

from .broker import Broker


async def round_trip(client: AbeyanceClient, value: object) -> object:
    async with await client.wait("loops", timeout=60) as wait:
        await client.resolve(wait.token, value)
        return (await wait.outcome()).value


def test_one_client_serves_one_loop_after_the_other(broker: Broker) -> None:
    client = AbeyanceClient(broker.target)
    # Nobody closes it: each loop ends with connections open.
    assert [asyncio.run(round_trip(client, n)) for n in range(3)] == [0, 1, 2]


def test_a_wait_that_is_followed_does_not_keep_a_loop_from_ending(broker: Broker) -> None:
    client = AbeyanceClient(broker.target)

    async def leave() -> str:
        return (await client.wait("left", timeout=60)).token

    token = asyncio.run(leave())
    assert asyncio.run(client.describe(token)).outcome is None


def test_one_client_serves_two_threads_at_once(broker: Broker) -> None:
    client = AbeyanceClient(broker.target)
    both = threading.Barrier(2)
    answers: list[object] = []

    async def work(name: str) -> None:
        for n in range(50):
            if n == 0:
                await asyncio.to_thread(both.wait)
            answers.append(await round_trip(client, f"{name}{n}"))

    threads = [threading.Thread(target=asyncio.run, args=(work(name),)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(str, answers)) == sorted(f"{name}{n}" for name in "ab" for n in range(50))


def test_connections_of_closed_loops_are_dropped() -> None:
    channels = Channels("127.0.0.1:1", Settings())
    lines = []

    async def use() -> None:
        lines.append(weakref.ref(channels.here().get("waits")))

    for _ in range(3):
        asyncio.run(use())
    gc.collect()
    # The last one goes when the next one comes.
    assert [line() is None for line in lines] == [True, True, False]


async def test_each_kind_of_call_has_a_connection_of_its_own(broker: Broker) -> None:
    lines = Channels(broker.target, Settings()).here()
    kinds = ("waits", "calls", "watches")
    assert len({lines.get(kind).channel for kind in kinds}) == 3
    assert lines.get("waits") is lines.get("waits")
    await lines.close()


def test_nothing_connects_and_no_loop_is_needed_before_the_first_call() -> None:
    # An import must leave nothing behind that a fork or an engine's sandbox could trip over.
    script = (
        "import abeyance, threading; abeyance.AbeyanceClient('127.0.0.1:1'); abeyance.SyncAbeyanceClient(); print(threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "1\n"


async def test_no_number_of_waits_keeps_a_call_from_its_turn(client: AbeyanceClient) -> None:
    waits = await asyncio.gather(*(client.wait("crowd", timeout=60) for _ in range(300)))
    await asyncio.wait_for(client.resolve(waits[-1].token, True), 5)
    assert (await waits[-1].outcome()).value is True


async def test_waits_may_be_asked_for_at_once(client: AbeyanceClient) -> None:
    asking = (client.wait_for_external_event("many", lambda _, n=n: Answered(n), timeout=60) for n in range(100))  # type: ignore[misc]
    assert [a.value for a in await asyncio.gather(*asking)] == list(range(100))
