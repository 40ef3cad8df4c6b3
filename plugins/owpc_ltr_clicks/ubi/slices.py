"""How many slices of an index are read at once, and whether they are still the same ones."""

from __future__ import annotations

from urllib.parse import quote

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.client.refusals import EngineRefusal, NoSuchIndex, NotAllowed
from owpc_ltr.engine.feature_log.pinned import Pinned
from owpc_ltr.names import check_index
from owpc_ltr_clicks.ubi.scan import Window, count

MOST = 8
"""Slices where nobody says how many."""
Layout = list[str]
"""The shards of an index, or of those behind an alias: slices are made of them."""


def layout_of(engine: EngineLike, index: str) -> Layout | None:
    """The shards; None where that is not told, which is a right of its own."""
    path = f"/{quote(check_index(index), safe='')}/_search_shards"
    try:
        shards = engine.request("GET", path)["shards"]
        return sorted(f"{copies[0]['index']}/{copies[0]['shard'] + 0}" for copies in shards)
    except NoSuchIndex:
        raise
    except (NotAllowed, EngineRefusal, LookupError, TypeError, AttributeError):
        return None


def slices_of(
    pinned: Pinned, index: str, window: Window, layout: Layout | None, asked: int | None
) -> int:
    """How many slices: as asked, else one a shard, 8 at most; 1 where the engine has none."""
    wanted = asked or min(len(layout or ()) or 1, MOST)
    if wanted == 1 or layout is None:
        return 1
    try:
        first = window.slices(wanted, elastic=True)[0]
        count(pinned, index, first.query, **first.body)
    except EngineRefusal:  # the first versions with points in time do not slice them
        return 1
    return wanted
