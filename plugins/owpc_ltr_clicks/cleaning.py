"""Which events of a log count: actions, positions, times, bots, rare queries.

Every default that decides what is left out is a constant here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.errors import UsageError

ACTIONS: Mapping[str, float] = MappingProxyType({"click": 1.0})
"""The actions that count as clicks, and the value of each."""
IMPRESSIONS = ("impression", "impressions", "view", "viewed", "shown")
"""Names of actions that say that a result was shown."""
MAX_RANK = 100
"""The lowest rank that counts."""
MAX_CLICKS_PER_SESSION = 50
"""A session with more clicks is dropped as a bot."""
MAX_SESSIONS_PER_CLIENT = 500
"""A client with more sessions is dropped as a bot."""
MIN_PEOPLE = 5
"""Queries that fewer people asked get no grades."""

_MILLISECONDS = 1e11
"""Numbers above are milliseconds since 1970; the second of this number is in the year 5138."""


@dataclass(frozen=True)
class EventOptions:
    """Which events of a log count, and how.

    `actions` have values above 0, of which the greatest in a list counts; `impressions` are the
    actions that say that a result was shown. Positions begin with `first_position`, 0 or 1; None
    infers it from the log. Results below rank `depth` do not count. A session with more clicks than
    `max_clicks_per_session`, or a client with more sessions than `max_sessions_per_client`, is
    dropped as a bot; 0 keeps all. Queries that fewer than `min_people` asked are dropped. `since`
    (included) and `until` (excluded) are times as in `2026-10-01` or `2026-10-01T12:00:00Z`. With
    `keep_case` queries that differ in case are two. `document_field` is the field that the log
    names documents by; None: what the log itself says. With `keep_repeats` the clicks of a person
    on one result of a query count in every list, not in one of them.
    """

    actions: Mapping[str, float] = field(default_factory=lambda: dict(ACTIONS))
    impressions: tuple[str, ...] = IMPRESSIONS
    first_position: int | None = None
    depth: int = MAX_RANK
    max_clicks_per_session: int = MAX_CLICKS_PER_SESSION
    max_sessions_per_client: int = MAX_SESSIONS_PER_CLIENT
    min_people: int = MIN_PEOPLE
    keep_case: bool = False
    since: str | None = None
    until: str | None = None
    keep_repeats: bool = False
    document_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        if not self.actions or not self.impressions:
            raise UsageError("no action is named: give them values, as click=1,add_to_cart=2")
        for name, value in self.actions.items():
            if not 0 < value < float("inf"):
                raise UsageError(
                    f"the action '{name}' has the value {value:g}: give it one above 0, as click=1"
                )
            if name in self.impressions:
                raise UsageError(
                    f"the action '{name}' cannot be worth something and mean that a result was "
                    "merely shown: name it once"
                )
        if self.first_position not in {None, 0, 1}:
            raise UsageError(f"positions begin with 0 or 1, not with {self.first_position}")
        counts: dict[str, tuple[Any, int]] = {
            "the depth": (self.depth, 1),
            "the clicks of a session": (self.max_clicks_per_session, 0),
            "the sessions of a client": (self.max_sessions_per_client, 0),
            "the people of a query": (self.min_people, 1),
        }
        for what, (value, least) in counts.items():
            if value < least:
                raise UsageError(f"{what} cannot be {value}: give {least} or more")

    @property
    def greatest_value(self) -> float:
        """The greatest value of an action."""
        return max(self.actions.values())


def parse_actions(text: str) -> dict[str, float]:
    """Actions and their values, as `click=1,add_to_cart=2`. Raises UsageError.

    >>> parse_actions("click=1, add_to_cart=2")
    {'click': 1.0, 'add_to_cart': 2.0}
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            number = float(value) if equals else 1.0
        except ValueError:
            number = -1.0
        if not name.strip() or number <= 0:
            raise UsageError(
                f"cannot read the action '{part.strip()}': write click=1,add_to_cart=2"
            )
        found[name.strip()] = number
    return found


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
        found: NDArray[np.float64] = _floats(micro) / 1e6
        return found
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
    found: NDArray[np.float64] = np.array([*values, np.nan])[codes]
    return found


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
