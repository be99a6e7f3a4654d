"""The programs in docs/*.md pass `mypy --strict`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PROGRAM = re.compile(r'^```python(?: title="|\n# )(\w+\.py)"?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_programs_have_types(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text()
    programs = dict(PROGRAM.findall(text))
    assert len(programs) == text.count("```python"), "a program without a name would not be checked"
    for name, program in programs.items():
        (tmp_path / name).write_text(program)
    # The cache stays in the environment: to read the frameworks takes most of the time.
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(Path(sys.prefix, "mypy")), *programs]
    checked = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
