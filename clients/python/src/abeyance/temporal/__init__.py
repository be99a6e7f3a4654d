"""Pydantic AI runs in Temporal workflows that wait in an Abeyance broker. Needs the extra `temporal`: `pip install
'PATH[temporal]'`, where PATH is the directory of this package; and Python 3.11.

- `TemporalWaiter`: installed around a run within a workflow with `external_event_scope`.
- `AbeyanceActivities`: what it calls; for the worker that serves its task queue.

Workflow code imports this package inside `with workflow.unsafe.imports_passed_through():`.
"""

from .._needs import extra

with extra("temporal"):
    from ._activities import AbeyanceActivities
    from ._waiter import TemporalWaiter

__all__ = ["AbeyanceActivities", "TemporalWaiter"]
