#!/usr/bin/env python3
"""Runs every language's worker with every language's resolver, and the field cases of each language. README.md beside it tells more."""

import argparse
import asyncio
import os
import random
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

from check import Wrong
from driver_process import Driver, Refused
from language_cases import CASES, Case, Surroundings
from matrix import Drivers, Failure, run_matrix
from scenarios import SCENARIOS
from servers import Broker

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ["rust", "python", "typescript", "go", "java"]
HOLD_SECONDS = 45.0
HOLD_SECONDS_IN_FULL = 600.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", type=Path, default=Path(os.environ.get("ABEYANCE_BIN", ROOT / "target/debug/abeyance")))
    parser.add_argument("--drivers", type=Path, default=ROOT / "target/interop", help="the directory of the drivers")
    parser.add_argument("--languages", default=",".join(LANGUAGES), help="divided by commas; default: %(default)s")
    parser.add_argument("--scenario", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the scenarios and end")
    parser.add_argument("--full", action="store_true", help=f"hold waits for {HOLD_SECONDS_IN_FULL:.0f} s instead of {HOLD_SECONDS:.0f} s")
    parser.add_argument(
        "--grpc-python",
        type=Path,
        default=ROOT / "target/tools/python/bin/python",
        help="an interpreter with grpcio, for strict_proxy.py",
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of what happens at random; default: another each time")
    args = parser.parse_args()
    args.languages = args.languages.split(",")
    for name in args.scenario or []:
        if name not in SCENARIOS | CASES:
            parser.error(f"there is no scenario {name}; see --list")
    return args


def missing(args: argparse.Namespace, cases: list[Case]) -> list[str]:
    """What must be built first."""
    told = [f"no driver {args.drivers / name}: run tests/run {name}" for name in args.languages if not (args.drivers / name).is_file()]
    if not args.broker.is_file():
        told.append(f"no broker {args.broker}: run cargo build --bin abeyance")
    if any(c.name in ("default_keepalive", "eager_is_scolded") for c in cases) and not args.grpc_python.is_file():
        told.append(f"no interpreter with grpcio {args.grpc_python}: run tests/run python")
    return told


async def run_case(case: Case, driver: Driver, around: Surroundings) -> str | Failure:
    try:
        return await case.run(driver, around)
    except (Wrong, Refused) as error:
        why = str(error)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        why = f"an answer is not of the form that the protocol says: {error!r}"
    return Failure(f"{case.name}, {driver.name}: {case.about}", why, [f"its log: {line}" for line in driver.log])


def show_cases(cases: list[Case], languages: list[str], results: dict[tuple[str, str], str | Failure]) -> None:
    print(f"\n{'':<20}{''.join(f'{name:<14}' for name in languages)}")
    for case in cases:
        told = (results[case.name, name] for name in languages)
        marks = ("✗" if isinstance(result, Failure) else f"✓ {result}" for result in told)
        print(f"{case.name:<20}{''.join(f'{mark:<14}' for mark in marks)}")


async def run(args: argparse.Namespace) -> list[Failure]:
    chosen = args.scenario or [*SCENARIOS, *CASES]
    scenarios = [s for s in SCENARIOS.values() if s.name in chosen]
    cases = [c for c in CASES.values() if c.name in chosen]
    if faults := missing(args, cases):
        return [Failure("not everything is there", fault, []) for fault in faults]

    async with AsyncExitStack() as stack:

        async def broker(*options: str) -> Broker:
            started = Broker(args.broker, *options)
            stack.push_async_callback(started.remove)
            await started.start()
            return started

        async def start(language: str, role: str) -> Driver:
            driver = await Driver.start(f"{language} ({role})", language, args.drivers / language)
            stack.callback(driver.kill)
            return driver

        async def start_all(language: str) -> tuple[Drivers, Driver]:
            started = await asyncio.gather(*(start(language, role) for role in ("worker", "resolver", "field cases")))
            return Drivers(language, started[0], started[1]), started[2]

        try:
            main, alive, silent = await asyncio.gather(
                broker("--alive-interval=1s"), broker("--alive-interval=1s"), broker("--alive-interval=10m")
            )
            started = await asyncio.gather(*(start_all(language) for language in args.languages))
        except Wrong as wrong:
            return [Failure("not everything starts", str(wrong), [])]
        hold = HOLD_SECONDS_IN_FULL if args.full else HOLD_SECONDS
        around = Surroundings(alive, silent, args.grpc_python, hold)
        results: dict[tuple[str, str], str | Failure] = {}

        async def record(case: Case, driver: Driver, language: str) -> None:
            results[case.name, language] = await run_case(case, driver, around)

        of_language = [(case, driver, language) for case in cases for language, (_, driver) in zip(args.languages, started, strict=True)]
        # They mostly wait for time to pass, so the matrix runs beside them.
        beside = [asyncio.create_task(record(*each)) for each in of_language if not each[0].alone]
        failures = await run_matrix(scenarios, [drivers for drivers, _ in started], main, args.seed) if scenarios else []
        for each in of_language:
            if each[0].alone:
                await record(*each)
        await asyncio.gather(*beside)
        if cases:
            show_cases(cases, args.languages, results)
        failures += [result for result in results.values() if isinstance(result, Failure)]
        for drivers, driver in started:
            for each_driver in (drivers.worker, drivers.resolver, driver):
                try:
                    await each_driver.stop()
                except Wrong as wrong:
                    failures.append(Failure(f"{each_driver.name}: the end", str(wrong), []))
        return failures


def main() -> int:
    args = arguments()
    if args.list:
        for name, each in (SCENARIOS | CASES).items():
            print(f"{name:<20} {each.about}")
        return 0
    begun = time.monotonic()
    failures = asyncio.run(run(args))
    for failure in failures:
        failure.show()
    verdict = f"{len(failures)} failed" if failures else "all passed"
    print(f"\n{verdict} in {time.monotonic() - begun:.0f} s (--seed {args.seed})")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
