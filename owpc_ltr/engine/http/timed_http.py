"""HTTP connections with a timeout for the whole answer, not for each read of it."""

from __future__ import annotations

import functools
import http.client
import io
import socket
import time
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


class TimedHTTP(connections.HTTPConnection):
    """Takes the timeout for the whole answer, not for each read of it."""

    def getresponse(self) -> Any:
        """The answer, whose time runs from now."""
        end = time.monotonic() + float(self.timeout or 0)
        self.response_class = functools.partial(_TimedResponse, end=end)  # type: ignore[assignment]
        return super().getresponse()


class TimedHTTPS(connections.HTTPSConnection):
    """As above, over TLS."""

    def getresponse(self) -> Any:
        """The answer, whose time runs from now."""
        end = time.monotonic() + float(self.timeout or 0)
        self.response_class = functools.partial(_TimedResponse, end=end)  # type: ignore[assignment]
        return super().getresponse()
