#!/usr/bin/env python3
"""A gRPC server of the stock library in front of another gRPC server: it forwards calls, and polices pings as that library does by default.

    strict_proxy.py --target 127.0.0.1:2239 [--listen 127.0.0.1:0] [--min-ping-interval SECONDS]

Its first line on standard output is {"listen": "127.0.0.1:PORT"}. A client that pings more often than every five minutes, or every two
hours while it has no call, gets GOAWAY with ENHANCE_YOUR_CALM after the third such ping. --min-ping-interval is for tests that cannot wait
five minutes. Messages are forwarded as bytes, so it serves any contract; metadata, deadlines, status and trailers are forwarded too. It
ends at the end of its input. Needs grpcio.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator

import grpc

# A call should meet the target's own limits, and none of ours.
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 1 << 20)]


def forwardable(metadata: object) -> list[tuple[str, str | bytes]]:
    """Metadata without what belongs to one connection."""
    return [(key, value) for key, value in metadata or () if key not in ("user-agent", "te", "content-type")]


class Forwarder(grpc.GenericRpcHandler):
    """Handles every method as a stream of bytes in both directions: on the wire a single message is a stream of one."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        # The library looks whether it is an asynchronous generator function, so no lambda will do.
        async def forward(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
            async for message in self.forward(details.method, requests, context):
                yield message

        return grpc.stream_stream_rpc_method_handler(forward)

    async def forward(self, method: str, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        call = self.channel.stream_stream(method)(
            requests, timeout=context.time_remaining(), metadata=forwardable(context.invocation_metadata())
        )
        try:
            await context.send_initial_metadata(forwardable(await call.initial_metadata()))
            while (message := await call.read()) is not grpc.aio.EOF:
                yield message
        except grpc.aio.AioRpcError:
            # It is forwarded below, as any other status is.
            pass
        finally:
            # Without effect on a call that has ended.
            call.cancel()
        context.set_trailing_metadata(forwardable(await call.trailing_metadata()))
        context.set_code(await call.code())
        context.set_details(await call.details() or "")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, metavar="HOST:PORT", help="the server behind this one")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="default: a free port of loopback")
    parser.add_argument("--min-ping-interval", type=float, metavar="SECONDS", help="default: the library's five minutes")
    args = parser.parse_args()
    options = [*UNLIMITED, ("grpc.so_reuseport", 0)]
    if args.min_ping_interval is not None:
        options.append(("grpc.http2.min_ping_interval_without_data_ms", int(args.min_ping_interval * 1000)))
    async with grpc.aio.insecure_channel(args.target, UNLIMITED) as channel:
        server = grpc.aio.server(handlers=[Forwarder(channel)], options=options)
        port = server.add_insecure_port(args.listen)
        await server.start()
        print(json.dumps({"listen": f"{args.listen.rsplit(':', 1)[0]}:{port}"}), flush=True)
        # A thread of its own: standard input may be a terminal, a pipe or a file.
        await asyncio.to_thread(sys.stdin.read)
        await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main())
