"""The service as an ASGI application: who may ask, how much at a time, and until when.

Each request is received within a time and a size, admitted or told to come again (503), and then
answered by a handler in a thread of its own, until its deadline.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.responses import one_line
from owpc_ltr.engine.client.settings import Secret
from owpc_ltr.engine.search.search import DEADLINE
from owpc_ltr.errors import OwpcLtrError
from owpc_ltr_serve.admission import BodyMemory, BodyRefused, Busy, RequestSlots
from owpc_ltr_serve.faults import TooLate, status_of
from owpc_ltr_serve.slow_clients import FIRST_BYTE

if TYPE_CHECKING:
    from owpc_ltr.arrays import Matrix
    from owpc_ltr_serve.rankers import Rankers, ServedRanker

CONCURRENCY = 32
"""Requests that are answered at the same time; more are told to come again."""
LARGEST_BODY = 10_000_000
"""Bytes of a request."""
RECEIVE_SECONDS = 10.0
"""Seconds in which a request must have arrived."""
_REFUSALS = 1000.0
"""Refused requests that are answered in a second, at most: each costs a fifth of a millisecond, and
who waits for an answer does not ask again."""
_LONGEST_REFUSAL = 3.0
"""Seconds: longer than a deadline, or three thousand clients bring more than one loop can read."""
_RETRY = {"Retry-After": "1"}
"""When one who was turned away may come again."""
MODEL_HEADER = "X-LTR-Model"
"""Names the immutable model that ranked an answer."""
STATUS_HEADER = "X-LTR-Status"
"""Says where an answer has less than was asked for: `degraded; reason`."""
_log = logging.getLogger("owpc_ltr.serve")


@dataclass(frozen=True)
class ServeSettings:
    """Limits of the service; `token` is what a request must carry, if anything."""

    concurrency: int = CONCURRENCY
    deadline: float = DEADLINE
    """Seconds for a request, from its arrival to its answer."""
    largest_body: int = LARGEST_BODY
    receive_seconds: float = RECEIVE_SECONDS
    token: Secret | None = None
    hosts: Sequence[str] = ()
    """Names of the service that requests must use in `Host`; none: any. Without it, a page that
    rebinds its own name to 127.0.0.1 may ask, and read the answers."""


@dataclass(frozen=True)
class Call:
    """A request that was received, and until when it must be answered."""

    path: str
    """The path of its endpoint."""
    body: bytes
    until: float
    path_params: Mapping[str, str] = field(default_factory=dict)
    query_params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def left(self) -> float:
        """The seconds that are left."""
        return self.until - time.monotonic()

    def check_deadline(self) -> None:
        """Raise TooLate where no time is left, so that nobody works for who has been answered."""
        if self.left() <= 0:
            raise TooLate("the deadline passed before the documents were scored")


@dataclass(frozen=True)
class Reply:
    """What is answered."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


Handler = Callable[[Call], Reply]
Work = Callable[[], Reply]
"""What is left to do for an answer."""


@dataclass(frozen=True)
class Endpoint:
    """A path, and what answers its requests, in a thread of its own."""

    path: str
    handler: Handler
    methods: tuple[str, ...] = ("POST",)
    at_once: Callable[[Call], Reply | Work] | None = None
    """Asked first, in the thread that receives requests: answers what takes a few milliseconds, and
    gives back what else there is to do."""


class Observer:
    """What is told of requests; nothing is made of it here."""

    def answered(self, path: str, status: int, seconds: float) -> None:
        """The answer to a request was sent."""

    def stage(self, path: str, stage: str, seconds: float) -> None:
        """A stage of a request took so long."""

    def scored(self, served: ServedRanker, matrix: Matrix) -> None:
        """A model scored documents with these features."""

    def degraded(self, path: str, reason: str) -> None:
        """A request was answered with less than it asked for."""


def json_reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer in JSON."""
    return Reply(orjson.dumps(content), status, headers or {})


def create_app(
    rankers: Rankers,
    settings: ServeSettings | None = None,
    *,
    endpoints: Sequence[Endpoint],
    observer: Observer | None = None,
) -> Starlette:
    """The application, which any ASGI server can run; it loads the models when it starts.

    Every request but those for `/health` needs the token of `settings`, if there is one.
    """
    service = _Service(rankers, settings or ServeSettings(), observer or Observer())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        rankers.start()
        yield
        rankers.stop()

    routes = [Route("/health", service.health, methods=["GET"])]
    routes += [
        Route(one.path, service.answering(one), methods=list(one.methods)) for one in endpoints
    ]
    refusals: Any = {
        404: _refusal(
            404,
            "nothing is here: rerank requests go to /v2/rerank, searches to /INDEX/_search; other "
            "paths are not forwarded to the engine",
        ),
        405: _refusal(405, "this path takes another method"),
    }
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=service.hosts, www_redirect=False)
    app = Starlette(
        routes=routes, lifespan=lifespan, exception_handlers=refusals, middleware=[hosts]
    )
    # A redirect would name the host that the request claims.
    app.router.redirect_slashes = False
    return app


class _Service:
    """The requests that are under way."""

    def __init__(self, rankers: Rankers, settings: ServeSettings, observer: Observer) -> None:
        self._rankers, self._settings, self._observer = rankers, settings, observer
        self.hosts = [*settings.hosts] or ["*"]
        self._threads = RequestThreads(settings.concurrency)
        self._places = RequestSlots(settings.concurrency)
        self._turns, self._turn = RequestSlots(settings.concurrency), asyncio.Lock()
        self._memory = BodyMemory()
        self._refusing = 0

    async def health(self, _: Request) -> Response:
        """Whether it answers requests, and the model behind each name."""
        states = self._rankers.states()
        well = not any("fault" in one for one in states.values())
        content = {"status": "ok" if well else "degraded", "models": states}
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
            except OwpcLtrError as error:
                reply = _fault(status_of(error), str(error))
            except BodyRefused as refused:
                status, message = refused.args
                reply = _fault(status, message, {"Connection": "close"})
            except Busy:
                reply = await self._refused()
            except ClientDisconnect:
                reply = _fault(499, "the client has gone")
            except Exception as error:  # noqa: BLE001 - a bug of ours must not end the service
                _log.error("%s: %s", endpoint.path, _where(error))
                reply = _fault(500, f"{type(error).__name__}: please report this")
            reply = self._without_address(reply)
            seconds = time.monotonic() - started

            async def sent() -> None:
                self._observer.answered(endpoint.path, reply.status, seconds)

            return _response(reply, BackgroundTask(sent))

        return answer

    async def _answer(self, endpoint: Endpoint, request: Request, started: float) -> Reply:
        settings = self._settings
        if not _allowed(request, settings.token):
            challenge = {"WWW-Authenticate": "Bearer"}
            return _fault(401, "send the token as Authorization: Bearer TOKEN", challenge)
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
        if not kind.lower().endswith(("/json", "+json")):
            return _fault(415, "the body is not JSON by its Content-Type: send application/json")
        until, address = started + settings.deadline, request.client.host if request.client else ""
        with ExitStack() as held:
            body, is_get = b"", endpoint.methods == ("GET",)
            if not is_get:
                # Whoever cannot be taken is told so before the body costs anything.
                (self._places if endpoint.at_once is None else self._turns).check(address)
                body = await _received(request, settings, held.enter_context(self._memory.held()))
            call = Call(
                endpoint.path, body, until, request.path_params,
                query_params=request.query_params, headers=request.headers,
            )  # fmt: skip
            if is_get:
                return endpoint.handler(call)
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
            answer = self._begin(work, call, held.pop_all())
        timer = asyncio.get_running_loop().call_later(max(call.left(), 0.0), self._late, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    async def _refused(self) -> Reply:
        """The answer to a request that is not taken; the more there are, the later it comes."""
        self._refusing += 1
        try:
            await asyncio.sleep(min(self._refusing / _REFUSALS, _LONGEST_REFUSAL))
        finally:
            self._refusing -= 1
        return _fault(503, "too many requests at once: try again", _RETRY)

    def _begin(self, work: Work, call: Call, held: ExitStack) -> asyncio.Future[Reply]:
        """Answer a request in a thread, which holds its place and memory until it ends."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reply] = loop.create_future()

        def ended(reply: Reply | None, fault: Exception | None) -> None:
            held.close()
            if answer.done():
                return
            if reply is None:
                answer.set_exception(fault or RuntimeError("no answer"))
            else:
                answer.set_result(reply)

        def run() -> None:
            reply, fault = None, None
            try:
                call.check_deadline()
                reply = work()
            except Exception as error:  # noqa: BLE001 - raised again by who waits for the answer
                fault = error
            with suppress(RuntimeError):  # the service has ended meanwhile
                loop.call_soon_threadsafe(ended, reply, fault)

        self._threads.start(run)
        return answer

    def _late(self, answer: asyncio.Future[Reply]) -> None:
        if not answer.done():
            late = f"the deadline of {self._settings.deadline:g} s passed"
            answer.set_result(_fault(504, late))


async def _received(
    request: Request, settings: ServeSettings, take_memory: Callable[[bytes], None]
) -> bytes:
    """The body of a request. Raises BodyRefused, and Busy."""
    too_large = BodyRefused(413, f"the body is larger than {settings.largest_body} bytes")
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > settings.largest_body:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.receive_seconds):
            async for part in request.stream():
                size += len(part)
                if size > settings.largest_body:
                    raise too_large
                take_memory(part)
                parts.append(part)
    except TimeoutError as error:
        late = f"the request did not arrive within {settings.receive_seconds:g} s"
        raise BodyRefused(408, late) from error
    return b"".join(parts)


def _allowed(request: Request, token: Secret | None) -> bool:
    if token is None:
        return True
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(given.encode(), token.encode())


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


def _where(error: BaseException) -> str:
    """The kind of an error and where it was raised; not its text, which may hold a query's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" in {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"
