"""Signatures for AWS, made by botocore with the credentials that it finds itself."""

from __future__ import annotations

import logging
from typing import Any

from owpc_ltr.engine.http.connection import Credentials
from owpc_ltr.errors import UsageError

_LOGGER = "botocore.auth"


class AwsSigner:
    """Signs requests as these credentials ask. UsageError where botocore, or its keys, are not."""

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
        from opensearchpy import AWSV4SignerAuth

        self._faults: tuple[type[Exception], ...] = (BotoCoreError, ValueError, OSError)
        try:
            found = Session().get_credentials()
        except self._faults as error:
            raise self._unusable(error) from None
        if found is None:
            raise UsageError(
                f"{credentials.source} asks for AWS signatures, and there are no AWS credentials: "
                "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        # At DEBUG it would log the session's token with every request.
        logging.getLogger(_LOGGER).addFilter(_nothing_below_warnings)
        self._signer = AWSV4SignerAuth(
            found, credentials.aws_region, credentials.aws_service
        ).signer

    def sign(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str]
    ) -> dict[str, str]:
        """The headers with the signature among them. Raises UsageError where there is none."""
        try:
            signed: dict[str, str] = self._signer.sign(method, url, body, headers)
        except self._faults as error:
            raise self._unusable(error) from None
        if any(not value.isprintable() for value in map(_text, signed.values())):
            raise self._unusable(ValueError("a line break in a key"))
        return signed

    def _unusable(self, error: Exception) -> UsageError:
        # Its own words can quote a profile, a file or a key.
        why = "a line break in a key" if type(error) is ValueError else type(error).__name__
        return UsageError(
            f"{self._source} asks for AWS signatures, and botocore cannot use the AWS credentials "
            f"({why}): check AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _nothing_below_warnings(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING
