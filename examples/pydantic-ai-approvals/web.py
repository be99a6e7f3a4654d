"""The page where people decide what agents may do.

    python web.py [--port 8000]

It holds the tokens and answers the broker; it knows nothing of the worker, which may run elsewhere or not at all.
"""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote, urlsplit

import uvicorn
from abeyance import AbeyanceClient, AbeyanceError, DeferredCalls, Refused, Results, Settings, ToolCall, Unavailable, WaitInfo
from fastapi import FastAPI, Form, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

import page
from arguments import override
from inbox import Ask, Inbox

SERVER = os.environ.get("ABEYANCE_SERVER", "127.0.0.1:2239")
DATA = Path(os.environ.get("APPROVALS_DIR", "data"))
YEAR = 365 * 24 * 3600


# A person waits for the page, so it gives up on the broker sooner than a worker does.
SETTINGS = Settings(attempt_timeout=5, patience=3)

UNKNOWN = {
    "TOKEN_UNKNOWN": "This broker never gave out its token: it was asked through another broker, or before its store was replaced.",
    "WAIT_PURGED": "It was over, and the broker no longer keeps it.",
    "RECORD_MISSING": "The broker gave out its token but has lost the rest, perhaps because an old backup was restored.",
}
"""Why the broker does not know an ask, by the reason of its refusal."""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.inbox = Inbox(DATA / "inbox.db")
    async with AbeyanceClient(SERVER, settings=SETTINGS) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def index(request: Request) -> HTMLResponse:
    who = unquote(request.cookies.get("who", ""))
    return await render(request, who)


@app.get("/asks/{number}")
async def address_bar(number: str) -> Response:
    """Where a form was sent to, opened by hand or again."""
    return RedirectResponse("/", status_code=303)


@app.post("/asks/{number}")
async def decide(
    request: Request,
    number: int,
    call: Annotated[str, Form()],
    decision: Annotated[str, Form(pattern="^(approve|deny)$")],
    # An empty field of a form counts as a missing one.
    who: Annotated[str, Form()] = "",
    arguments: Annotated[str, Form()] = "",
    message: Annotated[str, Form()] = "",
) -> Response:
    refuse_other_sites(request)
    ask: Ask | None = request.app.state.inbox.ask(number)
    if ask is None:
        raise HTTPException(404)
    client: AbeyanceClient = request.app.state.client
    who = who.strip()
    try:
        asked = call_of(await client.describe(ask.token), call)
        if not who:
            raise ValueError("Say who you are.")
        results = Results()
        if decision == "deny":
            results.deny(call, message or None)
        else:
            results.approve(call)
            replaced = override(arguments, asked)
            if replaced is not None:
                # As it was typed: what the broker would refuse is not made good on the way.
                results.message.approvals[call].approved.override_args_json = replaced
        await client.resolve(ask.token, results=results, partial=True, answered_by=who)
    except (ValueError, Refused) as error:
        # What was sent is at fault, or somebody was faster: nothing is recorded, and whoever sent it is told why.
        problem = page.Problem(number, call, in_words(error), arguments.replace("\r\n", "\n"), message)
        return await render(request, who, problem, status=409 if isinstance(error, Refused) else 400)
    response = RedirectResponse("/", status_code=303)
    response.set_cookie("who", quote(who), max_age=YEAR, httponly=True, samesite="strict")
    return response


async def render(request: Request, who: str, problem: page.Problem | None = None, status: int = 200) -> HTMLResponse:
    client: AbeyanceClient = request.app.state.client

    async def look(ask: Ask) -> page.Shown | page.Unknown:
        try:
            return page.Shown(ask.number, ask.run_id, await client.describe(ask.token))
        except Refused as refused:
            # One ask that the broker does not know must not hide the others.
            if refused.reason not in UNKNOWN:
                raise
            return page.Unknown(ask.number, ask.run_id, UNKNOWN[refused.reason])

    looks = await asyncio.gather(*(look(ask) for ask in request.app.state.inbox.asks()))
    return HTMLResponse(page.html(looks, who, problem), status_code=status)


def call_of(wait: WaitInfo, call_id: str) -> ToolCall:
    calls = wait.question.calls if isinstance(wait.question, DeferredCalls) else ()
    for call in calls:
        if call.tool_call_id == call_id:
            return call
    raise HTTPException(404)


def in_words(error: ValueError | Refused) -> str | None:
    """Why nothing was recorded, for whoever sent it. `None` if somebody was faster: who and how, the page knows from the wait itself."""
    if not isinstance(error, Refused):
        return str(error)
    if error.reason in {"ALREADY_DECIDED", "ALREADY_SETTLED"}:
        return None
    if error.reason in UNKNOWN:
        return UNKNOWN[error.reason]
    # The broker names a fault by its path in the answer, and a person knows the fields of the form.
    fields = {"override_args": "The text of the arguments", "denied": "Your reason", "answered_by": "Your name"}
    faults = [
        f"{next((name for part, name in fields.items() if part in fault.field), fault.field)} {fault.description}."
        for fault in error.violations
    ]
    return "\n".join(faults) or error.message


def refuse_other_sites(request: Request) -> None:
    """A page of another site must not decide in the name of whoever looks at it."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(403, "This page decides from its own forms only.")


@app.exception_handler(AbeyanceError)
async def broker_failed(request: Request, error: AbeyanceError) -> HTMLResponse:
    if not isinstance(error, Unavailable):
        text = f"The broker at {SERVER} gave an answer that this page can do nothing with: {error.message}"
    elif error.reason is None:
        text = f"The broker at {SERVER} cannot be reached; is `abeyance serve` running?"
    else:
        text = f"The broker at {SERVER} cannot do this now: {error.message}"
    if request.method == "POST":
        text += " Your decision may have been recorded or not; deciding the same again is safe."
    return HTMLResponse(page.failure(text, look_again=request.method == "GET"), status_code=502)


@app.exception_handler(StarletteHTTPException)
async def not_found(_request: Request, error: StarletteHTTPException) -> HTMLResponse:
    texts = {400: "The form could not be read. Fields of more than 1 MB are too long.", 404: "There is no such page."}
    return HTMLResponse(page.failure(texts.get(error.status_code, error.detail)), status_code=error.status_code)


@app.exception_handler(RequestValidationError)
async def not_a_form(_request: Request, _error: RequestValidationError) -> HTMLResponse:
    return HTMLResponse(page.failure("This is no form of this page."), status_code=422)


def listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        sys.exit(f"web.py: cannot listen on port {port} ({error}); choose another with --port")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The approval page.")
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0 picks a free one")
    listener = listen(parser.parse_args().port)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
