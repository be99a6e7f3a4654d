"""The page where people decide what agents may do.

    python web.py [--port 8000]

It holds the tokens and answers the broker; it knows nothing of the worker, which may run elsewhere or not at all.
"""

import argparse
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

import uvicorn
from abeyance import AbeyanceClient, AbeyanceError, DeferredCalls, Refused
from fastapi import FastAPI, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

import page
from inbox import Ask, Inbox

SERVER = os.environ.get("ABEYANCE_SERVER", "127.0.0.1:2239")
DATA = Path(os.environ.get("APPROVALS_DIR", "data"))
YEAR = 365 * 24 * 3600


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.inbox = Inbox(DATA / "inbox.db")
    async with AbeyanceClient(SERVER) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def index(request: Request) -> HTMLResponse:
    who = unquote(request.cookies.get("who", ""))
    return await render(request, who)


@app.post("/asks/{number}")
async def decide(
    request: Request,
    number: int,
    call: Annotated[str, Form()],
    decision: Annotated[str, Form(pattern="^(approve|deny)$")],
    who: Annotated[str, Form(min_length=1, max_length=256)],
    arguments: Annotated[str, Form()],
    message: Annotated[str, Form()] = "",
) -> Response:
    refuse_other_sites(request)
    ask: Ask | None = request.app.state.inbox.ask(number)
    if ask is None:
        raise HTTPException(404)
    client: AbeyanceClient = request.app.state.client
    try:
        if decision == "deny":
            await client.deny(ask.token, call, message or None, answered_by=who)
        else:
            override = changed(arguments, await asked_arguments(client, ask, call))
            await client.approve(ask.token, call, override_args=override, answered_by=who)
    except (Refused, ValueError) as error:
        # What was sent is at fault, or somebody was faster: nothing is recorded, and whoever sent it is told why.
        problem = page.Problem(number, call, str(error), arguments.replace("\r\n", "\n"), message)
        return await render(request, who, problem, status=409)
    response = RedirectResponse("/", status_code=303)
    response.set_cookie("who", quote(who), max_age=YEAR, httponly=True, samesite="strict")
    return response


async def render(request: Request, who: str, problem: page.Problem | None = None, status: int = 200) -> HTMLResponse:
    client: AbeyanceClient = request.app.state.client
    shown = []
    for ask in request.app.state.inbox.asks():
        try:
            shown.append(page.Shown(ask.number, ask.run_id, await client.describe(ask.token)))
        except Refused as refused:
            # Its record is gone after the time that the broker keeps it: there is nothing left to show.
            if refused.reason != "WAIT_PURGED":
                raise
    return HTMLResponse(page.html(shown, who, problem), status_code=status)


async def asked_arguments(client: AbeyanceClient, ask: Ask, call_id: str) -> Any:
    """The arguments that the model gave to a call."""
    question = (await client.describe(ask.token)).question
    calls = question.calls if isinstance(question, DeferredCalls) else ()
    return next((json.loads(call.args_json) for call in calls if call.tool_call_id == call_id), None)


def changed(text: str, asked: Any) -> dict[str, Any] | None:
    """The arguments that replace those of the model, or none if they are the same. Raises `ValueError` if they are no JSON object."""
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise ValueError(f"The arguments are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise ValueError("The arguments must be a JSON object.")
    return None if arguments == asked else arguments


def refuse_other_sites(request: Request) -> None:
    """A page of another site must not decide in the name of whoever looks at it."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(403, "This page decides from its own forms only.")


@app.exception_handler(AbeyanceError)
async def broker_failed(_request: Request, error: AbeyanceError) -> HTMLResponse:
    return HTMLResponse(page.failure(str(error)), status_code=502)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The approval page.")
    parser.add_argument("--port", type=int, default=8000, help="0 picks a free one")
    listener = socket.create_server(("127.0.0.1", parser.parse_args().port))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
