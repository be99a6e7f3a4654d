"""Delays between tries, and what counts as a reason for one."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
from typing import Any

import grpc
import pytest

from abeyance import Backoff, Settings, Unavailable
from abeyance._absence import Absence
from abeyance._retry import Rest, Restraint, Tries, within
from abeyance.errors import Refusal

LOST = Refusal(grpc.StatusCode.UNAVAILABLE, "lost")
# As grpcio puts it.
SCOLDED = Refusal(
    grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed (GOAWAY received; Error code: 11; Debug Text: too_many_pings))"
)
EXHAUSTED = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")


def test_bounds_double_up_to_the_cap() -> None:
    backoff = Backoff()
    assert [backoff.bound(n) for n in range(9)] == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert backoff.bound(10**9) == 30


@pytest.mark.parametrize("attempt", [0, 3, 40])
def test_a_delay_is_spread_over_all_of_its_bound(attempt: int) -> None:
    backoff = Backoff()
    bound = backoff.bound(attempt)
    delays = [backoff.delay(attempt) for _ in range(1000)]
    assert all(0 <= delay < bound for delay in delays)
    # Each fails by chance less than once in 10^40 runs.
    assert min(delays) < 0.1 * bound
    assert max(delays) > 0.9 * bound


def test_scolding_makes_the_next_try_a_sixth_one() -> None:
    restraint = Restraint()
    assert [restraint.after(LOST, n) for n in (0, 7)] == [0, 7]
    for why in (SCOLDED, EXHAUSTED):
        assert [restraint.after(why, n) for n in (0, 4, 5, 7)] == [5, 5, 5, 7]


async def test_a_rest_is_shared_and_grows() -> None:
    rest = Rest(Settings(backoff=Backoff(base=0.005, cap=30.0)))
    restraint = Restraint()
    begun = time.monotonic()
    await asyncio.gather(*(rest.pause(SCOLDED, restraint) for _ in range(100)))
    assert time.monotonic() - begun < 0.16 + 1.0
    # One rest for all of them, so the next one is the seventh try.
    assert rest._attempt == 6
    rest.over()
    assert rest._attempt == 0


def test_only_a_goaway_is_about_the_whole_connection() -> None:
    assert SCOLDED.is_scolded_connection
    assert not EXHAUSTED.is_scolded_connection
    assert not Refusal(grpc.StatusCode.UNAVAILABLE, "GOAWAY received; Error code: 0; Debug Text: max_age").is_scolding


def test_many_scoldings_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "abeyance")
    restraint = Restraint()
    restraint.after(LOST, 0)
    assert caplog.records == []
    for _ in range(100):
        restraint.after(SCOLDED, 0)
    assert len(caplog.records) == 1
    # Another client has a word of its own.
    Restraint().after(EXHAUSTED, 0)
    assert len(caplog.records) == 2


async def test_the_last_try_is_made_when_patience_ends() -> None:
    slow = Settings(backoff=Backoff(base=1000.0, cap=1000.0), patience=0.2)
    tries = Tries(slow, Restraint(), Absence("127.0.0.1:1"), slow.patience)
    await tries.pause(LOST)
    with pytest.raises(Unavailable) as caught:
        await tries.pause(LOST)
    assert re.fullmatch(
        r"the broker at 127\.0\.0\.1:1 did not serve the call in 2 tries within 0\.[2-9] s; at last: lost \(UNAVAILABLE\)",
        str(caught.value),
    )
    # What happened along the way is no second traceback.
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("value", [-1, 86401, float("inf"), float("nan"), "5"])
@pytest.mark.parametrize("name", ["attempt_timeout", "patience", "keepalive_time", "keepalive_timeout"])
def test_settings_are_times(name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=name):
        Settings(**{name: value})
    with pytest.raises((ValueError, TypeError), match="cap"):
        Backoff(cap=value)
    assert Settings(patience=0).patience == 0


async def test_an_error_in_the_moment_of_a_cancellation_is_seen() -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about["message"]))

    async def breaks(task: asyncio.Task[None] | None) -> None:
        await asyncio.sleep(0.05)
        assert task is not None
        task.cancel()
        raise ConnectionError

    async def steps() -> None:
        await within(5, breaks(asyncio.current_task()), "silence")

    task = asyncio.create_task(steps())
    await asyncio.wait({task})
    assert task.cancelled()
    # Whatever was not seen is complained of when it is collected.
    del task
    gc.collect()
    assert complaints == []


@pytest.mark.parametrize("window", [(0.0, 1.0), (2.0, 1.0), (3000.0, 3601.0)])
def test_windows_are_an_hour_at_most(window: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"window|positive"):
        Settings(window=window)


def test_the_ping_is_none_that_servers_punish() -> None:
    assert Settings().keepalive_time > 300
    assert Settings().window == (3240.0, 3600.0)
