"""The example from end to end: a broker, the page and a worker as processes of their own, and a person with a browser."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

from inbox import Inbox

HERE = Path(__file__).parent
BROKER = Path(os.environ.get("ABEYANCE_BIN", HERE.parents[1] / "target/debug/abeyance"))


class Programs:
    """Starts programs that talk to one broker, and ends them all."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.environment = dict(os.environ, APPROVALS_DIR=str(self.data))
        self._directory = directory
        self._started: list[subprocess.Popen[str]] = []
        self.broker = self.start(str(BROKER), "serve", "--listen", "127.0.0.1:0", "--data-dir", str(directory / "broker"))
        self.environment["ABEYANCE_SERVER"] = line(self.broker).split()[-1]

    def start(self, *command: str) -> subprocess.Popen[str]:
        with (self._directory / f"errors-{len(self._started)}").open("w") as errors:
            process = subprocess.Popen(command, cwd=HERE, env=self.environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._started.append(process)
        return process

    def errors(self, process: subprocess.Popen[str]) -> str:
        """What a program wrote on standard error."""
        return (self._directory / f"errors-{self._started.index(process)}").read_text()

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

    def page(self, path: str = "/") -> str:
        return self._read(Request(self._url + path))

    def decide(self, tool: str, decision: str, *, page: str | None = None, **fields: str) -> str:
        """Fills the form of a tool call, changing only `fields`, and presses a button. On a page that was loaded before, if it is given."""
        page = page or self.page()
        (form,) = re.findall(rf"<code>{tool}</code>.*?<form method=\"post\" action=\"([^\"]+)\">(.*?)</form>", page, re.DOTALL)
        action, inside = form
        sent = dict(re.findall(r'name="(\w+)" value="([^"]*)"', inside.partition("<div")[0]))
        (sent["arguments"],) = [text.replace("&quot;", '"') for text in re.findall(r"<textarea[^>]*>(.*?)</textarea>", inside, re.DOTALL)]
        sent |= {"decision": decision, **fields}
        return self.send(action, sent, origin=self._url)

    def send(self, path: str, fields: dict[str, str], *, origin: str) -> str:
        return self._read(Request(self._url + path, urlencode(fields).encode(), headers={"Origin": origin}))

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
        yield programs
    finally:
        programs.end()


@pytest.fixture
def asked(programs: Programs) -> Browser:
    """A browser on the page of a run that has asked."""
    worker = programs.python("worker.py", "run-1")
    assert [line(worker), line(worker)] == ["run run-1 begins", "asked about 2 tool calls"]
    return Browser(line(programs.python("web.py", "--port", "0")))


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

    page = browser.decide("issue_refund", "approve", who="Ada", arguments='{"order": "order-1234", "amount": 100}')
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
    assert told == ["done: issue_refund: refunded $100 for order-1234; delete_account: They may come back."]
    assert worker.wait(30) == 0
    assert line(programs.python("worker.py", "order-1234")) == told[0], "an ended run only tells its result"
    with sqlite3.connect(programs.data / "inbox.db") as inbox:
        assert inbox.execute("SELECT count(*) FROM asks").fetchone() == (1,)
    assert (programs.data / "inbox.db").stat().st_mode & 0o077 == 0


def test_arguments_that_the_tool_could_not_use_are_not_sent(asked: Browser) -> None:
    faults = {
        "": "The arguments are empty.",
        "[]": "must be a JSON object",
        '{"order": "run-1", "amount": }': "not JSON: Expecting value in line 1, column 30",
        '{"order": "run-1", "amount": 1, "amount": 2}': "&quot;amount&quot; stands there twice.",
        '{"order": 1, "amount": 100}': "&quot;order&quot; must be a text in quotes, as the model gave it, and not a number.",
        '{"order": "run-1", "amout": 100}': "&quot;amount&quot; is missing.",
        # Python takes it; the broker does not.
        '{"order": "run-1", "amount": NaN}': "The text of the arguments is not valid JSON",
        "[" * 100_000: "nested too deeply",
        "x" * 2_000_000: "too long",
    }
    for arguments, fault in faults.items():
        page = asked.decide("issue_refund", "approve", who="Ada", arguments=arguments)
        assert page.startswith("<!doctype html>")
        assert fault in page
    assert "Say who you are." in asked.decide("issue_refund", "approve", who=" ")
    assert "Your name is 300 characters long" in asked.decide("issue_refund", "deny", who="a" * 300)
    assert "0 of 2 decided" in asked.page()


def test_whoever_comes_late_is_told_who_was_faster(asked: Browser) -> None:
    before = asked.page()
    asked.decide("issue_refund", "deny", who="Grace")
    page = asked.decide("issue_refund", "approve", page=before, who="Ada")
    assert "Grace was faster and denied it" in page
    assert "1 of 2 decided" in page
    asked.decide("delete_account", "approve", who="Grace")
    page = asked.decide("delete_account", "deny", page=before, who="Ada")
    assert "Grace was faster and approved it" in page


def test_an_address_of_a_form_leads_to_the_page(asked: Browser) -> None:
    assert "0 of 2 decided" in asked.page("/asks/1")
    assert "There is no such page." in asked.page("/elsewhere")


def test_an_ask_that_the_broker_does_not_know_hides_no_other(asked: Browser, programs: Programs) -> None:
    Inbox(programs.data / "inbox.db").post("elsewhere", "abey_of_another_broker")
    page = asked.page()
    assert "1 asked that this broker does not know" in page
    assert "<strong>elsewhere</strong>" in page
    assert "1 of 2 decided" in asked.decide("issue_refund", "approve", who="Ada")


def test_a_broker_that_is_away_is_named(asked: Browser, programs: Programs) -> None:
    before = asked.page()
    programs.broker.kill()
    programs.broker.wait()
    text = f"The broker at {programs.environment['ABEYANCE_SERVER']} cannot be reached; is `abeyance serve` running?"
    assert text in asked.page()
    page = asked.decide("issue_refund", "approve", page=before, who="Ada")
    assert text in page
    assert "deciding the same again is safe" in page


def test_a_worker_that_is_interrupted_says_how_it_goes_on(programs: Programs) -> None:
    # What a shell starts in the background ignores an interrupt, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = programs.python("worker.py", "order-5")
    assert [line(worker), line(worker)] == ["run order-5 begins", "asked about 2 tool calls"]
    worker.send_signal(signal.SIGINT)
    assert worker.wait(30) == 130
    assert programs.errors(worker) == "stopped; `python worker.py order-5` goes on with it\n"


def test_a_port_that_is_taken_is_named(programs: Programs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        web = programs.python("web.py", "--port", str(port))
        assert web.wait(30) == 1
    assert re.fullmatch(rf"web\.py: cannot listen on port {port} .*; choose another with --port\n", programs.errors(web))


def test_a_page_of_another_site_cannot_decide(asked: Browser) -> None:
    fields = {"call": "c", "decision": "approve", "who": "Eve", "arguments": "{}"}
    assert "own forms only" in asked.send("/asks/1", fields, origin="https://elsewhere.example")
    assert "0 of 2 decided" in asked.page()
