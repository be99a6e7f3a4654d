"""Runs scenarios for every pairing, and shows how they went."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from check import Wrong
from driver_process import Driver, Refused
from pair import REMEMBERED, Pair, Side
from scenarios import Scenario
from servers import Broker
from together import Shared

# No scenario takes a tenth of it on an idle machine.
SCENARIO_SECONDS = 120.0


@dataclass
class Failure:
    """What went wrong, and where."""

    title: str
    why: str
    said: list[str]

    def show(self) -> None:
        print(f"\n{self.title}\n    {self.why}")
        for line in self.said:
            print(f"    . {line}")


@dataclass
class Drivers:
    """The two drivers of one language."""

    language: str
    worker: Driver
    resolver: Driver


async def run_scenario(scenario: Scenario, drivers: list[Drivers], broker: Broker, seed: int) -> dict[tuple[str, str], Failure | None]:
    """Runs one scenario for all pairings at once. None means that it passed."""
    pairings = [(worker, resolver) for worker in drivers for resolver in drivers]
    results: dict[tuple[str, str], Failure | None] = {}
    async with (scenario.shared or Shared)(broker, len(pairings), seed) as shared, asyncio.TaskGroup() as group:
        for worker, resolver in pairings:
            said: deque[str] = deque(maxlen=REMEMBERED)
            pair = Pair(
                label=f"{worker.language} > {resolver.language}",
                worker=Side("worker", worker.worker, shared.target, said),
                resolver=Side("resolver", resolver.resolver, shared.target, said),
                broker=broker,
                shared=shared,
            )
            group.create_task(_run_pair(scenario, pair, results, (worker.language, resolver.language)))
    return results


async def _run_pair(scenario: Scenario, pair: Pair, results: dict[tuple[str, str], Failure | None], at: tuple[str, str]) -> None:
    why = None
    try:
        async with asyncio.timeout(SCENARIO_SECONDS):
            await scenario.run(pair)
    except (Wrong, Refused) as error:
        why = str(error)
    except TimeoutError:
        why = f"not done after {SCENARIO_SECONDS:.0f} s"
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        why = f"an answer is not of the form that the protocol says: {error!r}"
    finally:
        pair.shared.gone()
        await pair.end()
    title = f"{scenario.name}, worker {at[0]}, resolver {at[1]}: {scenario.about}"
    results[at] = None if why is None else Failure(title, why, list(pair.worker.said))


class Matrix:
    """The table: a row for each scenario, a column for each pairing."""

    def __init__(self, languages: list[str], rows: Iterable[str]) -> None:
        self.languages = languages
        self.width = max([len("resolver"), *(len(row) for row in rows)]) + 2
        # A mark for each resolver, and at least room for the worker's name.
        self.cell = max([2 * len(languages), *(len(name) + 1 for name in languages)])

    def head(self) -> None:
        workers = "".join(f"{name:<{self.cell}}" for name in self.languages)
        initials = "".join(f"{name[0]} " for name in self.languages)
        print(f"{'worker':<{self.width}}{workers}")
        print(f"{'resolver':<{self.width}}{f'{initials:<{self.cell}}' * len(self.languages)}")

    def row(self, name: str, results: dict[tuple[str, str], Failure | None], seconds: float) -> None:
        cells = ""
        for worker in self.languages:
            marks = "".join("✓ " if results[worker, resolver] is None else "✗ " for resolver in self.languages)
            cells += f"{marks:<{self.cell}}"
        print(f"{name:<{self.width}}{cells} {seconds:5.1f} s", flush=True)


async def run_matrix(scenarios: list[Scenario], drivers: list[Drivers], broker: Broker, seed: int) -> list[Failure]:
    matrix = Matrix([d.language for d in drivers], [s.name for s in scenarios])
    matrix.head()
    failures = []
    for scenario in scenarios:
        begun = time.monotonic()
        results = await run_scenario(scenario, drivers, broker, seed)
        matrix.row(scenario.name, results, time.monotonic() - begun)
        failures += [failure for failure in results.values() if failure is not None]
    sys.stdout.flush()
    return failures
