"""One HTTP exchange with an engine, bounded in time and in size, over urllib3."""

from __future__ import annotations

import http.client
import os
import platform
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import urllib3

from owpc_ltr.engine.http.address import port_of, split_url
from owpc_ltr.engine.http.aws import AwsSigner
from owpc_ltr.engine.http.connection import ConnectionSettings
from owpc_ltr.engine.http.retry import TransientError
from owpc_ltr.engine.http.timed_http import TimedHTTP, TimedHTTPS
from owpc_ltr.errors import EngineUnavailable, Refused, UsageError
from owpc_ltr.version import VERSION

_CONNECT_SECONDS = 10.0
_MOST_IN_FLIGHT = 64
# Which faults may pass, and whether they came before there was a connection; the first that fits.
_PASSING = (
    (urllib3.exceptions.NameResolutionError, "no machine has this name", True),
    (urllib3.exceptions.NewConnectionError, "no connection", True),
    (urllib3.exceptions.ConnectTimeoutError, "no connection in time", True),
    ((urllib3.exceptions.TimeoutError, TimeoutError), "no answer in time", False),
)

_PLAIN = {"wrong version number", "http request", "unknown protocol"}
"""What OpenSSL says of an answer in plain http."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, whole; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """Connections to one engine, safe to share between threads.

    Not those of opensearch-py: their timeout is for one read only, so that an answer of one byte a
    second never ends; their answers have no limit in size; their logging shows whole bodies; and
    the import of all its interfaces takes as long as a whole search.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        parts = split_url(settings.url)
        self._settings = settings
        credentials = settings.credentials
        by_aws = credentials is not None and credentials.aws_region is not None
        self._signer = AwsSigner(credentials) if credentials and by_aws else None
        name = parts.hostname or ""
        shown = f"[{name}]" if ":" in name else name
        self._host = f"{parts.scheme}://{shown}:{port_of(parts)}"
        self._prefix = f"/{parts.path.strip('/')}" if parts.path else ""
        self._pool = _pool(settings, name, port_of(parts), secure=parts.scheme == "https")
        self._headers = {
            "connection": "keep-alive",
            "content-type": "application/json",
            "user-agent": f"owpc-ltr/{VERSION} (Python {platform.python_version()})",
            "accept": "application/json",
        }
        if credentials and credentials.authorization:
            self._headers["authorization"] = credentials.authorization

    def close(self) -> None:
        """End the idle connections."""
        self._pool.close()

    def exchange(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: bytes | None,
        content_type: str,
        seconds: float,
    ) -> Answer:
        """Send a request and read its whole answer within so many seconds.

        Raises TransientError where trying again may help, and EngineUnavailable where it will not.
        """
        url = self._prefix + path + (f"?{urlencode(params)}" if params else "")
        headers = dict(self._headers)
        if body is not None:
            headers["content-type"] = content_type
        else:
            headers.pop("content-type", None)
        if self._signer is not None:
            headers.update(self._signer.sign(method, self._host + url, body, headers))
        try:
            response = self._pool.urlopen(
                method,
                url,
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(connect=min(seconds, _CONNECT_SECONDS), total=seconds),
            )
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            raise self._fault(error) from error
        try:
            return Answer(response.status, _lowered(response.headers), self._read(response))
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            raise TransientError(f"its answer was cut off ({_name(error)})") from error
        finally:
            # Gives the connection back where the answer was read, and drops it elsewhere.
            response.close() if not response.closed else response.release_conn()

    def _read(self, response: Any) -> bytes:
        content = bytearray()
        for part in response.stream(65_536, decode_content=True):
            content += part
            if len(content) > self._settings.largest_answer:
                raise Refused(
                    f"{self._host} answers with more than {self._settings.largest_answer} bytes, "
                    "which is not read: ask for less at once"
                )
        return bytes(content)

    def _fault(self, error: Exception) -> Exception:
        """A fault before there was an answer: whether it may pass, and may have had effects."""
        ssl_fault = _ssl_fault(error)
        if ssl_fault in _PLAIN:
            address = self._settings.url.partition("://")[2]
            return EngineUnavailable(
                f"no secure connection to {self._host}: it speaks plain http, without TLS; use "
                f"http://{address}"
            )
        if ssl_fault is not None:
            return EngineUnavailable(
                f"no secure connection to {self._host}: {ssl_fault}; give the CA's certificate by "
                "OWPC_LTR_CA, or check the address"
            )
        if isinstance(error, urllib3.exceptions.LocationValueError):
            return UsageError(f"{self._host} is no address of an engine: write it as https://HOST")
        for kinds, why, unreachable in _PASSING:
            if isinstance(error, kinds):
                return TransientError(_reason(error) or why, unreachable=unreachable)
        return TransientError(f"the connection broke ({_name(error)})")


def _pool(
    settings: ConnectionSettings, host: str, port: int, *, secure: bool
) -> urllib3.HTTPConnectionPool:
    given: dict[str, Any] = {"timeout": settings.timeout, "maxsize": _MOST_IN_FLIGHT}
    pool: urllib3.HTTPConnectionPool
    if secure:
        pool = urllib3.HTTPSConnectionPool(host, port, ssl_context=_context(settings), **given)
        pool.ConnectionCls = TimedHTTPS
    else:
        pool = urllib3.HTTPConnectionPool(host, port, **given)
        pool.ConnectionCls = TimedHTTP
    return pool


def _context(settings: ConnectionSettings) -> ssl.SSLContext:
    try:
        trusted = str(settings.ca) if settings.ca else None
        context = ssl.create_default_context(cafile=trusted)
        usual = _usual_authorities()
        if trusted is None and usual:
            context.load_verify_locations(usual)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{settings.ca} holds no CA certificates in PEM: {error}") from error
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        # It is said once a run, in our own words.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return context


def _usual_authorities() -> str | None:
    """Where the environment, or certifi, has the certificates of authorities."""
    usual = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if usual:
        return usual
    try:
        import certifi
    except ImportError:
        return None
    return certifi.where()


def _ssl_fault(error: Exception) -> str | None:
    """Why no secure connection could be made; None for every other fault.

    A secure connection that breaks is a broken connection.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        inner = next((arg for arg in cause.args if isinstance(arg, BaseException)), None)
        cause = inner or cause.__cause__
    if cause is None or isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError | TimeoutError):
        return "wrong host name" if _is_host_mismatch(error) else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message})"
    return f"{(cause.reason or 'TLS failed').replace('_', ' ').lower()}"


def _reason(error: BaseException) -> str:
    """The system's own words, such as: connection refused."""
    strerror = getattr(error.__cause__, "strerror", None)
    refused = isinstance(error.__cause__, OSError) and not isinstance(error, TimeoutError)
    return str(strerror).lower() if refused and strerror else ""


def _is_host_mismatch(error: Exception) -> bool:
    return "CertificateError" in repr(error)


def _lowered(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _name(error: BaseException) -> str:
    return type(error).__name__
