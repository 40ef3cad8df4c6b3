"""The page of a sheet as a service of this computer, which appends each answer to a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import open_in_shared
from owpc_ltr.files.strict_json import json_text, read_json_value
from owpc_ltr_rating.ratings import rating_of, read_ratings
from owpc_ltr_rating.sheets import Sheet

_LARGEST = 1 << 16
"""Bytes of an answer."""
_HOSTS = ["127.0.0.1", "localhost"]


def create_app(html: str, sheet: Sheet, out: Path) -> Starlette:
    """The service: GET / is the page, POST /answers one answer.

    An answer of another sheet is refused (409), and a file that holds such answers, too.
    """
    if out.exists() and out.stat().st_size:
        strange = [one.sheet for one in read_ratings(out).values() if one.sheet != sheet.digest]
        if strange:
            raise BadInput(f"{out} has answers to another sheet ({strange[0]}): name another file")
    known = {pair.key: pair.query for pair in sheet.pairs}

    def page(_request: Request) -> Response:
        return HTMLResponse(html, headers={"Cache-Control": "no-store"})

    async def answers(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return PlainTextResponse("answers are application/json", 415)
        body = b""
        async for block in request.stream():
            body += block
            if len(body) > _LARGEST:
                return PlainTextResponse(f"an answer has at most {_LARGEST} bytes", 413)
        try:
            content = read_json_value(body.decode())
            rating, _ = rating_of(content, "the answer")
        except (ValueError, BadInput) as error:
            return PlainTextResponse(str(error), 400)
        if rating.sheet != sheet.digest or known.get((rating.query_id, rating.doc_id)) is None:
            return PlainTextResponse("the answer is to another sheet: load the page again", 409)
        _append(out, content)
        return Response(status_code=204)

    return Starlette(
        routes=[Route("/", page), Route("/answers", answers, methods=["POST"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)],
    )


def run(html: str, sheet: Sheet, out: Path, port: int) -> None:
    """Serve until Ctrl-C."""
    app = create_app(html, sheet, out)
    config = uvicorn.Config(app, "127.0.0.1", port, log_level="error", limit_concurrency=100)
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    address = f"http://127.0.0.1:{socket.getsockname()[1]}/"
    print(f"rate at {address}; answers go to {out}; Ctrl-C ends it", file=sys.stderr, flush=True)
    try:
        server.run([socket])
    finally:
        socket.close()


def _append(out: Path, content: object) -> None:
    """Make one line durable, and cut off what a crash has left of a line: it is sent again."""
    descriptor = open_in_shared(out, os.O_APPEND | os.O_RDWR)
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, _LARGEST, max(0, size - _LARGEST))
        if not tail.endswith(b"\n"):
            os.ftruncate(descriptor, size - len(tail) + tail.rfind(b"\n") + 1)
        os.write(descriptor, json_text(content).encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
