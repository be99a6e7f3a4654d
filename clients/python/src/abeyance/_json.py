"""How values become JSON."""

from __future__ import annotations

import json
from typing import Any


class _Nothing:
    """The default of an argument that may be `None`."""

    def __repr__(self) -> str:
        return "<not given>"

    def __reduce__(self) -> str:
        # The one that there is, also when it is copied.
        return "NOTHING"


NOTHING: Any = _Nothing()
"""The default of an argument that may be `None`."""


def encode_json(value: Any) -> str:
    """A value as JSON text. Raises `ValueError` for NaN and infinities, `TypeError` for what JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
