"""The opensearch-py connection class: answers bounded in time and size, and nothing secret in logs.

`BoundedConnection` is what `connect` gives to opensearch-py (`connection_class=`). Its own
`Urllib3HttpConnection` has a timeout for each read only, so that an answer of one byte a second
never ends; no largest answer; and logs whole bodies.
"""

from __future__ import annotations

import json
import logging
import platform
import ssl
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlencode

import urllib3
from opensearchpy import ConnectionError as ConnectionFault
from opensearchpy import (
    JSONSerializer,
    OpenSearch,
    SerializationError,
    TransportError,
    Urllib3HttpConnection,
)

from owpc_ltr.engine.client.servers import (
    FAULTS,
    LARGEST_ERROR,
    ServerAnswer,
    TimedHttp,
    TimedHttps,
    exchange,
)
from owpc_ltr.engine.client.settings import ConnectionSettings, Credentials, port_of, split_url
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.version import VERSION

POOL_SIZE = 64
"""Connections that are kept open."""


def open_client(settings: ConnectionSettings) -> OpenSearch:
    """The opensearch-py client for these settings; its requests are neither logged nor retried."""
    parts = split_url(settings.url)
    credentials = settings.credentials
    headers = {"accept": "application/json", "user-agent": _USER_AGENT}
    if credentials and credentials.authorization:
        headers["authorization"] = credentials.authorization
    secure = parts.scheme == "https"
    signs = credentials is not None and credentials.aws_region is not None
    return OpenSearch(
        [{"host": parts.hostname, "port": port_of(parts), "url_prefix": parts.path.strip("/")}],
        connection_class=BoundedConnection,
        max_retries=0,
        serializer=_StrictJson(),
        timeout=settings.timeout,
        largest_answer=settings.largest_answer,
        headers=headers,
        use_ssl=secure,
        ssl_context=_tls(settings) if secure else None,
        http_auth=AwsSigner(credentials) if credentials and signs else None,
    )


class BoundedConnection(Urllib3HttpConnection):  # type: ignore[misc]
    """A connection whose `timeout` is for the whole answer, which has at most so many bytes.

    Redirects are not followed, and neither addresses nor bodies are logged. An error answer is
    raised as opensearch-py does, with the answer's `headers` on the exception.
    """

    def __init__(self, *args: Any, largest_answer: int, **options: Any) -> None:
        super().__init__(*args, pool_maxsize=POOL_SIZE, **options)
        self._largest_answer = largest_answer

    def _create_urllib3_pool(self) -> None:
        super()._create_urllib3_pool()
        self.pool.ConnectionCls = TimedHttps if self.use_ssl else TimedHttp

    def perform_request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers (names in lower case) and text of an answer that is no error.

        Raises TransportError for an error answer, ConnectionError where no whole answer came, and
        Refused for one that is too large.
        """
        path = self.url_prefix + url + (f"?{urlencode(params)}" if params else "")
        sent = {**self.headers, **(headers or {})}
        if body is None:
            sent.pop("content-type", None)
        if self.http_auth is not None:
            sent |= self.http_auth(method, self.host + path, body, sent)
        seconds = timeout or self.timeout
        try:
            answer = self._exchange(method, path, body, sent, seconds)
        except FAULTS as error:
            raise ConnectionFault("N/A", str(error), error) from error
        status, received, content, whole = answer
        is_error = not 200 <= status < 300
        if not (whole or is_error):
            raise Refused(
                f"{self.host} answers with more than {self._largest_answer} bytes, which is not "
                "read: ask for less at once"
            )
        try:
            text = content.decode(errors="strict" if whole else "replace")
        except UnicodeDecodeError as error:
            raise SerializationError("the answer is not UTF-8") from error
        if is_error and status not in ignore:
            if not whole:
                text = f"an answer of more than {LARGEST_ERROR} bytes: {text}"
            raise _error_answer(status, received, text)
        return status, received, text

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], seconds: float
    ) -> ServerAnswer:
        largest = self._largest_answer
        return exchange(self.pool, method, path, body, headers, seconds=seconds, largest=largest)


def _error_answer(status: int, headers: dict[str, str], text: str) -> Any:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    error = TransportError(status, text, content)
    error.headers = headers
    return error


class _StrictJson(JSONSerializer):  # type: ignore[misc]
    """JSON without NaN and Infinity, which are none; an exception shows nothing of the text."""

    def loads(self, s: str) -> Any:
        try:
            return json.loads(s, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            # An answer whose end is marked by closing the connection can be cut unnoticed.
            raise SerializationError("the answer is not whole JSON") from None


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_USER_AGENT = f"owpc-ltr/{VERSION} (Python {platform.python_version()})"


# TLS


def _tls(settings: ConnectionSettings) -> ssl.SSLContext:
    try:
        trusted = str(settings.ca) if settings.ca else None
        context = ssl.create_default_context(cafile=trusted)
        if trusted is None and (usual := Urllib3HttpConnection.default_ca_certs()):
            context.load_verify_locations(usual)
    except (OSError, ssl.SSLError) as error:
        source = settings.ca or "the file of certificates that the environment names"
        raise UsageError(f"{source} holds no CA certificates in PEM: {error}") from error
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        # `cautions` of the settings say so once a run.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return context


# Signatures for AWS


class AwsSigner:
    """Signs requests with the credentials that botocore finds itself.

    Raises UsageError where botocore is not installed, or finds no usable credentials.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._source = credentials.source
        try:
            from botocore.exceptions import BotoCoreError
            from botocore.session import Session
        except ImportError as error:
            raise UsageError(
                f"{credentials.source} asks for AWS signatures, which need botocore: "
                "pip install 'owpc-ltr[aws]'"
            ) from error
        from opensearchpy.helpers.signer import AWSV4Signer

        self._faults: tuple[type[Exception], ...] = (BotoCoreError, ValueError, OSError)
        try:
            keys = Session().get_credentials()
        except self._faults as error:
            raise self._unusable(error) from None
        if keys is None:
            raise UsageError(
                f"{credentials.source} asks for AWS signatures, and there are no AWS credentials: "
                "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        # At DEBUG it would log the session's token with every request.
        logging.getLogger("botocore.auth").addFilter(_warnings_only)
        self._signer = AWSV4Signer(keys, str(credentials.aws_region), credentials.aws_service)

    def __call__(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str]
    ) -> dict[str, str]:
        """The headers with the signature among them."""
        try:
            signed: dict[str, str] = self._signer.sign(method, url, body, headers)
        except self._faults as error:
            raise self._unusable(error) from None
        if any(not _text(value).isprintable() for value in signed.values()):
            raise self._unusable(ValueError("a line break in a key"))
        return signed

    def _unusable(self, error: Exception) -> UsageError:
        # Its own words can quote a profile, a file or a key.
        why = "a line break in a key" if type(error) is ValueError else type(error).__name__
        return UsageError(
            f"{self._source} asks for AWS signatures, and botocore cannot use the AWS credentials "
            f"({why}): check AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _warnings_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING
