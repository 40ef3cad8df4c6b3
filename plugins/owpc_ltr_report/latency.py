"""Latency: what a profile says features and windows cost, from the profile or from its JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from owpc_ltr.errors import BadInput


@dataclass(frozen=True)
class FeatureTime:
    """Milliseconds of a feature in the live query; `low` and `high` end their 95 % interval."""

    feature: str
    milliseconds: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SearchTime:
    """Milliseconds of a search in the middle, and of the slowest twentieth at least."""

    name: str
    median: float
    slow: float


@dataclass(frozen=True)
class Latency:
    """What was timed: features, windows by size, and whole searches with and without features."""

    features: tuple[FeatureTime, ...]
    windows: tuple[SearchTime, ...] = ()
    searches: tuple[SearchTime, ...] = ()
    about: str = ""

    @property
    def milliseconds(self) -> dict[str, float]:
        """What each feature costs."""
        return {one.feature: one.milliseconds for one in self.features}


def latency_of(content: Mapping[str, Any], where: str) -> Latency:
    """What `profile --json` printed, or {"feature": milliseconds}. BadInput names `where`."""
    try:
        if not isinstance(content.get("features"), list):
            return Latency(tuple(FeatureTime(n, _finite(ms)) for n, ms in content.items()))
        index = content.get("index")
        return Latency(
            tuple(
                FeatureTime(
                    str(one["feature"]), _finite(one["milliseconds"]), one.get("low"),
                    one.get("high"),
                )
                for one in content["features"]
            ),
            tuple(_search(str(one["window"]), one) for one in content.get("windows", ())),
            tuple(_search(name, one) for name, one in content.get("searches", {}).items()),
            f"index {index}, {content.get('store_kind', '')}" if index else "",
        )  # fmt: skip
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{where} is not what profile --json prints: {error}") from error


def _search(name: str, times: Mapping[str, Any]) -> SearchTime:
    return SearchTime(name, _finite(times["wall_median_ms"]), _finite(times["wall_p95_ms"]))


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not milliseconds")
    return float(value)
