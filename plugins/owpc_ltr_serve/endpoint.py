"""What endpoints get and give: calls, replies, and errors with the HTTP status of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, UsageError
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import Json

MODEL_HEADER = "X-LTR-Model"
"""Names the immutable model that ranked an answer."""
STATUS_HEADER = "X-LTR-Status"
"""Says where an answer has less than was asked for: `degraded; reason`."""
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


@dataclass(frozen=True)
class Call:
    """A request that was received, and until when it must be answered.

    `late` is how many seconds after that an answer is still sent.
    """

    path: str
    """The path of its endpoint."""
    body: bytes
    until: float
    path_params: Mapping[str, str] = field(default_factory=dict)
    query_params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    late: float = 0.0

    def left(self) -> float:
        """The seconds that are left until the deadline."""
        return self.until - time.monotonic()

    def left_in_all(self) -> float:
        """The seconds after which nobody waits any more."""
        return self.left() + self.late

    def check_deadline(self) -> None:
        """Raise TooLate where nobody waits any more, so that no work is done in vain."""
        if self.left_in_all() <= 0:
            raise TooLate("the deadline passed before the documents were scored")


@dataclass(frozen=True)
class Reply:
    """What is answered."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


Handler = Callable[[Call], Reply]
Work = Callable[[], Reply]
"""What is left to do for an answer."""


@dataclass(frozen=True)
class Endpoint:
    """A path, and what answers its requests, in a thread of its own."""

    path: str
    handler: Handler
    methods: tuple[str, ...] = ("POST",)
    at_once: Callable[[Call], Reply | Work] | None = None
    """Asked first, in the thread that receives requests: answers what takes a few milliseconds, and
    gives back what else there is to do."""
    late: float = 0.0
    """Seconds after the deadline until which an answer is better than none."""


def raised_in(error: BaseException) -> str:
    """The kind of an error and where it was raised; not its text, which may hold a query's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" in {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"


def json_reply(content: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer in JSON."""
    return Reply(orjson.dumps(content), status, headers or {})


_STATUS: tuple[tuple[type[OwpcLtrError], int], ...] = (
    (BadRequest, 422),
    (NoSuchModel, 404),
    (TooLate, 504),
    (UsageError, 422),
    (NotAllowed, 502),
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
                    f"the text of {shown(name)} is too long: at most {_LONGEST_TEXT} characters "
                    f"and {_MOST_WORDS} words"
                )
        elif isinstance(value, list | dict) and len(orjson.dumps(value)) > _LONGEST_VALUE:
            raise UsageError(f"{shown(name)} is too long: at most {_LONGEST_VALUE} bytes")
