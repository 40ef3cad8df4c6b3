"""Errors of requests, and the HTTP status of each."""

from __future__ import annotations

from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, UsageError


class BadRequest(BadInput):
    """A request that cannot be answered as it is; the message names the key."""


class NoSuchModel(UsageError):
    """A model that is not served."""


class TooLate(EngineUnavailable):
    """The request's deadline passed."""


_STATUS: tuple[tuple[type[OwpcLtrError], int], ...] = (
    (BadRequest, 422),
    (NoSuchModel, 404),
    (TooLate, 504),
    (UsageError, 422),
    (EngineUnavailable, 503),
)


def status_of(error: OwpcLtrError) -> int:
    """The HTTP status that says what kind of error it is: 422, 404, 502, 503 or 504.

    What the engine answered, or a model that cannot be loaded, is 502.
    """
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 502)
