"""Per-query results of rankers on the same queries: what every comparison is made of.

Each path to a verdict (judged documents, runs, folds, live searches, fusion) makes these,
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
from owpc_ltr.evaluation.attempts import ATTEMPTS_FILE, AttemptCounter
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

_FIRST_RANK = "ndcg@1"
"""The gain at the first rank: measured beside the metrics, unless it is one of them."""


@dataclass(frozen=True)
class Resampling:
    """The seed and number of resamples, and who is told of their progress."""

    seed: int = 0
    resamples: int = RESAMPLES
    progress: Progress = silent

    def progress_of(self, what: str) -> Callable[[float], None]:
        """A function that reports which share of this work is done."""
        return lambda share: self.progress(what, share)


@dataclass(frozen=True)
class ComparisonPlan:
    """How rankers are measured: metrics, unjudged documents, the baseline, and resampling.

    A difference below `smallest_gain` is not worth a change: no ranker is better by less. Without
    `attempts`, those on the same queries are not counted.
    """

    metrics: tuple[Metric, ...]
    unjudged: str = "zero"
    baseline: str | None = None
    drawing: Resampling = Resampling()
    smallest_gain: float = 0.0
    attempts: AttemptCounter | None = ATTEMPTS_FILE

    @property
    def guards(self) -> tuple[Metric, ...]:
        """The gain at the first rank, unless it is one of the metrics, or is not installed."""
        try:
            first = parse_metric(_FIRST_RANK)
        except UsageError:
            return ()
        return () if first in self.metrics else (first,)


@dataclass(frozen=True)
class ComparedQueries:
    """The queries: ids, texts (if known), weights (if they vary), and why these were chosen.

    Queries of one number in `clusters` are won and lost together; None where each is one of its
    own. `warnings` are about all rankers, those of `by_ranker` about one. Rankers that are
    `cross_validated` are measured by models of folds.
    """

    ids: pa.StringArray
    texts: pa.StringArray | None
    weights: Vector | None
    split: str
    notes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    clusters: NDArray[np.int64] | None = None
    warnings: tuple[ResultWarning, ...] = ()
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
    """Every ranker's values of the same queries, by the plan's metrics and then by its guards.

    `all_tied` are the values of scoring all documents the same, where they are known.
    """

    rankers: Mapping[str, RankerResults]
    plan: ComparisonPlan
    queries: ComparedQueries
    all_tied: Sequence[Vector] | None = None
    alone: RankedLists | None = None
    """The lists of the query without a model, where they are known."""
    judged_alone: bool = False
    """Whether all that is ranked is judged: these are judged documents, and no lists of users."""

    @property
    def guards(self) -> tuple[Metric, ...]:
        """The guards that were measured; a verdict by the first metric must not contradict them."""
        n_values = min(len(ranker.values) for ranker in self.rankers.values())
        return self.plan.guards[: n_values - len(self.plan.metrics)]

    @property
    def has_lists(self) -> bool:
        """Whether all rankers have lists, of which some documents may be unjudged."""
        listed = all(ranker.lists is not None for ranker in self.rankers.values())
        return listed and not self.judged_alone

    @property
    def list_metrics(self) -> list[Metric]:
        """The metrics of ranked lists; an error counts pairs of judged documents."""
        return [metric for metric in self.plan.metrics if metric.higher_is_better]

    @cached_property
    def by_treatment(self) -> dict[str, dict[str, list[Vector]]]:
        """Each ranker's values by its list metrics, by what unjudged documents are taken for.

        Empty where no document is unjudged.
        """
        lists = {
            name: result.lists for name, result in self.rankers.items() if result.lists is not None
        }
        if not self.has_lists or all(ranked.complete for ranked in lists.values()):
            return {}

        def values(treatment: Callable[[RankedLists, Metric], Vector]) -> dict[str, list[Vector]]:
            return {
                name: [treatment(ranked, within_depth(m, ranked.depth)) for m in self.list_metrics]
                for name, ranked in lists.items()
            }

        treated = {
            "where they are left out": values(RankedLists.condensed),
            "where they are as good as judged documents at the same rank": as_good_as_judged(
                lists, self.list_metrics
            ),
        }
        if self.plan.unjudged != "zero":
            treated["where they are irrelevant"] = values(RankedLists.unjudged_irrelevant)
        return treated


def measure_lists(lists: RankedLists, plan: ComparisonPlan) -> RankerResults:
    """Each metric of the lists, as far as they go. Raises UsageError for one that looks further."""
    condensed = plan.unjudged == "condensed"
    treatment = RankedLists.condensed if condensed else RankedLists.unjudged_irrelevant
    values, shares = [], []
    for metric in (*plan.metrics, *plan.guards):
        within = within_window(metric, lists.depth)
        shares.append(1.0 - lists.judged_at(top_of(within) or lists.depth))
        values.append(treatment(lists, within))
        if plan.unjudged == "skip":
            values[-1] = np.where(shares[-1] > 0, np.nan, values[-1])
    return RankerResults(values, shares[: len(plan.metrics)], lists=lists)


def joined_results(parts: Sequence[RankerResults], warnings: tuple[str, ...] = ()) -> RankerResults:
    """A ranker's results of further queries together: of the parts of data, or of folds."""
    lists = [part.lists for part in parts if part.lists is not None]
    shares = [part.unjudged for part in parts if part.unjudged is not None]
    without = [part.without_tables for part in parts if part.without_tables is not None]
    return RankerResults(
        joined_values([part.values for part in parts]),
        joined_values(shares) if len(shares) == len(parts) else None,
        warnings,
        scores=parts[0].scores if len(parts) == 1 else None,
        lists=reduce(RankedLists.joined, lists) if len(lists) == len(parts) else None,
        without_tables=np.concatenate(without) if len(without) == len(parts) else None,
    )


def joined_values(parts: Sequence[Sequence[Vector]]) -> list[Vector]:
    """By metric, the values of the queries of all parts."""
    return [np.concatenate(values) for values in zip(*parts, strict=True)]
