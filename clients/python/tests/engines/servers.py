"""Servers of the engines, on free ports and with all they keep in a directory of the test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PATIENCE = 300.0
"""Seconds until a server that runs but does not serve is given up. Prefect's makes its database first, with hundreds of migrations."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Server:
    """A server process."""

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        """Starts it. What it writes goes to `server.log` in `directory`."""
        self._log = directory / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=directory, env={**os.environ, **environment}, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_until(self, serves: Callable[[], bool]) -> None:
        """Returns once `serves`. Neither server says so in a way that could be waited for."""
        deadline = time.monotonic() + _PATIENCE
        while not serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"the server does not serve:\n{self._log.read_text(errors='replace')[-8000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Kills it: nothing that it keeps is needed."""
        self._process.kill()
        self._process.wait()


def installed(name: str) -> str:
    """The program that a package of this environment brings."""
    return str(Path(sys.executable).with_name(name))
