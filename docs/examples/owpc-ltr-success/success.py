"""Success: whether the first documents hold a relevant one. An example of a metric.

Of t documents with one score, r of them relevant, c places are within the cutoff: in random order
none of the r takes one with chance C(t − r, c) / C(t, c). Tied documents count by that chance.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.types import (
    Metric,
    RankedQueries,
    Vector,
    cutoff_words,
    relevant_of_runs,
    relevant_words,
)


@dataclass(frozen=True)
class Success(Metric):
    """1 where a relevant document is among the first `cutoff`, else 0.

    A document is relevant if its label is above `relevant_above`.
    """

    name: ClassVar[str] = "success"
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "needed"

    cutoff: int | None = 10
    relevant_above: float = 0.0

    def values(self, queries: RankedQueries) -> Vector:
        """One less the chance that every run of tied documents misses."""
        ranking = queries.ranking(self.ties).head(self.cutoff)
        relevant = relevant_of_runs(ranking, self.relevant_above)
        places = np.minimum(ranking.size, (self.cutoff or 0) - ranking.above)
        missed = np.ones(queries.n_queries)
        np.multiply.at(missed, ranking.query, _all_miss(ranking.size, relevant, places))
        return np.where(queries.n_relevant(self.relevant_above) > 0, 1.0 - missed, np.nan)

    @property
    def meaning(self) -> str:
        """Which documents are relevant, and how far down."""
        relevant, within = relevant_words(self.relevant_above), cutoff_words(self.cutoff)
        return f"1 where there is a relevant document {relevant}{within}"


def _all_miss(size: Vector, relevant: Vector, places: Vector) -> Vector:
    """C(size − relevant, places) / C(size, places), as a product over the places."""
    chance = np.ones(len(size))
    for place in range(int(places.max(initial=0))):
        open_ = place < places
        left = size[open_] - place
        chance[open_] *= np.maximum(left - relevant[open_], 0) / left
    return chance


@hookimpl
def ltr_metrics() -> list[type[Metric]]:
    """Offer `--metric success@10`."""
    return [Success]
