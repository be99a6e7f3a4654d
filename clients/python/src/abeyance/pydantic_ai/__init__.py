"""Pydantic AI runs that wait in an Abeyance broker. Needs the extra `pydantic-ai`: `pip install
'PATH[pydantic-ai]'`, where PATH is the directory of this package; and Python 3.11.

- `AbeyanceWaiter`: installed around a run with `external_event_scope`, it makes the run wait in the broker instead of its process.
- `RequestInput`: takes the place of Pydantic AI's among an agent's capabilities. The pending calls become the wait's question, and
  the broker refuses answers that the run could not use.
"""

from .._needs import extra

with extra("pydantic-ai"):
    from ._request_input import RequestInput
    from ._waiter import AbeyanceWaiter

__all__ = ["AbeyanceWaiter", "RequestInput"]
