"""The comparisons that count against the next one on the same queries, and how many are left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import PartitionedDataset
from owpc_ltr.evaluation.attempts import (
    ATTEMPTS_FILE,
    Counted,
    Sketch,
    corrected_for,
    counted_on,
    new_queries,
    sketch_of,
)
from owpc_ltr.evaluation.comparison import MOST_RESAMPLES
from owpc_ltr.evaluation.judged_data import texts_of
from owpc_ltr.evaluation.significance import LEVEL

_SETS = 20
"""Sets of queries that are listed."""


@dataclass(frozen=True, repr=False)
class CountedComparisons(BlockResult):
    """The comparisons that were counted, by the queries that they were made on.

    Each set of queries has its sketch, and the comparisons that count on it, the oldest first.
    """

    sets: tuple[tuple[Sketch, Mapping[str, Counted]], ...]

    def as_dict(self) -> dict[str, Any]:
        """Of each set of queries the comparisons, and what they mean for the next one, as JSON."""
        of_sets = [_figures(int(on["n"]), [*counted.values()]) for on, counted in self.sets]
        return {"counted_in": ATTEMPTS_FILE.place, "queries": of_sets}

    def _blocks(self) -> Iterator[Block]:
        if not self.sets:
            yield "no comparison is counted"
        for of in self.as_dict()["queries"]:
            number = of["earlier_comparisons"] or "no"
            yield f"{number} comparison{'s' * (number != 1)} counted on {of['n_queries']:,} queries"
            rows = [
                (
                    each["time"] or "–",
                    " against ".join(each["rankers"]) or "not recorded",
                    each["metric"] or "–",
                    f"{each['counted']:,.0f} ×",
                )
                for each in of["comparisons"]
            ]
            yield from [Table(["TIME", "RANKERS", "METRIC", "COUNTED"], rows)] if rows else []
            yield (
                f"the next comparison of one pair by one metric counts {of['counts']:,.0f} ×: its "
                f"p must be below {of['p_below']:.2g}; {of['left']:,} more are possible before no "
                f"p is small enough; {of['new_queries']:,} queries must be new to start anew"
            )
            yield ""
        yield f"counted in {ATTEMPTS_FILE.place}"
        yield "live comparisons with an alias are counted in its cluster"


def _figures(n_queries: int, counted: list[Counted]) -> dict[str, Any]:
    earlier, factor = len(counted), corrected_for(len(counted))
    least = 1 / (MOST_RESAMPLES + 1)
    return {
        "n_queries": n_queries,
        "earlier_comparisons": earlier,
        "counts": factor,
        "p_below": LEVEL / factor,
        "left": next(k for k in count() if least * corrected_for(earlier + k) >= LEVEL),
        "new_queries": new_queries(n_queries) if earlier else 0,
        "comparisons": [
            {
                "time": each.get("time"),
                "rankers": each.get("rankers", []),
                "metric": each.get("metric"),
                "counted": corrected_for(each["earlier"]),
            }
            for each in counted
        ],
    }


def counted_comparisons(data: RankingDataset | PartitionedDataset | None) -> CountedComparisons:
    """The comparisons of this user on these queries; on each of the newest sets without any."""
    made = [*ATTEMPTS_FILE.made().values()]
    leads: list[Sketch] = [each for each in reversed(made) if "sketch" in each]
    if data is not None:
        texts = texts_of(data) if isinstance(data, RankingDataset) else None
        leads = [sketch_of(data.query_ids, texts)]
    sets: list[tuple[Sketch, Mapping[str, Counted]]] = []
    for lead in leads:
        if not any(lead.get("test") in counted for _, counted in sets) and len(sets) < _SETS:
            sets.append((lead, counted_on(lead, made)))
    return CountedComparisons(tuple(sets))
