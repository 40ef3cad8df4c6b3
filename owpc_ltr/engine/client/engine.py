"""`Engine`: a cluster that answers requests. JSON in, JSON out; which answers are retried.

Requests go through opensearch-py: through a client of ours (`connection.open_client`), or through a
given one.
"""

from __future__ import annotations

import copy
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import quote

from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter, Slot
from owpc_ltr.engine.client.responses import (
    AnswerPart,
    EngineRefusal,
    MalformedAnswer,
    NoSuchIndex,
    NotAllowed,
    SearchAnswer,
    cause,
    missing_right,
    one_line,
)
from owpc_ltr.engine.client.retry import (
    BUSY,
    LONGEST_WAIT,
    ErrorAnswer,
    Request,
    Retrying,
    TransientError,
    address_of,
    send,
    transport_of,
)
from owpc_ltr.engine.client.settings import ConnectionSettings, find_settings, limits_of
from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError
from owpc_ltr.text import cut

if TYPE_CHECKING:
    from opensearchpy import Transport

PATIENCE = 3.0
"""Seconds for the first connection to an engine."""
_LTR_PLUGINS = {"opensearch-ltr", "ltr"}
_NO_HANDLER = {400, 405}
"""What a node without the module that answers `GET /` says to it."""
_PATH = re.compile(r"/[A-Za-z0-9_.@%/-]*")


class EngineLike(Protocol):
    """An engine that answers requests, or a stand-in for one."""

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: object = None,
        deadline: float | None = None,
    ) -> Any:
        """The decoded JSON of the answer; EngineUnavailable or EngineRefusal where there is none.

        `deadline` is in seconds, for all attempts together.
        """
        ...


@runtime_checkable
class LimitableEngine(EngineLike, Protocol):
    """An engine whose searches can be limited by what becomes of each attempt."""

    def limited(self, limiter: ConcurrencyLimiter) -> EngineLike:
        """The same engine, each of whose searches waits for a slot."""
        ...


@dataclass
class _Shared:
    """What the copies of an Engine have in common."""

    transport: Transport | None
    met: bool = False
    """Whether the engine has ever answered."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


def answer_if_found(
    engine: EngineLike, method: str, path: str, what: str, **options: Any
) -> AnswerPart | None:
    """The answer about `what`; None where the engine has nothing of this name (404)."""
    try:
        return AnswerPart(engine.request(method, path, **options), what)
    except EngineRefusal as refusal:
        # A 404 without the engine's own words is a proxy's, and says nothing of the document.
        if refusal.status == 404 and refusal.type:
            return None
        raise


class Engine:
    """A cluster that answers requests; safe to share between threads.

    `transport` is that of a ready client; without one, opensearch-py is imported with the first
    request.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        retrying: Retrying | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.settings = settings
        self.client_given = transport is not None
        self._retrying = retrying or Retrying()
        self._shared = _Shared(transport)
        self._limiter: ConcurrencyLimiter | None = None

    def __repr__(self) -> str:
        return f"Engine({self.settings.url!r})"

    def limited(self, limiter: ConcurrencyLimiter) -> Engine:
        """The same cluster over the same connections; each of its searches waits for a slot."""
        limited = copy.copy(self)
        limited._limiter = limiter
        return limited

    def within(self, seconds: float) -> Engine:
        """The same cluster over the same connections; no request takes longer than that."""
        bounded = copy.copy(self)
        shorter = min(seconds, self.settings.deadline)
        bounded.settings = replace(self.settings, deadline=shorter, longest=seconds)
        return bounded

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: object = None,
        ndjson: Iterable[Any] | None = None,
        idempotent: bool = True,
        deadline: float | None = None,
    ) -> Any:
        """The decoded JSON of the answer.

        `path` is percent-encoded by the caller. `ndjson` is a body of one JSON value a line. An
        `idempotent` request (a search is one) may be sent again after its answer was lost.
        `deadline` is in seconds, for all attempts together.

        Raises EngineUnavailable where no whole answer comes in time or the credentials are
        refused, and EngineRefusal where the engine says no.
        """
        if not _PATH.fullmatch(path) or "/../" in f"{path}/":
            raise ValueError(f"not a path of an engine: {path!r}")
        texts = {name: _text(value) for name, value in (params or {}).items()}
        request = Request(method, path, texts, *_encoded(body, ndjson))
        attempts = 0

        def attempt(left: float, slot: Slot | None) -> Any:
            nonlocal attempts
            attempts += 1
            status = None
            try:
                answer = send(self._transport, request, min(left, self.settings.timeout))
            except ErrorAnswer as error:
                status = error.status
                raise self._meaning(f"{method} {path}", path, error) from None
            except TransientError as fault:
                status = 0
                # A wrong address or a forgotten start is told at once, an outage is waited for.
                met = self._shared.met
                if not (met or fault.late) and time.monotonic() > started + PATIENCE:
                    raise given_up(fault) from fault
                raise
            else:
                status = 200
                return answer
            finally:
                self._shared.met |= bool(status)
                if slot is not None and status is not None:
                    slot.ended(status)

        def given_up(fault: TransientError) -> EngineUnavailable:
            times = "once" if attempts == 1 else f"{attempts} times"
            return EngineUnavailable(
                f"{self.settings.url} did not do {method} {path}: {fault}; tried {times} in "
                f"{time.monotonic() - started:.1f} s{self._hint(fault)}"
            )

        seconds = min(deadline or self.settings.deadline, self.settings.longest)
        # What is held in the engine is given back without a slot.
        limiter = self._limiter if path.endswith("/_search") else None
        with nullcontext() if limiter is None else limiter.slot(seconds) as slot:
            started = time.monotonic()
            waited = 0.0 if slot is None else slot.waited
            try:
                return self._retrying.run(
                    lambda left: attempt(left, slot), seconds - waited, idempotent=idempotent
                )
            except TransientError as fault:
                raise given_up(fault) from fault

    def about(self) -> About:
        """What the cluster says of itself, without its plugins, which are a right of their own."""
        return about(self, self.settings.url)

    def identity(self) -> Identity:
        """What the cluster says of itself, with the plugins of its nodes."""
        facts = vars(self.about())
        plugins = self.request("GET", "/_cat/plugins", params={"format": "json"})
        try:
            names = sorted({str(plugin["component"]) for plugin in plugins})
        except (KeyError, TypeError) as error:
            raise _no_engine(self.settings.url) from error
        return Identity(**facts, plugins=tuple(names))

    def close(self) -> None:
        """End the idle connections, unless they are those of a ready client."""
        if self._shared.transport is not None and not self.client_given:
            self._shared.transport.close()

    @property
    def _transport(self) -> Transport:
        shared = self._shared
        if shared.transport is None:
            with shared.lock:
                if shared.transport is None:
                    from owpc_ltr.engine.client.connection import open_client

                    shared.transport = transport_of(open_client(self.settings))
        return shared.transport

    def _meaning(self, request: str, path: str, answer: ErrorAnswer) -> Exception:
        """What an error answer means: a TransientError where another attempt may help."""
        status = answer.status
        if 300 <= status < 400:
            return EngineUnavailable(
                f"{self.settings.url} sends {path} on to another address ({status}), which is not "
                "followed: give the engine's own address"
            )
        if answer.is_cut:
            return TransientError("it answered with what is not whole JSON")
        kind, reason = cause(answer.content)
        if status in BUSY and not _is_about_snapshots(path, kind, reason):
            why = f"it is busy or not there ({status}{': ' if reason else ''}{reason})"
            if answer.wait > LONGEST_WAIT:
                why += f", and asks to wait {answer.wait:,.0f} s"
            return TransientError(why, not_executed=status == 429, wait=answer.wait)
        # The LTR plugin's own breaker refuses writes with a plain 500, before it stores anything.
        if status == 500 and "memory circuit is broken" in reason:
            return TransientError("the LTR plugin is short of memory", not_executed=True)
        if status == 401 or (status == 403 and "block" not in kind):
            unauthorised = NotAllowed if status == 403 else EngineUnavailable
            return unauthorised(self._unauthorised(request, status, reason))
        refusal = NoSuchIndex if kind == "index_not_found_exception" else EngineRefusal
        return refusal(request, status, kind, reason or cut(one_line(answer.text), 200))

    def _unauthorised(self, request: str, status: int, reason: str) -> str:
        url, credentials = self.settings.url, self.settings.credentials
        because = f" ({reason})" if reason else ""
        if not self.client_given and credentials is None:
            denied = f" for {request}{because}" if status == 403 else ""
            return (
                f"{url}: authentication required ({status}){denied}: set OWPC_LTR_USER and "
                "OWPC_LTR_PASSWORD, or OWPC_LTR_API_KEY"
            )
        source = credentials.source if credentials and not self.client_given else "the given client"
        if status == 401:
            return f"{url} does not accept the credentials of {source} (401): check them"
        return (
            f"{url} does not allow {request}{because} (403): the credentials of {source} need "
            f"{missing_right(reason)}"
        )

    def _hint(self, fault: TransientError) -> str:
        scheme, _, address = self.settings.url.partition("://")
        if not (self._shared.met or fault.unreachable or fault.late):
            other, speaks = ("https", "TLS") if scheme == "http" else ("http", "plain http")
            return f"; if it speaks {speaks}, use {other}://{address}"
        if "refused" not in str(fault) or self.client_given:
            return ""
        if not self.settings.url.startswith("http://127.0.0.1:"):
            return "; check the address"
        other = "name your cluster by OWPC_LTR_URL or `url`"
        if self.settings.given:
            other = "check the address"
        return f"; start a local node: owpc-ltr engine start, or {other}"


def open_engine(
    url: Any = None,
    *,
    ca: Path | None = None,
    insecure: bool = False,
    caution: Callable[[str], None] | None = None,
) -> Engine:
    """The cluster of this call, the environment or the configuration file, else the local node.

    `url` may also be an `opensearchpy.OpenSearch`: then its own settings hold, and only the time
    limits are the environment's. `caution` is called with each line that
    the user must be shown on each run.
    """
    if url is not None and not isinstance(url, str):
        if ca is not None or insecure:
            raise UsageError("a ready client has its own certificates: leave ca and insecure out")
        transport = transport_of(url)
        address = address_of(transport).rstrip("/")
        return Engine(ConnectionSettings(address, **limits_of(os.environ)), transport=transport)
    settings = find_settings(url, ca=ca, insecure=insecure)
    for line in settings.cautions:
        if caution is not None:
            caution(line)
    return Engine(settings)


@dataclass(frozen=True)
class About:
    """What a cluster says of itself."""

    distribution: str
    """`opensearch` or `elasticsearch`."""
    version: str
    cluster: str
    uuid: str


@dataclass(frozen=True)
class Identity(About):
    """Which cluster it is and what it runs."""

    plugins: tuple[str, ...]

    @property
    def has_ltr(self) -> bool:
        """Whether a node of it runs the LTR plugin."""
        return not _LTR_PLUGINS.isdisjoint(self.plugins)


def about(engine: EngineLike, place: str) -> About:
    """What a cluster says of itself. Raises EngineUnavailable where no engine answers there."""
    try:
        answer = engine.request("GET", "/")
    except EngineRefusal as refusal:
        if refusal.status == 404 and not refusal.type:
            raise MalformedAnswer(
                f"{place} is no engine, which would answer GET / (404): give the engine's own "
                "address, and not that of owpc-ltr serve or of another service"
            ) from refusal
        if refusal.status not in _NO_HANDLER:
            raise
        nodes = engine.request("GET", "/_nodes/_local/http")
        state = engine.request("GET", "/_cluster/state/version")
        try:
            (node,) = nodes["nodes"].values()
            # Only Elasticsearch's builds have flavours.
            kind = "elasticsearch" if "build_flavor" in node else "opensearch"
            name, uuid = str(nodes["cluster_name"]), str(state["cluster_uuid"])
            return About(kind, str(node["version"]), name, uuid)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise _no_engine(place) from error
    try:
        version = answer["version"]
        return About(
            # Elasticsearch does not name itself.
            str(version.get("distribution", "elasticsearch")),
            str(version["number"]),
            str(answer["cluster_name"]),
            str(answer["cluster_uuid"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _no_engine(place) from error


def search_index(
    engine: EngineLike,
    index: str,
    body: Mapping[str, Any],
    what: str = "the search",
    *,
    params: Mapping[str, str] | None = None,
    deadline: float | None = None,
    scored: bool = False,
) -> SearchAnswer:
    """The answer of all shards of an index; see `SearchAnswer.read`."""
    answer = engine.request(
        "POST",
        f"/{quote(index, safe='')}/_search",
        params={"allow_partial_search_results": "false", **(params or {})},
        body=body,
        deadline=deadline,
    )
    return SearchAnswer.read(answer, body, what, scored=scored)


def _no_engine(place: str) -> MalformedAnswer:
    return MalformedAnswer(
        f"{place} answers, but not as OpenSearch or Elasticsearch does: check the address"
    )


def _is_about_snapshots(path: str, kind: str, reason: str) -> bool:
    """Whether no pause helps: others have filled the cluster with points in time, or ours is gone.

    A search without an index in its path is of a point in time, which the one node that had its
    shard takes along.
    """
    gone = path == "/_search" and kind == "no_shard_available_action_exception"
    return gone or "too many Point In Time" in reason


def _encoded(body: object, ndjson: Iterable[Any] | None) -> tuple[bytes | None, str]:
    try:
        if ndjson is not None:
            return "".join(f"{to_json(line)}\n" for line in ndjson).encode(), "application/x-ndjson"
        return (None if body is None else to_json(body).encode()), "application/json"
    except UnicodeEncodeError as error:
        raise BadInput(
            "a request contains invalid Unicode (a lone surrogate): fix the text it comes from"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"a request cannot be written as JSON: {error}") from error


def to_json(value: object) -> str:
    """A value as JSON in a request: on one line, and of finite numbers."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
