"""Documents that a log names by another field than `_id`, found in their index."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import Part, hits_of, part_of
from owpc_ltr.engine.feature_log.pinned import Pinned
from owpc_ltr.errors import Refused
from owpc_ltr.files.text import shown
from owpc_ltr.names import check_index
from owpc_ltr_clicks.ubi.documents import text_of
from owpc_ltr_clicks.ubi.scan import moment

VALUES = 1000
"""Values a search."""
_MOST = 10_000
"""Documents that an engine gives to one search."""
_AT_ONCE = 4
_WORDS = {"keyword", "constant_keyword", "wildcard"}
_WHOLE = {"byte", "short", "integer", "long", "unsigned_long"}
_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class NamedDocuments:
    """The documents of an index, by the value of a field."""

    engine: Engine
    index: str

    def __call__(self, field: str, values: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Of each value that is there, the `_id`s of the documents that have it; two are enough.

        All are of one moment. Raises Refused where the field cannot be searched for whole values.
        """
        name, numbers = self._searchable(field)
        # An engine refuses a search of numbers for what is none.
        values = [value for value in values if not numbers or _NUMBER.fullmatch(value)]
        parts = [values[i : i + VALUES] for i in range(0, len(values), VALUES)]
        elastic = self.engine.about().distribution == "elasticsearch"
        with (
            ConcurrencyLimiter(_AT_ONCE) as limiter,
            moment(self.engine.limited(limiter), self.index, elastic=elastic) as pinned,
            RequestThreads(_AT_ONCE) as workers,
        ):
            told = workers.map(lambda part: self._found(pinned, name, part), parts)
        return {value: ids for found in told for value, ids in found.items()}

    def _searchable(self, field: str) -> tuple[str, bool]:
        """The field, or its part, that has whole values; and whether they are numbers."""
        path = f"/{quote(check_index(self.index), safe='')}/_field_caps"
        answer = self.engine.request("GET", path, params={"fields": f"{field},{field}.keyword"})
        known = part_of(answer, "fields", f"the fields of '{self.index}'")
        for name in (field, f"{field}.keyword"):
            kinds = set(known.get(name, {})) - {"unmapped"}
            if kinds and (kinds <= _WORDS or kinds <= _WHOLE):
                return name, kinds <= _WHOLE
        what = f"is {' and '.join(sorted(known[field]))}" if field in known else "is not there"
        raise Refused(
            f"documents of '{self.index}' cannot be found by {shown(field)}, which {what}: name a "
            "keyword or a whole number as --document-field"
        )

    def _found(self, pinned: Pinned, name: str, values: Sequence[str]) -> dict[str, list[str]]:
        what = f"the documents of '{self.index}' by '{name}'"
        body = {
            "size": _MOST,
            "_source": False,
            "fields": [name],
            "query": {"constant_score": {"filter": {"terms": {name: list(values)}}}},
            "track_total_hits": True,
        }
        answer = pinned.search(body, {})
        hits = hits_of(answer, what, "_id")
        there = Part(answer, what)["hits"]["total"]["value"].count
        if there > len(hits) and len(values) > 1:
            half = len(values) // 2
            parts = (values[:half], values[half:])
            return {k: v for part in parts for k, v in self._found(pinned, name, part).items()}
        return _by_value(hits, name, set(values))


def _by_value(hits: list[dict[str, Any]], name: str, wanted: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for hit in hits:
        for value in dict.fromkeys(map(text_of, (hit.get("fields") or {}).get(name, ()))):
            if value in wanted and len(found[value]) < 2:
                found[value].append(hit["_id"])
    return {value: sorted(ids) for value, ids in found.items()}
