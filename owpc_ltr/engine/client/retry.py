"""Requests through opensearch-py: one attempt, and retries.

The library raises an exception for an error answer and for a request without a whole answer:
`ErrorAnswer` and `TransientError`, or EngineUnavailable where another attempt would not help.
There is one policy of retries: which statuses, the pauses between attempts, and the deadline.
An engine's Retry-After is a lower bound of a pause; above 100 s it is not waited for.
"""

from __future__ import annotations

import copy
import random
import re
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from owpc_ltr.engine.client.responses import one_line
from owpc_ltr.errors import EngineUnavailable, UsageError
from owpc_ltr.redaction import Secret

if TYPE_CHECKING:
    from opensearchpy import OpenSearchException, Transport

T = TypeVar("T")
BUSY = frozenset((429, 502, 503, 504))
"""HTTP statuses that are retried."""
FIRST_PAUSE = 0.2
"""Seconds: the longest pause before the first retry, as after a 429; twice as long each time."""
LONGEST_PAUSE = 30.0
"""Seconds: the longest pause of all."""
LONGEST_WAIT = 100.0
"""Seconds: a server that asks to wait longer is not waited for."""
_TOLD = 5.0
"""Seconds: longer waits are told."""
_INSTANT = 1e-3
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?")
_FOR_EVER = 1e9
_UNREACHABLE = {
    "NameResolutionError": "no machine has this name",
    "NewConnectionError": "no connection",
    "ConnectTimeoutError": "no connection in time",
}
"""Exceptions of urllib3 from before there was a connection."""
_TIMEOUTS = {"ConnectionTimeout", "TimeoutError"}
_BROKEN = {
    "IncompleteRead": "its answer was cut off",
    "DecodeError": "its answer cannot be unpacked",
}
_PLAIN_HTTP = {"wrong version number", "http request", "unknown protocol"}
"""What OpenSSL says of an answer in plain http."""


class TransientError(Exception):
    """A fault that may pass. `wait`: seconds that the engine asks for.

    `not_executed`: the request was certainly not carried out, so that even one that must not be
    carried out twice can be sent again. `unreachable`: there was not even a connection. `late`:
    the time was over before an answer came.
    """

    def __init__(
        self,
        why: str,
        *,
        not_executed: bool = False,
        unreachable: bool = False,
        late: bool = False,
        wait: float = 0.0,
    ) -> None:
        super().__init__(why)
        self.not_executed = not_executed or unreachable
        self.unreachable = unreachable
        self.late = late
        self.wait = wait


@dataclass(frozen=True)
class Retrying:
    """Carries out one request at a time until it succeeds or nothing is left to try.

    Pauses are drawn evenly from nothing up to 0.2 s, doubled each time, at most 30 s ("full
    jitter", Brooker 2015); an engine's Retry-After is a lower bound. Time is monotonic.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(self, attempt: Callable[[float], T], seconds: float, *, idempotent: bool) -> T:
        """What `attempt`, called with the seconds that are left, returns.

        The last TransientError is raised when the deadline is near, or at once where the request
        may have been carried out and is not idempotent. A last attempt that the deadline cuts
        short raises what the attempt before it met.
        """
        end = self.clock() + seconds
        # The last attempt keeps some time for its answer.
        margin = min(1.0, seconds / 10)
        longest = FIRST_PAUSE
        before: TransientError | None = None
        while True:
            left = end - self.clock()
            try:
                return attempt(max(left, 0.001))
            except TransientError as fault:
                if before is not None and fault.late and left - margin < _INSTANT:
                    raise before from fault
                if not (idempotent or fault.not_executed):
                    raise
                left = end - self.clock() - margin
                drawn = random.uniform(0.0, longest)  # noqa: S311 - no secret
                pause = max(fault.wait, min(drawn, left))
                too_long = pause > left + margin / 2 or fault.wait > LONGEST_WAIT
                if left < _INSTANT or too_long:
                    raise
                before = fault
                tell_wait(fault.wait, "the engine")
            self.sleep(pause)
            longest = min(2 * longest, LONGEST_PAUSE)


def tell_wait(seconds: float, server: str) -> None:
    """Say on standard error why nothing happens, unless it is a moment."""
    if seconds >= _TOLD:
        print(f"waiting {seconds:.0f} s, as {server} asks", file=sys.stderr)


def seconds_requested(retry_after: str | None) -> float:
    """Retry-After in seconds, given as a number or a date; 0 where there is none to be read.

    >>> seconds_requested("5"), seconds_requested("soon"), seconds_requested(None)
    (5.0, 0.0, 0.0)
    """
    text = (retry_after or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), _FOR_EVER)
    try:
        date = parsedate_to_datetime(text)
        # A date without a zone is in universal time, as HTTP has it.
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = (date - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, IndexError, ArithmeticError):
        return 0.0
    return min(max(0.0, seconds), _FOR_EVER)


@dataclass
class ErrorAnswer(Exception):
    """An HTTP answer whose status is an error; `content` is its JSON, None where it has none."""

    status: int
    content: Any
    text: str
    wait: float
    """Seconds that Retry-After asks for."""

    @property
    def is_cut(self) -> bool:
        """Whether it is half an error in JSON: what it is about may be in the other half."""
        return self.content is None and self.text.lstrip().startswith("{")


@dataclass(frozen=True)
class Request:
    """What is sent to a cluster."""

    method: str
    path: str
    params: Mapping[str, str]
    body: bytes | None
    content_type: str


def send(transport: Transport, request: Request, seconds: float) -> Any:
    """The decoded JSON of the answer, which is to come within so many seconds.

    Raises ErrorAnswer, TransientError where another attempt may help, and EngineUnavailable
    where it will not.
    """
    from opensearchpy import OpenSearchException

    headers = {"accept": "application/json"}
    if request.body is not None:
        headers["content-type"] = request.content_type
    try:
        content = transport.perform_request(
            request.method,
            request.path,
            params={**request.params, "request_timeout": seconds},
            body=request.body,
            headers=headers,
        )
    except RecursionError as error:
        raise TransientError("it answered with what is not whole JSON") from error
    except OpenSearchException as error:
        raise _meaning(error, address_of(transport)) from error
    if content == "":
        raise TransientError("it answered with nothing")
    if isinstance(content, str):
        raise _no_json(address_of(transport), "text")
    return content


def transport_of(client: Any) -> Transport:
    """The transport of an `opensearchpy.OpenSearch`. UsageError for another object.

    It is a copy that shares the client's connections, and leaves retries to `Retrying`.
    """
    from opensearchpy import OpenSearch

    if not isinstance(client, OpenSearch):
        kind = type(client)
        raise UsageError(
            f"requests cannot go through a '{kind.__module__.partition('.')[0]}.{kind.__name__}': "
            "give an address or an opensearchpy.OpenSearch, which is synchronous"
        )
    transport = copy.copy(client.transport)
    transport.max_retries = 0
    for connection in transport.connection_pool.connections:
        Secret(connection.headers.get("authorization", ""))
    return transport


def address_of(transport: Transport) -> str:
    """The address of the cluster, as messages show it."""
    first = transport.connection_pool.connections[0]
    return f"{first.host}{first.url_prefix}"


def _no_json(url: str, content_type: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"{url} answers with {one_line(content_type)} in place of JSON: is this the engine's own "
        "address?"
    )


def _meaning(error: OpenSearchException, url: str) -> Exception:
    """What an exception of opensearch-py means: an error answer, or none that is whole."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        content = error.info
        text = "" if content is not None else str(error.error)
        if isinstance(content, str):
            text, content = content, None
        wait = seconds_requested(getattr(error, "headers", {}).get("retry-after"))
        return ErrorAnswer(status, content, text, wait)
    if "SerializationError" in _names([error]):
        if "mimetype" in str(error):
            return _no_json(url, str(error).rpartition(":")[2].strip())
        return TransientError("it answered with what is not whole JSON")
    return fault_of([*causes(error)], url)


def fault_of(
    chain: list[BaseException], url: str, trust: str = "give the CA's certificate by OWPC_LTR_CA"
) -> Exception:
    """Why there was no whole answer: whether that may pass, and may have had effects.

    `trust` is what to do about a certificate that is not trusted.
    """
    names = _names(chain)
    tls = _tls_fault(chain)
    if tls in _PLAIN_HTTP:
        return EngineUnavailable(
            f"no secure connection to {url}: it speaks plain http, without TLS; use "
            f"http://{url.partition('://')[2]}"
        )
    if tls is not None:
        return EngineUnavailable(
            f"no secure connection to {url}: {tls}; {trust}, or check the address"
        )
    if "LocationValueError" in names:
        return UsageError(f"{url} is not an address of an engine: write it as https://HOST")
    reasons = (e.strerror for e in chain if isinstance(e, OSError) and e.strerror)
    reason = next(reasons, "").lower()
    for name, why in _UNREACHABLE.items():
        if name in names:
            return TransientError(reason or why, unreachable=True)
    if names & _TIMEOUTS:
        return TransientError("no answer in time", late=True)
    broken = next((why for name, why in _BROKEN.items() if name in names), "")
    return TransientError(broken or f"the connection broke ({reason or type(chain[-1]).__name__})")


def _tls_fault(chain: list[BaseException]) -> str | None:
    """Why no secure connection could be made; None where it broke, and for every other fault."""
    fault = next((error for error in chain if isinstance(error, ssl.SSLError)), None)
    if fault is None or isinstance(fault, ssl.SSLEOFError | ssl.SSLZeroReturnError | TimeoutError):
        return "wrong host name" if "CertificateError" in _names(chain) else None
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({fault.verify_message})"
    return (fault.reason or "TLS failed").replace("_", " ").lower()


def causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and those that it wraps, from the outermost on."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting and len(seen) < 50:
        fault = waiting.pop(0)
        if any(fault is earlier for earlier in seen):
            continue
        seen.append(fault)
        yield fault
        inner = (*fault.args, *getattr(fault, "errors", ()), getattr(fault, "reason", None))
        waiting += [part for part in (*inner, fault.__cause__) if isinstance(part, BaseException)]


def _names(chain: list[BaseException]) -> set[str]:
    return {kind.__name__ for error in chain for kind in type(error).__mro__}
