"""A real broker for tests: started, killed with SIGKILL, started again on the same port and data."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[3]


def broker_binary() -> Path:
    """The broker's program: `ABEYANCE_BIN`, by default the debug build of this repository. Fails where there is none."""
    binary = Path(os.environ.get("ABEYANCE_BIN", _REPOSITORY / "target/debug/abeyance"))
    if not binary.is_file():
        raise FileNotFoundError(f"there is no broker at {binary}: build it with `cargo build`, or set ABEYANCE_BIN")
    return binary


class Broker:
    """One broker, with its data in a directory. `start` makes it serve; `kill` and `start` again are a crash and a restart."""

    def __init__(self, data: Path, *, alive_interval: str = "1s", arguments: tuple[str, ...] = ()) -> None:
        """`arguments` go to `abeyance serve` as they are."""
        self._data = data
        self._arguments = ("--alive-interval", alive_interval, *arguments)
        self._process: subprocess.Popen[str] | None = None
        self._port = 0

    @property
    def target(self) -> str:
        """`host:port`. The same through restarts."""
        assert self._port, "the broker was never started"
        return f"127.0.0.1:{self._port}"

    def start(self) -> Broker:
        """Starts it and returns once it serves."""
        assert self._process is None, "the broker runs already"
        self._data.mkdir(parents=True, exist_ok=True)
        with (self._data / "broker.log").open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(str(broker_binary()), "serve"),
                    *("--listen", f"127.0.0.1:{self._port}", "--data-dir", str(self._data)),
                    *self._arguments,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        # Said once it serves: "listening on 127.0.0.1:PORT".
        line = self._process.stdout.readline()
        found = [word for word in line.split() if word.startswith("127.0.0.1:")]
        if not found:
            self.kill()
            raise RuntimeError(f"the broker did not start; {self._data / 'broker.log'} says why")
        self._port = int(found[0].rsplit(":", 1)[1])
        return self

    def kill(self) -> None:
        """SIGKILL: no goodbye to anybody."""
        self._end("kill")

    def stop(self) -> None:
        """SIGTERM: in order; streams are told to attach again."""
        self._end("terminate")

    def _end(self, how: str) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        getattr(process, how)()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()
