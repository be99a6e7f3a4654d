"""An event loop in a thread of its own, for those who have none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from .errors import Detached

__all__ = ["ClientLoop", "each", "in_own_thread"]

T = TypeVar("T")

_LISTENS = 1.0
"""How often, in seconds, a thread that waits looks whether it is interrupted. The system may give a signal to any thread, and then
nothing else wakes the main one, which alone can act on it."""
_INTERRUPTED = 6.0
"""For how long, in seconds, a thread that is interrupted waits for what it gave up to end: a wait without a key is withdrawn meanwhile."""
_ROUNDS = 3
"""How often what still runs in a loop that ends is told so. What is told may begin something else, such as withdrawing its wait."""


class ClientLoop:
    """An event loop in a thread of its own, begun when it is first needed."""

    def __init__(self) -> None:
        # A collection of garbage may end an iterator within any line here, and so come back in the same thread.
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Runs something in the loop and returns its result. Raises `TimeoutError` after `timeout` seconds, `Detached` if the loop is
        stopped meanwhile, and `RuntimeError` in the loop's own thread, which would wait for itself for ever."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call in the thread of the client's own event loop")
        bounded = _bounded(work, timeout)
        ended: concurrent.futures.Future[T] = concurrent.futures.Future()
        running: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(bounded)
            running.append(task)
            task.add_done_callback(lambda _: _hand_over(task, ended))

        def give_up() -> None:
            running[0].cancel()

        with self._lock:
            # What is handed over before the loop is told to stop is still begun, and so ended by it.
            loop = self._running()
            loop.call_soon_threadsafe(begin)
        try:
            while not concurrent.futures.wait([ended], _LISTENS).done:
                pass
            return ended.result()
        except concurrent.futures.CancelledError:
            # They may never have begun.
            bounded.close()
            work.close()
            raise Detached("the client was closed meanwhile") from None
        except BaseException:
            if not ended.done():
                # The calling thread is interrupted.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(give_up)
                    concurrent.futures.wait([ended], _INTERRUPTED)
            raise

    @property
    def current(self) -> asyncio.AbstractEventLoop | None:
        """The loop, if there is one now."""
        return self._loop

    def stop(self) -> None:
        """Ends the loop, what still runs in it, and its thread. `run` begins them anew."""
        with self._lock:
            thread, loop, self._thread, self._loop = self._thread, self._loop, None, None
            if thread is None or loop is None or not thread.is_alive():
                return
            loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        # In a process that was forked off, the thread is there no more.
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(loop,), name="abeyance", daemon=True)
            thread.start()
            self._loop, self._thread = loop, thread
        return self._loop


def _hand_over(task: asyncio.Task[T], ended: concurrent.futures.Future[T]) -> None:
    if task.cancelled():
        ended.cancel()
        # Tells `concurrent.futures.wait`, too.
        ended.set_running_or_notify_cancel()
    elif (error := task.exception()) is not None:
        ended.set_exception(error)
    else:
        ended.set_result(task.result())


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        # Whoever still waits for one of these, in another thread, must not wait for ever.
        for _ in range(_ROUNDS):
            left = asyncio.all_tasks(loop)
            if not left:
                break
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=_INTERRUPTED))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def in_own_thread(work: Callable[[], T]) -> T:
    """Calls something that may block for as long as it likes: a pool of threads would be full some day. Cancelled, it leaves it alone."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Callable[[], T]] = loop.create_future()

    def tell(result: Callable[[], T]) -> None:
        if not ended.done():
            ended.set_result(result)

    def call() -> None:
        result: Callable[[], T]
        try:
            value = work()
        except BaseException as error:
            result = functools.partial(_raise, error)
        else:
            result = lambda: value  # noqa: E731
        with contextlib.suppress(RuntimeError):
            # The loop may be gone.
            loop.call_soon_threadsafe(tell, result)

    threading.Thread(target=call, name="abeyance-ask", daemon=True).start()
    return (await ended)()


def _raise(error: BaseException) -> Any:
    raise error


async def _bounded(work: Coroutine[Any, Any, T], timeout: float | None) -> T:
    if timeout is None:
        return await work
    try:
        return await asyncio.wait_for(work, timeout)
    except asyncio.TimeoutError:
        # Two classes before Python 3.11.
        raise TimeoutError(f"not done within {timeout:g} s") from None


def each(loop: ClientLoop, items: AsyncIterator[T]) -> Iterator[T]:
    """Iterates in the loop, and blocks until each next item."""
    home: asyncio.AbstractEventLoop | None = None

    async def following() -> tuple[bool, T | None]:
        nonlocal home
        home = home or asyncio.get_running_loop()
        if home is not asyncio.get_running_loop():
            raise Detached("the client was closed meanwhile")
        try:
            return True, await items.__anext__()
        except StopAsyncIteration:
            return False, None

    try:
        while True:
            more, item = loop.run(following())
            if not more:
                return
            yield item  # type: ignore[misc]
    finally:
        # Perhaps a collection of garbage, in whatever thread: nothing here may block, or begin a loop. A loop that has ended has ended it.
        close = getattr(items, "aclose", None)
        if home is not None and home is loop.current and close is not None:
            with contextlib.suppress(RuntimeError):
                asyncio.run_coroutine_threadsafe(_end(close), home)


async def _end(close: Callable[[], Awaitable[None]]) -> None:
    with contextlib.suppress(RuntimeError):
        # Raised where it still runs: whoever interrupted it has cancelled that.
        await close()
