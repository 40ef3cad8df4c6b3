"""Requests over HTTP whose answers are bounded in time and size; servers that are no engine.

`exchange` is one request, to an engine too. A `Server` is a language model's endpoint or a webhook:
what is sent there, and what its answers may cost, is decided here alone.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import urllib3
from urllib3 import connection as connections

from owpc_ltr.engine.client.retry import (
    BUSY,
    LONGEST_WAIT,
    TransientError,
    causes,
    fault_of,
    seconds_requested,
    tell_wait,
)
from owpc_ltr.errors import EngineUnavailable, UsageError

CONNECT_SECONDS = 10.0
"""Seconds for making a connection."""
LARGEST_ERROR = 1 << 18
"""The most bytes of an error answer that are read."""
FAULTS = (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError)
"""What `exchange` raises where no whole answer came."""
_BLOCK = 65_536
_REFUSALS = 3
"""Attempts to make a connection before a server counts as gone."""


class ServerAnswer(NamedTuple):
    """An answer; its headers' names are in lower case. `whole`: no more of its body came."""

    status: int
    headers: dict[str, str]
    content: bytes
    whole: bool


def exchange(
    pool: urllib3.HTTPConnectionPool,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    seconds: float,
    largest: int,
) -> ServerAnswer:
    """The answer to a request, of which at most so many bytes, of an error fewer, are read.

    It must be there in `seconds`. No redirect is followed. Raises FAULTS.
    """
    response = pool.urlopen(
        method,
        path,
        body=body,
        headers=headers,
        retries=False,
        redirect=False,
        preload_content=False,
        timeout=urllib3.Timeout(connect=min(seconds, CONNECT_SECONDS), total=seconds),
    )
    try:
        received = {name.lower(): value for name, value in response.headers.items()}
        most = largest if 200 <= response.status < 300 else min(largest, LARGEST_ERROR)
        content = bytearray()
        for part in response.stream(_BLOCK, decode_content=True):
            content += part
            if len(content) > most:
                break
        whole = len(content) <= most
        if not whole:
            del content[LARGEST_ERROR:]
        return ServerAnswer(response.status, received, bytes(content), whole)
    finally:
        # Gives the connection back where the answer was read, and drops it elsewhere.
        response.close() if not response.closed else response.release_conn()


class NoAnswer(EngineUnavailable):
    """A server gave no answer; `gone`: it would give none to another request either."""

    def __init__(self, why: str, *, gone: bool = False) -> None:
        super().__init__(why)
        self.gone = gone


class Server:
    """A server that is no engine, asked with JSON; threads may share it.

    An answer may take `seconds` and have `largest` bytes. A busy one (429, 5xx) is asked `tries`
    times, and waited for `LONGEST_WAIT` seconds at most. Raises UsageError for an invalid
    address, without showing it.
    """

    def __init__(
        self,
        url: str,
        *,
        seconds: float,
        largest: int = LARGEST_ERROR,
        tries: int = 1,
        headers: Mapping[str, str] | None = None,
        connections: int = 1,
    ) -> None:
        try:
            parts = urlsplit(url)
            if parts.scheme not in _CONNECTIONS or not parts.hostname:
                raise ValueError
            self._pool = urllib3.connection_from_url(url, maxsize=connections)
        except ValueError as error:
            raise UsageError("no address of a server: write it as https://HOST/PATH") from error
        self._pool.ConnectionCls = _CONNECTIONS[parts.scheme]
        self.host = parts.netloc.rpartition("@")[2]
        self._path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        self._address = f"{parts.scheme}://{self.host}"
        self._seconds, self._largest, self._tries = seconds, largest, tries
        self._headers = {"Content-Type": "application/json", **(headers or {})}

    def post(self, content: object) -> ServerAnswer:
        """The answer, which may be an error, and may be cut. Raises NoAnswer."""
        body = json.dumps(content).encode()
        waited, attempts = 0.0, 0
        while True:
            attempts += 1
            last, asked = attempts >= self._tries, 0.0
            try:
                answer = self._exchange(body)
            except TransientError as fault:
                last |= fault.late or (fault.unreachable and attempts >= _REFUSALS)
                if last:
                    raise NoAnswer(str(fault), gone=fault.unreachable) from fault
            else:
                if (answer.status not in BUSY and answer.status != 500) or last:
                    return answer
                asked = seconds_requested(answer.headers.get("retry-after"))
            pause = max(asked, 0.5 * 2 ** (attempts - 1))
            waited += pause
            if waited > LONGEST_WAIT:
                raise NoAnswer(f"it is busy, and asks to wait {pause:,.0f} s", gone=True)
            tell_wait(asked, self.host)
            time.sleep(pause)

    def _exchange(self, body: bytes) -> ServerAnswer:
        """One attempt. Raises TransientError, and NoAnswer where another would not help."""
        try:
            return exchange(
                self._pool,
                "POST",
                self._path,
                body,
                self._headers,
                seconds=self._seconds,
                largest=self._largest,
            )
        except FAULTS as error:
            fault = fault_of([*causes(error)], self._address, "have this machine trust its CA")
            if isinstance(fault, TransientError):
                raise fault from error
            raise NoAnswer(str(fault), gone=True) from error


# One deadline for the whole answer


class _TimedResponse(http.client.HTTPResponse):
    """An answer whose status line, headers and body must all be there at a given time."""

    def __init__(self, sock: socket.socket, *args: Any, end: float, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock, end))


class _TimedReader(io.RawIOBase):
    """A socket, read until a given time of the monotonic clock."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        super().__init__()
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the whole answer took too long")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class TimedHttp(connections.HTTPConnection):
    """Takes the timeout for the whole answer, not for each read of it."""

    def getresponse(self) -> Any:
        """The answer, whose time runs from now, and which is closed where it is not read whole."""
        end = time.monotonic() + float(self.timeout or 0)
        made: list[_TimedResponse] = []

        def make(*args: Any, **kwargs: Any) -> _TimedResponse:
            made.append(_TimedResponse(*args, end=end, **kwargs))
            return made[-1]

        self.response_class = make  # type: ignore[assignment]
        try:
            return super().getresponse()
        except BaseException:
            for response in made:
                response.close()
            raise


class TimedHttps(TimedHttp, connections.HTTPSConnection):
    """The same over TLS."""


_CONNECTIONS: dict[str, type[TimedHttp]] = {"http": TimedHttp, "https": TimedHttps}
