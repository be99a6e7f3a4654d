"""A process that runs a session of an ADK workflow, and tells on standard output what it does.

    python -m tests.adk_worker BROKER DIRECTORY

The session begins in the first process and goes on in any later one.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from abeyance import AbeyanceClient
from abeyance.adk import InputWaits, PendingInput
from abeyance.external import Ticket

from . import adk_workflows as adk


def ask(ticket: Ticket, _pending: PendingInput) -> None:
    print("asked", ticket.token, flush=True)


async def main(target: str, directory: Path) -> None:
    sessions = adk.sqlite(directory)
    known = await sessions.list_sessions(app_name=adk.APP, user_id=adk.USER)
    begun = bool(known.sessions)
    run = await adk.runner(adk.loop(adk.Seen()), sessions, users=[] if begun else [adk.USER])
    async with AbeyanceClient(target) as client:
        events = await adk.finish(InputWaits(client, run, ask, timeout=120), start=not begun)
    print("ended", [event.output for event in events if event.output is not None], flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
