"""Time limits that the environment sets: how long one answer, and a whole request, may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

from owpc_ltr.errors import UsageError

TIMEOUT, DEADLINE = "OWPC_LTR_TIMEOUT", "OWPC_LTR_DEADLINE"


class Limits(TypedDict, total=False):
    """Those of the time limits of ConnectionSettings that are set."""

    timeout: float
    deadline: float
    longest: float


def limits_of(environ: Mapping[str, str]) -> Limits:
    """The limits of ConnectionSettings that OWPC_LTR_TIMEOUT and OWPC_LTR_DEADLINE set, in seconds.

    Raises UsageError for what is no time.

    >>> limits_of({"OWPC_LTR_TIMEOUT": "5"}), limits_of({})
    ({'timeout': 5.0}, {})
    """
    limits = Limits()
    if environ.get(TIMEOUT):
        limits["timeout"] = _seconds(TIMEOUT, environ[TIMEOUT])
    if environ.get(DEADLINE):
        seconds = _seconds(DEADLINE, environ[DEADLINE])
        # Where a user says how long, it holds for a merge of segments too.
        limits["deadline"] = limits["longest"] = seconds
    return limits


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        raise UsageError(f"{name} is a number of seconds, above 0 and at most a day, not {text!r}")
    return seconds
