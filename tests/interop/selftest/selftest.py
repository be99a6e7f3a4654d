#!/usr/bin/env python3
"""Proves that the runner can fail: an honest driver passes every scenario, and one that lies fails each scenario that its lie concerns, for
the reason that it should.

    selftest/selftest.py --broker target/debug/abeyance --driver target/interop/rust
"""

import argparse
import asyncio
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from language_cases import CASES  # noqa: E402
from lies import LIES  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402

RUN_SECONDS = 240.0


async def run(args: argparse.Namespace, turn: asyncio.Semaphore, lie: str, scenario: str) -> tuple[int, str]:
    """Exit code and output of the runner with one language, whose drivers tell this lie."""
    async with turn:
        with tempfile.TemporaryDirectory(prefix="abeyance-selftest-") as drivers:
            program = Path(drivers, "rust")
            words = [sys.executable, str(HERE / "lying_driver.py"), str(args.driver.resolve()), lie]
            program.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
            program.chmod(0o755)
            runner = await asyncio.create_subprocess_exec(
                sys.executable,
                HERE.parent / "run.py",
                f"--broker={args.broker.resolve()}",
                f"--drivers={drivers}",
                "--languages=rust",
                f"--scenario={scenario}",
                f"--grpc-python={args.grpc_python}",
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            try:
                async with asyncio.timeout(RUN_SECONDS):
                    output, _ = await runner.communicate()
            finally:
                if runner.returncode is None:
                    runner.kill()
            assert runner.returncode is not None
            return runner.returncode, output.decode()


async def honest(args: argparse.Namespace, turn: asyncio.Semaphore, scenario: str) -> list[str]:
    code, output = await run(args, turn, "none", scenario)
    return [] if code == 0 else [f"{scenario} fails an honest driver:\n{output}"]


async def lying(args: argparse.Namespace, turn: asyncio.Semaphore, lie: str, scenario: str) -> list[str]:
    code, output = await run(args, turn, lie, scenario)
    if code == 1 and LIES[lie].said in output:
        return []
    return [f"{scenario} with the driver that {lie}: exit code {code}, and must be 1 with {LIES[lie].said!r}:\n{output}"]


async def check(args: argparse.Namespace) -> int:
    begun = time.monotonic()
    lies = [(name, scenario) for name, lie in LIES.items() for scenario in lie.scenarios]
    # The one that takes a minute begins first.
    lies.sort(key=lambda each: each[0] != "warns_of_nothing")
    unproven = (SCENARIOS | CASES).keys() - {scenario for _, scenario in lies}
    faults = [f"no lie proves that {scenario} can fail" for scenario in sorted(unproven)]
    turn = asyncio.Semaphore(args.jobs)
    told = await asyncio.gather(
        *(lying(args, turn, *each) for each in lies),
        *(honest(args, turn, scenario) for scenario in SCENARIOS),
    )
    faults += [fault for each in told for fault in each]
    for fault in faults:
        print(f"\n{fault}")
    verdict = f"{len(faults)} faults" if faults else "all found"
    print(f"{len(lies)} lies, {len(SCENARIOS)} honest runs: {verdict} in {time.monotonic() - begun:.0f} s")
    return 1 if faults else 0


def main() -> int:
    root = HERE.parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", type=Path, default=Path(os.environ.get("ABEYANCE_BIN", root / "target/debug/abeyance")))
    parser.add_argument("--driver", type=Path, default=root / "target/interop/rust", help="the honest driver")
    parser.add_argument("--grpc-python", type=Path, default=root / "target/tools/python/bin/python")
    parser.add_argument("--jobs", type=int, default=4, help="runs at once; default: %(default)s")
    return asyncio.run(check(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
