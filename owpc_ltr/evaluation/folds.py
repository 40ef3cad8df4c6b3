"""Rankers compared over folds: one model a fold, and one test over the test queries of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import in_memory
from owpc_ltr.data.splits import digests_of
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.data_comparison import ComparisonRequest, chosen_data
from owpc_ltr.evaluation.judged_data import Data
from owpc_ltr.evaluation.measurement import measure_on_data
from owpc_ltr.evaluation.query_choice import NothingHeldOut, compared_queries
from owpc_ltr.evaluation.results import (
    ComparedQueries,
    PerQueryResults,
    RankerResults,
    joined_results,
)
from owpc_ltr.metrics import uneven


class _Fold(NamedTuple):
    """The test queries of a fold, and what was measured on them."""

    data: RankingDataset
    results: PerQueryResults


def compare_over_folds(
    request: ComparisonRequest, folds: Sequence[Data | Path | str]
) -> RankerComparison:
    """The comparison on the test queries of all folds together, with one test over all of them.

    A ranker is a list of one model a fold, or what ranks in every fold (a feature, a run). Raises
    Refused where a query is in two folds, or a model has seen a query of its fold.
    """
    if request.split not in {"auto", "all"}:
        raise UsageError(
            f"folds are test data, of which there is no split '{request.split}': leave it out, "
            "or give 'all' to compare on queries that models have seen"
        )
    if not folds:
        raise UsageError("there are no folds: give a list of test data")
    measured = [
        _measured_fold(
            replace(request, rankers=_of_fold(request.rankers, number, len(folds))),
            data,
            number + 1,
        )
        for number, data in enumerate(folds)
    ]
    _refuse_shared([fold.data for fold in measured])
    of = _pooled_queries(measured, weighted=request.weighted)
    rankers = {name: _pooled(name, measured) for name in request.rankers}
    tied = [fold.results.all_tied or () for fold in measured]
    pooled = PerQueryResults(
        rankers, tuple(request.how.metrics), request.how.guards, of,
        [np.concatenate(one) for one in zip(*tied, strict=True)],
    )  # fmt: skip
    return compare_results(pooled, request.how)


def _pooled_queries(folds: Sequence[_Fold], *, weighted: bool) -> ComparedQueries:
    """The test queries of all folds; weights vary if those of any fold do."""
    several = [fold.results.queries for fold in folds]
    sizes = ", ".join(f"{len(one.ids):,}" for one in several)
    texts = [one.texts for one in several]
    weights = [fold.data.query_importance for fold in folds]
    clusters = _joint_clusters(several)
    alone = len(np.unique(clusters)) == len(clusters)
    return ComparedQueries(
        ids=pa.concat_arrays([one.ids for one in several]),
        texts=None if any(one is None for one in texts) else pa.concat_arrays(texts),
        weights=uneven(np.concatenate(weights)) if weighted else None,
        split="test" if all(one.split == "test" for one in several) else several[0].split,
        notes=(f"the test queries of {len(folds)} folds ({sizes}) are pooled: one test over all",),
        warnings=tuple(dict.fromkeys(told for one in several for told in one.warnings)),
        clusters=None if alone else clusters,
        doubts=tuple(dict.fromkeys(doubt for one in several for doubt in one.doubts)),
        by_ranker={
            name: tuple(dict.fromkeys(d for one in several for d in one.by_ranker.get(name, ())))
            for name in {name for one in several for name in one.by_ranker}
        },
        cross_validated=frozenset().union(*(one.cross_validated for one in several)),
    )


def _joint_clusters(several: Sequence[ComparedQueries]) -> NDArray[np.int64]:
    """The clusters of each fold, with numbers of their own."""
    found, before = [], 0
    for one in several:
        own = np.arange(len(one.ids)) if one.clusters is None else one.clusters
        found.append(own + before)
        before += len(one.ids)
    return np.concatenate(found)


def _of_fold(rankers: Mapping[str, Any], number: int, n_folds: int) -> dict[str, Any]:
    """Each ranker's model of a fold. Raises UsageError where there are more or fewer than folds."""
    chosen = {}
    for name, ranker in rankers.items():
        several = isinstance(ranker, list | tuple)
        if several and len(ranker) != n_folds:
            raise UsageError(
                f"'{name}' has {len(ranker)} models for {n_folds} folds: give one for each"
            )
        chosen[name] = ranker[number] if several else ranker
    return chosen


def _measured_fold(request: ComparisonRequest, data: Data | Path | str, fold: int) -> _Fold:
    try:
        rankers, part, chosen = chosen_data(request, data)
    except NothingHeldOut as nothing:
        raise _seen(fold, str(nothing)) from nothing
    if chosen.notes:
        raise _seen(fold, chosen.notes[0])
    part = in_memory(part, f"fold {fold}")
    of = compared_queries(part, chosen)
    results = measure_on_data(rankers, part, of, request.how, weighted=request.weighted)
    return _Fold(part, results)


def _seen(fold: int, why: str) -> Refused:
    return Refused(
        f"fold {fold}: a model has seen test queries of its own fold: give each fold its "
        f"own model ({why})"
    )


def _refuse_shared(folds: Sequence[RankingDataset]) -> None:
    """Refuse folds that share a query, by its id or its text: it would count twice."""
    seen: dict[tuple[str, int], int] = {}
    for fold, data in enumerate(folds, 1):
        digests = digests_of(data)
        for kind, numbers in (("id", digests.ids), ("text", digests.texts)):
            for query, number in enumerate(numbers.tolist()):
                first = seen.setdefault((kind, number), fold) if number else fold
                if first != fold:
                    raise Refused(
                        f"the {kind} of query '{data.query_ids[query]}' of fold {fold} is in fold "
                        f"{first} too: a query is tested once; give test data that do not overlap"
                    )


def _pooled(name: str, folds: Sequence[_Fold]) -> RankerResults:
    """The results of a ranker in all folds, and what makes them doubtful."""
    several = [fold.results.rankers[name] for fold in folds]
    warnings = tuple(
        f"fold {number}: {warning}"
        for number, one in enumerate(several, 1)
        for warning in one.warnings
    )
    return replace(joined_results(several), warnings=warnings)
