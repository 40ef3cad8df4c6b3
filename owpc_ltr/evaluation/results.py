"""Per-query results of rankers on the same queries: what every comparison is made of.

Each path to a verdict (judged documents, runs, folds, live searches, gates, fusion) makes these,
and shares everything that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.evaluation.ranked_lists import (
    RankedLists,
    as_good_as_judged,
    top_of,
    within_depth,
    within_window,
)
from owpc_ltr.evaluation.significance import ResultWarning
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.signatures import Progress, silent

_FIRST_RANK = "mrr"
"""Measured beside the metrics, unless one of them looks at the first rank."""
_OF_THE_FIRST = frozenset({"mrr", "winner-takes-all"})


@dataclass(frozen=True)
class Resampling:
    """How chance is drawn, and who is told how far it is."""

    seed: int = 0
    resamples: int = RESAMPLES
    progress: Progress = silent

    def told(self, what: str) -> Callable[[float], None]:
        """Who is told of the shares of one piece of work."""
        return lambda share: self.progress(what, share)


@dataclass(frozen=True)
class ComparisonPlan:
    """What is measured how: the metrics, unjudged documents, against whom, and by what chance.

    A difference below `smallest_gain` is not worth a change: no ranker is better by less.
    """

    metrics: Sequence[Metric]
    unjudged: str = "zero"
    baseline: str | None = None
    drawing: Resampling = Resampling()
    smallest_gain: float = 0.0

    @property
    def guards(self) -> tuple[Metric, ...]:
        """What is measured beside the metrics, and must not contradict the first one."""
        return guards_of(self.metrics)


@dataclass(frozen=True)
class ComparedQueries:
    """The queries: ids, texts where they are known, weights where they vary, and why these.

    Queries of one number in `clusters` are won and lost together; None where each is one of its
    own. `doubts` are about all rankers, those of `by_ranker` about one. Rankers that are
    `cross_validated` are measured by models of folds.
    """

    ids: pa.StringArray
    texts: pa.StringArray | None
    weights: Vector | None
    split: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    clusters: NDArray[np.int64] | None = None
    doubts: tuple[ResultWarning, ...] = ()
    by_ranker: Mapping[str, tuple[ResultWarning, ...]] = field(default_factory=dict)
    cross_validated: frozenset[str] = frozenset()

    @property
    def n_independent(self) -> int:
        """How many clusters there are."""
        return len(self.ids) if self.clusters is None else len(np.unique(self.clusters))


@dataclass(frozen=True, eq=False)
class RankerResults:
    """One ranker's value of each query, by metric; the shares of unjudged documents it looks at.

    `unjudged` and `lists` are None for a ranker that is shown judged documents alone, `scores` are
    those of data in memory.
    """

    values: Sequence[Vector]
    unjudged: Sequence[Vector] | None = None
    warnings: tuple[str, ...] = ()
    scores: Vector | None = None
    lists: RankedLists | None = None
    without_tables: Vector | None = None
    """The first metric, where features from tables tell nothing; None without such features."""


@dataclass(frozen=True, eq=False)
class PerQueryResults:
    """Every ranker's values of the same queries, by the metrics and then by the `guards`.

    Guards are not reported: a verdict by the first metric must not contradict them. `all_tied` are
    the values of scoring all documents the same, where they are known.
    """

    rankers: Mapping[str, RankerResults]
    metrics: tuple[Metric, ...]
    guards: tuple[Metric, ...]
    queries: ComparedQueries
    all_tied: Sequence[Vector] | None = None
    alone: RankedLists | None = None
    """The lists of the query without a model, where they are known."""

    @cached_property
    def left_out(self) -> dict[str, list[Vector]] | None:
        """The values where unjudged documents are left out; None where none is unjudged."""
        return self._treated(RankedLists.condensed)

    @cached_property
    def irrelevant(self) -> dict[str, list[Vector]] | None:
        """The values where unjudged documents are irrelevant; None where none is unjudged."""
        return self._treated(RankedLists.unjudged_irrelevant)

    def _treated(
        self, treatment: Callable[[RankedLists, Metric], Vector]
    ) -> dict[str, list[Vector]] | None:
        lists = self._open_lists
        if lists is None:
            return None
        return {
            name: [treatment(one, within_depth(m, one.depth)) for m in self.list_metrics]
            for name, one in lists.items()
        }

    @cached_property
    def as_judged(self) -> dict[str, list[Vector]] | None:
        """The values where unjudged documents are as good as judged ones at their rank."""
        lists = self._open_lists
        return None if lists is None else as_good_as_judged(lists, self.list_metrics)

    @property
    def list_metrics(self) -> list[Metric]:
        """The metrics of ranked lists; an error counts pairs of judged documents."""
        return [metric for metric in self.metrics if metric.higher_is_better]

    @property
    def has_lists(self) -> bool:
        """Whether all rankers have lists, of which some documents may be unjudged."""
        return all(one.lists is not None for one in self.rankers.values())

    @cached_property
    def _open_lists(self) -> dict[str, RankedLists] | None:
        """The lists, if any document in them is unjudged."""
        lists = {name: one.lists for name, one in self.rankers.items() if one.lists is not None}
        if not self.has_lists:
            return None
        return None if all(one.complete for one in lists.values()) else lists


def guards_of(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metric of the first rank, unless one of the metrics is one, or none is installed."""
    if any(one.name in _OF_THE_FIRST or one.cutoff == 1 for one in metrics):
        return ()
    try:
        return (parse_metric(_FIRST_RANK),)
    except UsageError:
        return ()


def measure_lists(
    lists: RankedLists, metrics: Sequence[Metric], unjudged: str, guards: Sequence[Metric] = ()
) -> RankerResults:
    """Each metric of the lists, as far as they go. Raises UsageError for one that looks further."""
    values, shares = [], []
    for metric in (*metrics, *guards):
        seen = within_window(metric, lists.depth)
        share = 1.0 - lists.judged_at(top_of(seen) or lists.depth)
        of_metric = (
            lists.condensed(seen) if unjudged == "condensed" else lists.unjudged_irrelevant(seen)
        )
        if unjudged == "skip":
            of_metric = np.where(share > 0, np.nan, of_metric)
        values.append(of_metric)
        shares.append(share)
    return RankerResults(values, shares[: len(metrics)], lists=lists)


def joined_results(several: Sequence[RankerResults]) -> RankerResults:
    """A ranker's results of further queries together: of the parts of data, or of folds."""
    lists = [one.lists for one in several if one.lists is not None]
    shares = [one.unjudged for one in several if one.unjudged is not None]
    without = [one.without_tables for one in several if one.without_tables is not None]
    return RankerResults(
        _joined([one.values for one in several]),
        _joined(shares) if len(shares) == len(several) else None,
        scores=several[0].scores if len(several) == 1 else None,
        lists=reduce(RankedLists.joined, lists) if len(lists) == len(several) else None,
        without_tables=np.concatenate(without) if len(without) == len(several) else None,
    )


def _joined(parts: Sequence[Sequence[Vector]]) -> list[Vector]:
    return [np.concatenate(one) for one in zip(*parts, strict=True)]
