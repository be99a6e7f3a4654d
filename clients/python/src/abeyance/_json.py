"""How values become JSON."""

from __future__ import annotations

import json
from typing import Any

NOTHING: Any = object()
"""The default of an argument that may be `None`."""


def encode_json(value: Any) -> str:
    """A value as JSON text. Raises `ValueError` for NaN and infinities, `TypeError` for what JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
