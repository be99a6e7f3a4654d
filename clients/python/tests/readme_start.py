#!/usr/bin/env python3
"""Runs the first Python program of README.md as it stands, in a clean environment, against a broker.

readme_start.py DIRECTORY_OF_THE_ENVIRONMENT
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from broker import Broker

PACKAGE = Path(__file__).resolve().parents[1]
DEFAULT_TARGET = "127.0.0.1:2239"


def main() -> None:
    home = Path(sys.argv[1])
    venv.create(home, clear=True, with_pip=True)
    python = home / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE], check=True)
    found = re.search(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found, "the README has no Python program"
    program = found[1]
    lines = [line for line in program.splitlines() if line.strip()]
    assert len(lines) <= 10, f"the start has {len(lines)} lines"
    assert program.count(DEFAULT_TARGET) == 1, f"the start must name {DEFAULT_TARGET}"
    with tempfile.TemporaryDirectory() as data:
        broker = Broker(Path(data)).start()
        try:
            # The one thing that differs: a broker on a port of its own.
            run = [python, "-c", program.replace(DEFAULT_TARGET, broker.target)]
            done = subprocess.run(run, check=True, capture_output=True, text=True, timeout=60, cwd=data)
        finally:
            broker.kill()
    assert done.stdout.splitlines()[-1] == "{'approved': True} by alice", done.stdout
    assert done.stderr == "", done.stderr


if __name__ == "__main__":
    main()
