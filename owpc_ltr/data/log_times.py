"""Times of logs: a window of time, and seconds from every form that logs have."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.errors import UsageError

_MILLISECONDS = 1e11
"""Numbers above are milliseconds since 1970; the second of this number is in the year 5138."""


class TimeWindow:
    """The time from `since`, included, to `until`, excluded; either may be open."""

    def __init__(self, since: str | None, until: str | None) -> None:
        self.since, self.until = _seconds(since, "since"), _seconds(until, "until")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise UsageError(f"no time is from {since} to {until}: give an earlier and a later one")

    @property
    def open(self) -> bool:
        """Whether every time lies in it."""
        return self.since is None and self.until is None

    def holds(
        self, column: pa.Array | None, count: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Two masks of the events: those whose time is known, and those within the window."""
        times = np.full(count, np.nan) if column is None else seconds_of(column)
        within = np.ones(count, bool)
        if self.since is not None:
            within &= times >= self.since
        if self.until is not None:
            within &= times < self.until
        return ~np.isnan(times), within


def seconds_of(column: pa.Array) -> NDArray[np.float64]:
    """Seconds since 1970 from Arrow's times, ISO 8601, or numbers; NaN for anything else."""
    if pa.types.is_temporal(column.type):
        micro = column.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())
        seconds: NDArray[np.float64] = _floats(micro) / 1e6
        return seconds
    number = pc.match_substring_regex(column, r"^[0-9]{1,18}(\.[0-9]+)?$")
    numbers = _floats(pc.if_else(number, column, None))
    numbers = np.where(numbers > _MILLISECONDS, numbers / 1e3, numbers)
    iso = pc.match_substring_regex(
        column,
        r"^[0-9]{4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
        r"(Z|[+-][0-2][0-9]:?[0-5][0-9])?)?$",
    )
    dates = pc.if_else(iso, column, None)
    return np.where(np.isnan(numbers), _iso(dates), numbers)


def milliseconds(text: str, what: str) -> str:
    """A time as text of milliseconds since 1970, which engines take in every date format."""
    return str(round(1000 * (_seconds(text, what) or 0.0)))


def _iso(column: pa.Array) -> NDArray[np.float64]:
    """Seconds of ISO times, UTC where they name no zone; each text is parsed once."""
    encoded = column.dictionary_encode()
    values = [_timestamp(text) for text in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    seconds: NDArray[np.float64] = np.array([*values, np.nan])[codes]
    return seconds


def _timestamp(text: str) -> float:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return float("nan")
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _floats(column: pa.Array) -> NDArray[np.float64]:
    numbers = column.cast(pa.float64()).fill_null(float("nan"))
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def _seconds(text: str | None, what: str) -> float | None:
    if text is None:
        return None
    seconds = _timestamp(text)
    if np.isnan(seconds):
        raise UsageError(
            f"cannot read the time {text!r} of --{what}: write 2026-10-01 or 2026-10-01T12:00:00Z"
        )
    return seconds
