"""The example from end to end: a broker, the page and a worker as processes of their own, and a person with a browser."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

HERE = Path(__file__).parent
BROKER = Path(os.environ.get("ABEYANCE_BIN", HERE.parents[1] / "target/debug/abeyance"))


class Programs:
    """Starts programs that talk to one broker, and ends them all."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.environment = dict(os.environ, APPROVALS_DIR=str(self.data))
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, cwd=HERE, env=self.environment, stdout=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def python(self, *command: str) -> subprocess.Popen[str]:
        return self.start(sys.executable, *command)

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def line(process: subprocess.Popen[str]) -> str:
    """The next line that a program prints."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


class Browser:
    """Reads the page and sends its forms."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opener = build_opener(HTTPCookieProcessor())

    def page(self) -> str:
        return self._read(Request(self._url))

    def decide(self, tool: str, decision: str, **fields: str) -> str:
        """Fills the form of a tool call, changing only `fields`, and presses a button."""
        page = self.page()
        (form,) = re.findall(rf"<code>{tool}</code>.*?<form method=\"post\" action=\"([^\"]+)\">(.*?)</form>", page, re.DOTALL)
        action, inside = form
        sent = dict(re.findall(r'name="(\w+)" value="([^"]*)"', inside.partition("<div")[0]))
        (sent["arguments"],) = [text.replace("&quot;", '"') for text in re.findall(r"<textarea[^>]*>(.*?)</textarea>", inside, re.DOTALL)]
        sent |= {"decision": decision, **fields}
        return self._read(Request(self._url + action, urlencode(sent).encode(), headers={"Origin": self._url}))

    def _read(self, request: Request) -> str:
        try:
            with self._opener.open(request, timeout=60) as response:
                body: bytes = response.read()
        except HTTPError as error:
            body = error.read()
        return body.decode()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    if not BROKER.is_file():
        pytest.fail(f"there is no broker at {BROKER}: build it with `cargo build`, or set ABEYANCE_BIN")
    programs = Programs(tmp_path)
    try:
        broker = programs.start(str(BROKER), "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "broker"))
        programs.environment["ABEYANCE_SERVER"] = line(broker).split()[-1]
        yield programs
    finally:
        programs.end()


def test_a_killed_run_goes_on_with_what_a_person_decided(programs: Programs) -> None:
    worker = programs.python("worker.py", "order-1234")
    assert line(worker) == "run order-1234 begins"
    assert line(worker) == "asked about 2 tool calls"
    worker.send_signal(signal.SIGKILL)
    worker.wait()

    # The page needs no worker.
    browser = Browser(line(programs.python("web.py", "--port", "0")))
    page = browser.page()
    assert "issue_refund" in page
    assert "delete_account" in page
    assert "0 of 2 decided" in page
    assert "abey_" not in page, "tokens stay on the server"

    assert "must be a JSON object" in browser.decide("issue_refund", "approve", who="Ada", arguments="[]")
    assert "0 of 2 decided" in browser.page()
    page = browser.decide("issue_refund", "approve", who="Ada", arguments='{"order": 1234, "amount": 100}')
    assert "1 of 2 decided" in page
    assert "by <strong>Ada</strong>" in page

    worker = programs.python("worker.py", "order-1234")
    assert line(worker) == "run order-1234 goes on"
    page = browser.decide("delete_account", "deny", who="Grace", message="They may come back.")
    assert "Nothing waits for you" in page
    assert "by <strong>Grace</strong>" in page
    assert "They may come back." in page
    told = [line(worker)]
    if told == ["asked about 2 tool calls"]:
        # Killed before the broker recorded that it asked: it asks with the same token, which the inbox knows.
        told = [line(worker)]
    assert told == ["done: issue_refund: refunded $100 for order 1234; delete_account: They may come back."]
    assert worker.wait(30) == 0
    assert line(programs.python("worker.py", "order-1234")) == told[0], "an ended run only tells its result"
    with sqlite3.connect(programs.data / "inbox.db") as inbox:
        assert inbox.execute("SELECT count(*) FROM asks").fetchone() == (1,)
    assert (programs.data / "inbox.db").stat().st_mode & 0o077 == 0


def test_a_page_of_another_site_cannot_decide(programs: Programs) -> None:
    worker = programs.python("worker.py", "run-1")
    assert [line(worker), line(worker)] == ["run run-1 begins", "asked about 2 tool calls"]
    url = line(programs.python("web.py", "--port", "0"))
    browser = Browser(url)
    fields = {"call": "c", "decision": "approve", "who": "Eve", "arguments": "{}"}
    foreign = Request(f"{url}/asks/1", urlencode(fields).encode(), headers={"Origin": "https://elsewhere.example"})
    assert "own forms only" in browser._read(foreign)
    assert "0 of 2 decided" in browser.page()
