"""Errors of requests, and the HTTP status of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, UsageError
from owpc_ltr.files.strict_json import shown

DEEPEST_NESTING = 100
"""Objects and lists of a request that stand in one another; engines take 30 nested queries."""
_LONGEST_TEXT, _MOST_WORDS = 10_000, 1_000
"""Characters and words of a parameter, which an engine gets once a feature."""
_LONGEST_VALUE = 200_000
"""Bytes of a parameter that is no text, as a vector."""


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

    A search that the engine calls wrong is the request's. What else the engine answered, or a model
    that cannot be loaded, is 502.
    """
    if isinstance(error, EngineRefusal) and error.status == 400:
        return 422
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 502)


def check_params(params: Mapping[str, Any]) -> None:
    """Raise UsageError for a parameter that is too long for a search of every feature."""
    for name, value in params.items():
        if isinstance(value, str):
            if len(value) > _LONGEST_TEXT or len(value.split()) > _MOST_WORDS:
                raise UsageError(
                    f"the text of '{shown(name)}' is too long: at most {_LONGEST_TEXT} characters "
                    f"and {_MOST_WORDS} words"
                )
        elif isinstance(value, list | dict) and len(orjson.dumps(value)) > _LONGEST_VALUE:
            raise UsageError(f"'{shown(name)}' is too long: at most {_LONGEST_VALUE} bytes")
