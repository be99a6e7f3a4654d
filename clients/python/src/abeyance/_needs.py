"""What an integration needs that the package itself does not."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["extra"]


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Tells whoever imports an integration without its extra how to install it."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "abeyance":
            raise
        raise type(error)(
            f"abeyance.{name.replace('-', '_')} needs packages that are not installed, or too old ({error}). Install this package with "
            f"its extra: `pip install 'PATH[{name}]'`, where PATH is its directory, such as ./clients/python. They need Python 3.11 or "
            f"newer; this is {platform.python_version()}.",
            name=error.name,
            path=error.path,
        ) from error
