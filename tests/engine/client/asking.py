"""A client whose time passes only by sleeping, and what its faults must look like."""

from __future__ import annotations

from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.retry import RetryBudget, Retrying
from owpc_ltr.engine.client.settings import ConnectionSettings

WHOLE = {"hits": {"total": {"value": 3}, "hits": [{"_id": str(i), "é": "ü"} for i in range(3)]}}


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def make_engine(url: str, clock: Clock, **settings: Any) -> Engine:
    retrying = Retrying(RetryBudget(clock=clock), clock, clock.sleep)
    return Engine(ConnectionSettings(url, **{"timeout": 5.0, **settings}), retrying)


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.isprintable()
    assert len(text) < 900
    return text
