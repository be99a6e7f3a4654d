"""The programs in `docs/engines.md`, written out to run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

_TESTS = Path(__file__).resolve().parent
_DOCUMENT = _TESTS.parents[1] / "docs" / "engines.md"
_PROGRAM = re.compile(r'^```python title="(?P<name>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


def write_recipes(directory: Path, *, library_request_input: bool = False) -> None:
    """Writes every program of the document into `directory`.

    The application's part gets constants of the test at its end: addresses, a model, short heartbeats. With `library_request_input` the
    programs import Pydantic AI's own `RequestInput`, which is the one change that the document names.
    """
    programs = {found["name"]: found["text"] for found in _PROGRAM.finditer(_DOCUMENT.read_text())}
    assert set(programs) == {"refunds.py", "dbos_refunds.py", "prefect_refunds.py", "temporal_refunds.py"}
    programs["refunds.py"] += "\n\nfrom for_tests import *\n"
    programs["for_tests.py"] = (_TESTS / "for_tests.py").read_text()
    for name, text in programs.items():
        (directory / name).write_text(_with_theirs(text) if library_request_input else text)


def _with_theirs(text: str) -> str:
    ours = re.compile(r"^( *)from abeyance\.pydantic_ai import (AbeyanceWaiter, )?RequestInput$", re.MULTILINE)

    def theirs(found: re.Match[str]) -> str:
        indent, waiter = found.groups()
        lines = [f"{indent}from pydantic_ai.capabilities import RequestInput"]
        if waiter:
            lines.append(f"{indent}from abeyance.pydantic_ai import AbeyanceWaiter")
        return "\n".join(lines)

    changed, count = ours.subn(theirs, text)
    assert count == ("RequestInput(" in text)
    return changed
