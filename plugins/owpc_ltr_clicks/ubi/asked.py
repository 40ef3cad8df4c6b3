"""The time that is asked for, looked up in the documents that their index has no time of.

The mapping of OpenSearch's own plugin leaves times in ISO 8601 out of the index, in silence.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from owpc_ltr_clicks.times import TimeWindow, milliseconds
from owpc_ltr_clicks.ubi.scan import Query, within

FUTURE = "a time in the future"
UNREADABLE = "no time that can be read"
_LATE = timedelta(minutes=1)
"""What is later than the beginning by more is no event that came while the run began."""


class Asked:
    """From a time to another; without one, until the run `began`, and what has no time too."""

    def __init__(self, since: str | None, until: str | None, began: str) -> None:
        self._window = TimeWindow(since, until)
        self._late = None
        if until is None:
            late = datetime.fromisoformat(began) + _LATE
            self._late = late.astimezone(UTC).isoformat()

    def lost(self) -> dict[str, Query]:
        """What the index has that nobody asked to leave out, by reason."""
        return {} if self._late is None else {FUTURE: within(gte=milliseconds(self._late, "until"))}

    def keep(self, table: pa.Table) -> tuple[pa.Table, dict[str, int]]:
        """Those in it of documents that the index has no time of; and why others are left out."""
        times = table["time"].combine_chunks()
        known, asked = self._window.holds(times, len(table))
        keep, lost = asked & known, {UNREADABLE: int((~known).sum())}
        if self._window.open:
            keep, lost = asked | ~known, {}
        if self._late is not None:
            _, early = TimeWindow(None, self._late).holds(times, len(table))
            lost[FUTURE] = int((keep & known & ~early).sum())
            keep &= early | ~known
        return table.filter(pa.array(keep)), {why: n for why, n in lost.items() if n}
