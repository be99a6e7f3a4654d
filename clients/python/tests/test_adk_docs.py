"""The programs in docs/adk.md, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .broker import Broker

PAGE = Path(__file__).parents[1] / "docs/adk.md"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory with the programs of the page. Each names its file in its first line."""
    blocks = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == PAGE.read_text().count("```python"), "a block without a name would not be run"
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_page(broker: Broker, programs: Path) -> None:
    environment = {**os.environ, "ABEYANCE_SERVER": broker.target}

    def start(*command: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, *command], cwd=programs, env=environment, stdout=subprocess.PIPE, text=True)

    def answer(token: str, text: str) -> str:
        done = start("answer.py", token, text).communicate(timeout=60)
        return done[0]

    def line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().rstrip("\n")

    def ask() -> str:
        """Starts a session, and kills its process when it has asked."""
        with start("timeoff.py") as process:
            try:
                question, token = line(process).rsplit(" ", 1)
                assert question == "How long will you be away?"
                return token
            finally:
                process.kill()

    tokens = {ask(), ask()}
    assert len(tokens) == 2
    with start("recover.py") as process:
        try:
            for token in tokens:
                assert "days: must be at least 1" in answer(token, '{"days": 0}')
                assert answer(token, '{"days": 3}') == "taken\n"
            # Each was killed before the broker recorded that it asked, or after: both are allowed, and the token is the same.
            lines = [each for each in process.communicate(timeout=60)[0].splitlines() if each.rsplit(" ", 1)[1] not in tokens]
            assert lines == ["3 days are booked"] * 2
        finally:
            process.kill()
