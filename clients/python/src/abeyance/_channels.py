"""The connections of a client: made when first used, a set for each event loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any
from urllib.parse import urlsplit

import grpc

from . import v1
from ._retry import Rest
from ._version import __version__
from .settings import Settings

# Payloads are 1 MiB unless the broker is set otherwise; a page of a list is a thousand waits with their labels.
_MESSAGE_BYTES = 64 << 20
# Details of a refusal travel in trailers; 4 KiB of status are about 6 KiB of header. Wide, so that no proxy's additions turn a refusal
# into a protocol error.
_HEADER_BYTES = 64 << 10
# The bounds of grpcio's own delays between tries to connect. They only keep calls from failing at once after a broker came back; how
# often there is a call that wants a connection at all is for our own backoff to say.
_RECONNECT_MS = (250, 2000)


def address(target: str) -> str:
    """Checks `host:port` or `http://host:port` and returns `host:port`. Raises `ValueError`."""
    if target.startswith("https://"):
        raise ValueError(f"{target!r}: TLS is not supported yet; use http:// to a broker on this machine, or a proxy that speaks TLS")
    parts = urlsplit(target if target.startswith("http://") else f"http://{target}")
    try:
        port = parts.port
    except ValueError:
        port = None
    extra = parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None
    if "://" in target.removeprefix("http://") or not parts.hostname or port is None or extra:
        raise ValueError(f"{target!r} is no address of a broker; host:port or http://host:port is expected")
    return parts.netloc


def options(settings: Settings, host: str | None) -> list[tuple[str, Any]]:
    """The options of every channel."""
    chosen: list[tuple[str, Any]] = [
        ("grpc.keepalive_time_ms", int(settings.keepalive_time * 1000)),
        ("grpc.keepalive_timeout_ms", int(settings.keepalive_timeout * 1000)),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_metadata_size", _HEADER_BYTES),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS[0]),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS[1]),
        # Each try is ours to count and to delay.
        ("grpc.enable_retries", 0),
        # Without it channels to one target share one connection.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.primary_user_agent", f"abeyance-python/{__version__}"),
    ]
    if host in ("localhost", "::1") or (host or "").startswith("127."):
        # A proxy of the environment cannot reach this machine's loopback.
        chosen.append(("grpc.enable_http_proxy", 0))
    return chosen


class Line:
    """One connection."""

    def __init__(self, target: str, settings: Settings) -> None:
        self.channel = grpc.aio.insecure_channel(target, options(settings, urlsplit(f"//{target}").hostname))
        # The generated stubs have no types.
        self.waits: Any = v1.WaitServiceStub(self.channel)  # type: ignore[no-untyped-call]
        self.resolves: Any = v1.ResolveServiceStub(self.channel)  # type: ignore[no-untyped-call]
        self.inbox: Any = v1.InboxServiceStub(self.channel)  # type: ignore[no-untyped-call]


class Lines:
    """The three connections of one event loop: waits, calls that have one answer, watches."""

    def __init__(self, target: str, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self.rest = Rest(settings)
        """How long the streams of waits stay away from a server that scolded their connection."""
        self._lines: dict[str, Line] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._followers: set[asyncio.Task[Any]] = set()
        self.unkeyed: set[str] = set()
        """The tokens of waits that are open only for as long as somebody here waits."""
        self.closed = False
        """Whether the connections were closed."""

    def adopt(self, follower: asyncio.Task[Any]) -> None:
        """Keeps a task that follows a wait until it ends, and ends it with the connections."""
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)

    def get(self, kind: str) -> Line:
        """The connection of a kind: `waits`, `calls` or `watches`."""
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = Line(self._target, self._settings)
        return line

    def give_up(self, kind: str, line: Line, grace: float | None = None) -> None:
        """Lets the next user of a kind connect anew, since this connection seems frozen. Whoever still uses it loses it after `grace`
        seconds, by default at once."""
        if self._lines.get(kind) is line:
            del self._lines[kind]
            task = asyncio.get_running_loop().create_task(line.channel.close(grace))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def let_go(self) -> None:
        """Ends whatever follows a wait, which would take the end of its connection for a cut, and attach again."""
        followers = list(self._followers)
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

    async def close(self) -> None:
        """Closes all connections, and with them whatever still runs on them."""
        self.closed = True
        await self.let_go()
        lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            await line.channel.close()
        if self._closing:
            await asyncio.wait(self._closing)


class Channels:
    """The connections of a client, for whichever event loop asks. Safe to use from any thread."""

    def __init__(self, target: str, settings: Settings) -> None:
        self._target = address(target)
        self._settings = settings
        self._lock = threading.Lock()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Lines] = weakref.WeakKeyDictionary()

    def here(self) -> Lines:
        """The connections of the running event loop. grpcio binds a channel to the loop that it was made in."""
        loop = asyncio.get_running_loop()
        with self._lock:
            # A channel refers to its loop, so the weak key alone never goes.
            for closed in [other for other in self._loops if other.is_closed()]:
                del self._loops[closed]
            lines = self._loops.get(loop)
            if lines is None:
                lines = self._loops[loop] = Lines(self._target, self._settings)
            return lines

    def if_any(self) -> Lines | None:
        """The connections of the running event loop, if there are any."""
        with self._lock:
            return self._loops.get(asyncio.get_running_loop())

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        with self._lock:
            lines = self._loops.pop(asyncio.get_running_loop(), None)
        if lines:
            await lines.close()
