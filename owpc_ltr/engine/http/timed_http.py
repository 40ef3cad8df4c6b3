"""HTTP connections with a timeout for the whole answer, not for each read of it."""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from urllib3 import connection as connections


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


@contextmanager
def _timed(connection: Any) -> Iterator[None]:
    """Answers of a connection are timed from now, and closed where they are refused half-read."""
    end = time.monotonic() + float(connection.timeout or 0)
    made: list[_TimedResponse] = []

    def make(*args: Any, **kwargs: Any) -> _TimedResponse:
        made.append(_TimedResponse(*args, end=end, **kwargs))
        return made[-1]

    connection.response_class = make
    try:
        yield
    except BaseException:
        for response in made:
            response.close()
        raise


class TimedHTTP(connections.HTTPConnection):
    """Takes the timeout for the whole answer, not for each read of it."""

    def getresponse(self) -> Any:
        """The answer, whose time runs from now."""
        with _timed(self):
            return super().getresponse()


class TimedHTTPS(connections.HTTPSConnection):
    """As above, over TLS."""

    def getresponse(self) -> Any:
        """The answer, whose time runs from now."""
        with _timed(self):
            return super().getresponse()
