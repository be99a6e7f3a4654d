#!/usr/bin/env python3
"""A TCP proxy in front of a gRPC server that does to its connections what networks and strict servers do.

    fault_proxy.py --target 127.0.0.1:2239 [--listen 127.0.0.1:0] [--scold-after SECONDS]

Its first line on standard output is {"listen": "127.0.0.1:PORT"}; then one JSON line for each event:
{"event": "connection", "n": 1, "at": 0.02}, where `n` counts connections and `at` is in seconds since the start; "scolded", "frozen" and
"cut" likewise, "done" when a command was carried out.

Commands, a line each on standard input:

    freeze    nothing more reaches the client on the connections that are open now; nothing is closed or refused, and what the client
              sends is still forwarded. Connections made later pass.
    cut       resets all open connections.
    calm      no more scolding.

With --scold-after, each connection gets a GOAWAY frame with ENHANCE_YOUR_CALM and the debug data `too_many_pings` after so many seconds
and is then closed, as a server does whose client pings too often. It ends at the end of its input.
"""

import argparse
import asyncio
import json
import struct
import sys
import time

GOAWAY = 7
ENHANCE_YOUR_CALM = 11
FRAME_HEAD = 9


class Connection:
    """One connection of a client, and the connection to the server behind it."""

    def __init__(self, proxy: "Proxy", n: int, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.n = n
        self.client = client
        self.server = server
        self.frozen = False
        self.scold_due = False

    async def to_server(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            self.server.write(data)
            await self.server.drain()

    async def to_client(self, reader: asyncio.StreamReader) -> None:
        """Forwards whole frames, so that one of ours can go between two of them."""
        while True:
            head = await reader.readexactly(FRAME_HEAD)
            body = await reader.readexactly(int.from_bytes(head[:3], "big"))
            if self.scold_due:
                return
            if not self.frozen:
                self.client.write(head + body)
                await self.client.drain()

    async def scold(self, after: float) -> None:
        await asyncio.sleep(after)
        if self.proxy.calm or self.frozen:
            return
        # The highest stream id there is: no call is told that it was not begun, all are cut as if under way.
        payload = struct.pack(">II", 0x7FFFFFFF, ENHANCE_YOUR_CALM) + b"too_many_pings"
        self.scold_due = True
        self.client.write(len(payload).to_bytes(3, "big") + bytes([GOAWAY, 0]) + bytes(4) + payload)
        await self.client.drain()
        self.proxy.tell("scolded", self.n)
        # A server of the gRPC family closes right behind the frame.
        self.close()

    def close(self) -> None:
        self.client.close()
        self.server.close()

    def reset(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


class Proxy:
    def __init__(self, target: str, scold_after: float | None) -> None:
        self.host, port = target.rsplit(":", 1)
        self.port = int(port)
        self.scold_after = scold_after
        self.calm = False
        self.begun = time.monotonic()
        self.count = 0
        self.open: set[Connection] = set()

    def tell(self, event: str, n: int) -> None:
        line = {"event": event, "n": n, "at": round(time.monotonic() - self.begun, 3)}
        print(json.dumps(line), flush=True)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        n = self.count
        self.tell("connection", n)
        try:
            server_reader, server_writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.transport.abort()
            return
        connection = Connection(self, n, writer, server_writer)
        self.open.add(connection)
        ways = [
            asyncio.create_task(connection.to_server(reader)),
            asyncio.create_task(connection.to_client(server_reader)),
        ]
        scolding = None
        if self.scold_after is not None:
            scolding = asyncio.create_task(connection.scold(self.scold_after))
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if connection.frozen:
                # The client must find out by itself that nothing comes: its socket stays open.
                await asyncio.wait(ways)
        finally:
            for task in [*ways, *([scolding] if scolding else [])]:
                task.cancel()
            # What ended a way (a reset, an end in the middle of a frame) is what this program is for.
            await asyncio.gather(*ways, return_exceptions=True)
            self.open.discard(connection)
            connection.close()

    def command(self, line: str) -> None:
        match line:
            case "freeze":
                for connection in self.open:
                    connection.frozen = True
                    self.tell("frozen", connection.n)
            case "cut":
                for connection in list(self.open):
                    connection.reset()
                    self.tell("cut", connection.n)
            case "calm":
                self.calm = True
            case _:
                sys.exit(f"fault_proxy.py: unknown command {line!r}")
        self.tell("done", 0)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, metavar="HOST:PORT", help="the server behind this proxy")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="default: a free port of loopback")
    parser.add_argument("--scold-after", type=float, metavar="SECONDS", help="scold each connection after so long")
    args = parser.parse_args()
    proxy = Proxy(args.target, args.scold_after)
    host, port = args.listen.rsplit(":", 1)
    server = await asyncio.start_server(proxy.accept, host, int(port))
    print(json.dumps({"listen": "%s:%d" % server.sockets[0].getsockname()[:2]}), flush=True)
    # A thread of its own: standard input may be a terminal, a pipe or a file.
    while line := await asyncio.to_thread(sys.stdin.readline):
        proxy.command(line.strip())


if __name__ == "__main__":
    asyncio.run(main())
