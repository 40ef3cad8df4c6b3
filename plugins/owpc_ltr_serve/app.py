"""The service as an ASGI application: who may ask, how much at a time, and until when.

Each request is received within a time and a size, admitted or told to come again (503), and then
answered by a handler in a thread of its own, until its deadline.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.responses import one_line
from owpc_ltr.engine.search.search import DEADLINE
from owpc_ltr.errors import OwpcLtrError
from owpc_ltr.host.web_service import FIRST_BYTE
from owpc_ltr.redaction import Secret
from owpc_ltr_serve.endpoint import (
    STATUS_HEADER,
    Call,
    Endpoint,
    Reply,
    Work,
    json_reply,
    raised_in,
    status_of,
)

if TYPE_CHECKING:
    from owpc_ltr_serve.metrics import Metrics
    from owpc_ltr_serve.rankers import Rankers


MEMORY = 256_000_000
"""Bytes that the bodies of all requests may take, by the estimate of `BodySize`."""
_BYTES = 4
"""Bytes that are taken for one of a body: it, and its texts, once as letters and once as JSON."""
MOST_VALUES = 400_000
"""Objects, lists and commas of one body."""
_VALUE_BYTES = 128
"""Bytes that Python takes for a value, an empty object with its place in a list."""
_UNCOUNTED = 100_000
"""Bytes of a body whose values are not counted: what Python makes of them takes 3 MB at most."""
_SHARED_SECONDS = 60.0
"""Seconds for which a second client keeps half of the places free of the first."""


class Busy(Exception):
    """A request that is not taken now, and may come again."""


class BodyRefused(Exception):
    """A body that is too large: the status of its answer, and what is wrong."""


class RequestPlaces:
    """So many places for requests, or bytes; while several addresses ask, each has at most half.

    Behind a proxy all requests come from one address, which then has all places.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._last = ""
        self._shared_until = 0.0

    def check(self, address: str, number: int = 1) -> None:
        """Raise Busy where this address gets no more places."""
        now = time.monotonic()
        if address != self._last:
            self._shared_until = now + _SHARED_SECONDS if self._last else 0.0
            self._last = address
        share = (self._most + 1) // 2 if now < self._shared_until else self._most
        if self._taken.total() + number > self._most or self._taken[address] + number > share:
            raise Busy

    @contextmanager
    def held(self, address: str, number: int = 1) -> Iterator[Callable[[int], None]]:
        """Around what needs places; what it gives takes more of them. Both raise Busy."""
        taken = 0

        def take(more: int) -> None:
            nonlocal taken
            self.check(address, more)
            self._taken[address] += more
            taken += more

        take(number)
        try:
            yield take
        finally:
            self._taken[address] -= taken
            if not self._taken[address]:
                del self._taken[address]


class BodySize:
    """What the part of one body that has arrived takes in memory, by estimate."""

    _size = _values = 0

    def add(self, part: bytes) -> int:
        """The bytes that a further part takes. Raises BodyRefused."""
        self._size += len(part)
        more = _values(part) if self._size > _UNCOUNTED else 0
        self._values += more
        if self._values > MOST_VALUES:
            many = f"the body has more than {MOST_VALUES} objects, lists and commas"
            raise BodyRefused(413, many)
        return _BYTES * len(part) + _VALUE_BYTES * more


def _values(part: bytes) -> int:
    """Objects, lists and commas; numpy counts several times as fast as bytes do."""
    marks = np.frombuffer(part or b" ", np.uint8)
    return sum(int(np.count_nonzero(marks == mark)) for mark in b"{[,")


CONCURRENCY = 32
"""Requests that are answered at the same time; more are told to come again."""
LARGEST_BODY = 10_000_000
"""Bytes of a request."""
SILENCE = 5.0
"""Seconds without an answer of the engine after which `/health` says so."""
_REFUSALS = 1000.0
"""Refused requests that are answered in a second, at most: each costs a fifth of a millisecond, and
who waits for an answer does not ask again."""
_LONGEST_REFUSAL = 3.0
"""Seconds: longer than a deadline, or three thousand clients bring more than one loop can read."""
_RETRY = {"Retry-After": "1"}
"""When one who was turned away may come again."""
_log = logging.getLogger("owpc_ltr.serve")


@dataclass(frozen=True)
class ServeSettings:
    """Limits of the service; `token` is what a request must carry, if anything."""

    concurrency: int = CONCURRENCY
    deadline: float = DEADLINE
    """Seconds for a request, from its arrival to its answer."""
    largest_body: int = LARGEST_BODY
    token: Secret | None = None


def create_app(
    rankers: Rankers, settings: ServeSettings, metrics: Metrics, endpoints: Sequence[Endpoint]
) -> Starlette:
    """The application, which any ASGI server can run; it loads the models when it starts.

    Every request but those for `/health` needs the token of `settings`, if there is one.
    """
    service = _Service(rankers, settings, metrics)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        rankers.start()
        yield
        rankers.stop()

    routes = [Route("/health", service.health, methods=["GET"])]
    routes += [
        Route(endpoint.path, service.answering(endpoint), methods=endpoint.methods)
        for endpoint in endpoints
    ]
    refusals: Any = {
        404: _refusal(
            404,
            "nothing is here: rerank requests go to /v2/rerank, searches to /INDEX/_search; other "
            "paths are not forwarded to the engine",
        ),
        405: _refusal(405, "this path takes another method"),
    }
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=refusals)
    # A redirect would name the host that the request claims.
    app.router.redirect_slashes = False
    return app


class _Service:
    """The requests that are under way."""

    def __init__(self, rankers: Rankers, settings: ServeSettings, metrics: Metrics) -> None:
        self._rankers, self._settings, self._metrics = rankers, settings, metrics
        self._threads = RequestThreads(settings.concurrency)
        self._places = RequestPlaces(settings.concurrency)
        self._turns, self._turn = RequestPlaces(settings.concurrency), asyncio.Lock()
        self._memory = RequestPlaces(MEMORY)
        self._refusing = 0

    async def health(self, _: Request) -> Response:
        """Whether it answers requests, and the model behind each name."""
        states = self._rankers.states()
        silent = self._rankers.silence()
        well = (silent or 0.0) <= SILENCE and not any("fault" in state for state in states.values())
        content = {
            "status": "ok" if well else "degraded",
            "engine_answered_seconds_ago": None if silent is None else round(silent, 1),
            "models": states,
        }
        return _response(self._without_address(json_reply(content), body=not well))

    def _without_address(self, reply: Reply, *, body: bool = False) -> Reply:
        """The answer, where it tells of an error without the engine's address."""
        if reply.status == 200 and STATUS_HEADER not in reply.headers and not body:
            return reply
        url = self._rankers.engine.settings.url
        headers = {name: text.replace(url, "the engine") for name, text in reply.headers.items()}
        if body or reply.status != 200:
            reply = replace(reply, body=reply.body.replace(url.encode(), b"the engine"))
        return replace(reply, headers=headers)

    def answering(self, endpoint: Endpoint) -> Callable[[Request], Any]:
        """The endpoint as starlette has it."""

        async def answer(request: Request) -> Response:
            started = request.scope.get(FIRST_BYTE, time.monotonic())
            try:
                reply = await self._answer(endpoint, request, started)
            except BodyRefused as refused:
                status, message = refused.args
                reply = _fault(status, message, {"Connection": "close"})
            except Busy:
                reply = await self._refused()
            except ClientDisconnect:
                reply = _fault(499, "the client has gone")
            except Exception as error:  # noqa: BLE001 - a bug of ours must not end the service
                reply = _failed(endpoint.path, error)
            reply = self._without_address(reply)
            seconds = time.monotonic() - started

            async def sent() -> None:
                self._metrics.answered(endpoint.path, reply.status, seconds)

            return _response(reply, BackgroundTask(sent))

        return answer

    async def _answer(self, endpoint: Endpoint, request: Request, started: float) -> Reply:
        settings = self._settings
        if not _allowed(request, settings.token):
            challenge = {"WWW-Authenticate": "Bearer"}
            return _fault(401, "send the token as Authorization: Bearer TOKEN", challenge)
        until, address = started + settings.deadline, request.client.host if request.client else ""
        with ExitStack() as held:
            # Whoever cannot be taken is told so before the body costs anything.
            (self._places if endpoint.at_once is None else self._turns).check(address)
            take_memory = held.enter_context(self._memory.held(address, 0))
            body = await _received(request, settings.largest_body, take_memory)
            call = Call(
                endpoint.path,
                body,
                until,
                request.path_params,
                query_params=request.query_params,
                headers=request.headers,
                late=endpoint.late,
            )
            work: Work = partial(endpoint.handler, call)
            if endpoint.at_once is not None:
                with self._turns.held(address):
                    # One turn in each round of the loop: others are received, or refused, between.
                    async with self._turn:
                        await asyncio.sleep(0)
                        call.check_deadline()
                        begun = endpoint.at_once(call)
                if isinstance(begun, Reply):
                    return begun
                work = begun
            held.enter_context(self._places.held(address))
            answer = self._begin(endpoint.path, work, call, held.pop_all())
        await asyncio.wait({answer}, timeout=max(call.left_in_all(), 0.0))
        if not answer.done():
            return _fault(504, f"no answer within {settings.deadline + endpoint.late:g} s")
        return answer.result()

    async def _refused(self) -> Reply:
        """The answer to a request that is not taken; the more there are, the later it comes."""
        self._refusing += 1
        try:
            await asyncio.sleep(min(self._refusing / _REFUSALS, _LONGEST_REFUSAL))
        finally:
            self._refusing -= 1
        return _fault(503, "too many requests at once: try again", _RETRY)

    def _begin(self, path: str, work: Work, call: Call, held: ExitStack) -> asyncio.Future[Reply]:
        """Answer a request in a thread, which holds its place and memory until it ends."""
        result: Future[Reply] = Future()

        def run() -> None:
            try:
                call.check_deadline()
                reply = work()
            except Exception as error:  # noqa: BLE001 - a bug of ours must not end the thread
                # An error that a future holds would hold the body until the collector runs.
                reply = _failed(path, error)
            result.set_result(reply)

        answer = asyncio.wrap_future(result)
        answer.add_done_callback(lambda _: held.close())
        self._threads.start(run)
        return answer


async def _received(request: Request, largest: int, take_memory: Callable[[int], None]) -> bytes:
    """The body of a request. Raises BodyRefused, and Busy."""
    length, parts, size, memory = request.headers.get("content-length", "0"), [], 0, BodySize()
    if not length.isdigit() or int(length) > largest:
        raise _too_large(largest)
    async for part in request.stream():
        size += len(part)
        if size > largest:
            raise _too_large(largest)
        take_memory(memory.add(part))
        parts.append(part)
    return b"".join(parts)


def _too_large(largest: int) -> BodyRefused:
    return BodyRefused(413, f"the body is larger than {largest} bytes")


def _failed(path: str, error: Exception) -> Reply:
    """The answer that says why there is no other."""
    if isinstance(error, OwpcLtrError):
        return _fault(status_of(error), str(error))
    _log.error("%s: %s", path, raised_in(error))
    return _fault(500, f"{type(error).__name__}: please report this")


def _allowed(request: Request, token: Secret | None) -> bool:
    if token is None:
        return True
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(text.encode(), token.encode())


def _fault(status: int, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    return json_reply({"message": message}, status, headers)


def _refusal(status: int, message: str) -> Callable[[Request, Exception], Response]:
    return lambda _request, _error: _response(_fault(status, message))


def _response(reply: Reply, sent: BackgroundTask | None = None) -> Response:
    headers = {
        # Some come from a request: no line break and no letter that HTTP does not know.
        name: one_line(value).encode("ascii", "backslashreplace").decode()
        for name, value in reply.headers.items()
    }
    return Response(reply.body, reply.status, headers, reply.content_type, sent)
