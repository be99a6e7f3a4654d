"""The client for code without an event loop."""

from __future__ import annotations

import contextvars
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from abeyance import Answered, AskFailed, Detached, Refused, State, SyncAbeyanceClient, SyncTicket, WatchKind

from .broker import Broker


@pytest.fixture
def sync(broker: Broker) -> Iterator[SyncAbeyanceClient]:
    with SyncAbeyanceClient(broker.target) as client:
        yield client


def test_wait_and_resolve(sync: SyncAbeyanceClient, broker: Broker) -> None:
    with sync.wait("refund", timeout=60) as wait:
        with pytest.raises(TimeoutError):
            wait.outcome(timeout=0.05)
        broker.kill()
        broker.start()
        sync.resolve(wait.token, {"n": 1}, answered_by="alice")
        outcome = wait.outcome(timeout=30)
        assert (outcome.value, outcome.answered_by, wait.reattached >= 1) == ({"n": 1}, "alice", True)
        assert wait.token not in repr(wait)


def test_threads_share_a_client(sync: SyncAbeyanceClient) -> None:
    answers: dict[int, object] = {}

    def work(n: int) -> None:
        wait = sync.wait("threads", timeout=60)
        sync.resolve(wait.token, n)
        answers[n] = wait.outcome().value

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == {n: n for n in range(8)}


def test_an_ask_may_block_and_call_the_client(sync: SyncAbeyanceClient) -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("alice")

    def ask(ticket: SyncTicket) -> None:
        ticket.client.resolve(ticket.token, who.get())

    assert sync.wait_for_external_event("ask", ask, timeout=60).value == "alice"
    assert sync.wait_for_external_event("ask", lambda _: Answered(2), timeout=60).value == 2
    with sync.wait("ask", timeout=60) as wait:
        sync.ask(wait, ask)
        assert wait.outcome().value == "alice"
    with pytest.raises(TypeError, match="timeout must be a number of seconds, not str"):
        wait.outcome(timeout="5m")  # type: ignore[arg-type]
    with pytest.raises(AskFailed) as caught:
        sync.wait_for_external_event("ask", lambda _: 1 / 0, timeout=60)  # type: ignore[arg-type,return-value]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_outcome_is_returned_beside_an_ask_that_still_blocks(sync: SyncAbeyanceClient) -> None:
    go_on = threading.Event()

    def ask(ticket: SyncTicket) -> None:
        ticket.client.resolve(ticket.token, "early")
        go_on.wait(60)

    try:
        assert sync.wait_for_external_event("ask", ask, timeout=60).value == "early"
    finally:
        go_on.set()


def test_all_other_calls(sync: SyncAbeyanceClient) -> None:
    opened = sync.open("other", key="k", timeout=60, heartbeat_timeout=30)
    token = opened.token
    assert (token, opened.wait_id) == (opened.opened.token, opened.opened.wait_id)
    assert sync.heartbeat(token) is None
    assert sync.mark_asked(token) is not None
    sync.mark_asked_at_last(token)
    assert sync.heartbeat(token) is not None
    info = sync.describe(token)
    assert (info.state, info.key) == (State.PENDING, "k")
    assert sync.get(info.wait_id) == info
    assert [w.wait_id for w in sync.list(name="other")] == [info.wait_id]
    watch = sync.watch(name="other")
    assert [next(watch).kind for _ in range(3)] == [WatchKind.BEGAN, WatchKind.WAIT, WatchKind.SYNCED]
    watch.close()  # type: ignore[attr-defined]
    assert sync.fail(token, "no").state is State.FAILED
    assert sync.cancel(token).state is State.FAILED
    with pytest.raises(Refused, match="ALREADY_SETTLED"):
        sync.resolve(token, 1)
    assert sync.attach(key="k").outcome().reason == "no"


def test_closing_ends_what_other_threads_wait_for(broker: Broker) -> None:
    client = SyncAbeyanceClient(broker.target)
    wait = client.wait("closed", timeout=60)
    ended: list[BaseException] = []

    def until_the_end(work: Callable[[], object]) -> None:
        try:
            work()
        except Detached as error:
            ended.append(error)

    def describe_for_ever() -> None:
        # Each call may be anywhere when the client is closed. A later one begins anew, so it is told when to end.
        while not closed.is_set():
            client.describe(wait.token)

    closed = threading.Event()
    threads = [threading.Thread(target=until_the_end, args=(work,)) for work in (wait.outcome, describe_for_ever)]
    for thread in threads:
        thread.start()
    client.close()
    closed.set()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert ended
    client.close()


def test_closing_ends_watches_in_other_threads(broker: Broker) -> None:
    client = SyncAbeyanceClient(broker.target)
    watch = client.watch()
    assert [next(watch).kind for _ in range(2)] == [WatchKind.BEGAN, WatchKind.SYNCED]
    idle = client.watch()
    next(idle)
    ended: list[type[BaseException]] = []

    def follow() -> None:
        try:
            next(watch)
        except Exception as error:
            ended.append(type(error))

    thread = threading.Thread(target=follow)
    thread.start()
    client.close()
    thread.join(30)
    assert ended == [Detached]
    # Left alone, a watch of a client that was closed begins nothing anew.
    del idle
    gc.collect()
    assert not [t for t in threading.enumerate() if t.name == "abeyance"]


def test_an_iterator_may_be_collected_in_any_thread(sync: SyncAbeyanceClient) -> None:
    sync.open("left", timeout=60)
    left: list[object] = []
    for _ in range(3):
        watch = sync.watch()
        next(watch)
        left.append(watch)
        del watch

    async def collect() -> None:
        # In the client's own thread.
        left.clear()
        gc.collect()

    sync._loop.run(collect(), 20)
    assert sync.get(next(sync.list()).wait_id).name == "left"


def test_a_call_in_the_clients_own_thread_is_refused(sync: SyncAbeyanceClient) -> None:
    async def call() -> None:
        sync.describe("abey_x")

    with pytest.raises(RuntimeError, match="own event loop"):
        sync._loop.run(call(), 20)


def test_asks_that_block_keep_no_other_from_its_turn(sync: SyncAbeyanceClient) -> None:
    go_on = threading.Event()

    def ask(ticket: SyncTicket) -> None:
        ticket.client.resolve(ticket.token, 1)
        go_on.wait(60)

    try:
        # More than any default pool has threads.
        for _ in range(34):
            assert sync.wait_for_external_event("stuck", ask, timeout=30).value == 1
    finally:
        go_on.set()


@pytest.mark.parametrize("block", ["set()", "{signal.SIGINT}"], ids=["given to any thread", "given to another thread"])
def test_an_interrupt_withdraws_an_unkeyed_wait(block: str, broker: Broker, sync: SyncAbeyanceClient) -> None:
    script = """
import os, signal, sys, threading, abeyance
signal.signal(signal.SIGINT, signal.default_int_handler)  # What a shell starts in the background ignores it.
client = abeyance.SyncAbeyanceClient(sys.argv[1])
list(client.list())  # Begins the client's thread, which must not inherit this:
signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
def ask(ticket):
    print(ticket.token, flush=True)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    client.wait_for_external_event("interrupted", ask, timeout=60)
except KeyboardInterrupt:
    print("interrupted")
os._exit(0)
""".replace("BLOCKED", block)
    done = subprocess.run([sys.executable, "-c", script, broker.target], capture_output=True, text=True, timeout=60, check=True)
    token, interrupted = done.stdout.splitlines()
    assert interrupted == "interrupted"
    assert sync.describe(token).state is State.CANCELLED


def test_a_closed_client_begins_anew(broker: Broker) -> None:
    client = SyncAbeyanceClient(broker.target)
    token = client.open("twice", timeout=60).opened.token
    client.close()
    assert client.describe(token).state is State.PENDING
    client.close()
    assert not [t for t in threading.enumerate() if t.name == "abeyance"]


def test_a_script_that_closes_nothing_ends(broker: Broker) -> None:
    script = (
        "import sys, abeyance; c = abeyance.SyncAbeyanceClient(sys.argv[1]); w = c.wait('left', timeout=60); c.resolve(w.token, 5);"
        "print(w.outcome().value); c.wait('left too', timeout=60)"
    )
    done = subprocess.run([sys.executable, "-c", script, broker.target], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")
