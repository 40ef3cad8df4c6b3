"""Rankers compared over folds: one model a fold, and one test over the test queries of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import in_memory
from owpc_ltr.data.splits import digests_of
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.comparison import (
    ComparedQueries,
    ComparisonRequest,
    chosen_data,
    side_by_side,
    with_query_doubts,
)
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.judged_data import Data, judgment_doubts, texts_of, unused_weights
from owpc_ltr.evaluation.measurement import (
    OnData,
    RankerValues,
    measure_on_data,
)
from owpc_ltr.evaluation.query_choice import ChosenQueries, NothingHeldOut
from owpc_ltr.metrics import uneven


class _Fold(NamedTuple):
    """The test queries of a fold, which they are, and what was measured on them."""

    data: RankingDataset
    chosen: ChosenQueries
    found: OnData


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
    texts = [texts_of(fold.data) for fold in measured]
    weights = uneven(np.concatenate([fold.data.query_importance for fold in measured]))
    sizes = ", ".join(f"{fold.data.n_queries:,}" for fold in measured)
    of = ComparedQueries(
        ids=pa.concat_arrays([fold.data.query_ids for fold in measured]),
        texts=None if any(one is None for one in texts) else pa.concat_arrays(texts),
        weights=weights if request.weighted else None,
        split="test" if all(fold.chosen.side == "test" for fold in measured) else "all",
        notes=(
            f"the test queries of {len(measured)} folds ({sizes}) are pooled: one test over all",
        ),
        warnings=tuple(dict.fromkeys(_doubts(measured))),
    )
    values = {name: _pooled(name, measured) for name in request.rankers}
    zero = [np.concatenate(one) for one in zip(*(f.found.baselines for f in measured), strict=True)]
    found = side_by_side(values, zero, of, request.how)
    for fold in measured:
        found = with_query_doubts(found, fold.chosen, fold.data)
    doubts = (doubt for fold in measured for doubt in judgment_doubts(fold.data))
    return found.with_doubts(list(dict.fromkeys(doubts)))


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
    return _Fold(
        part,
        chosen,
        measure_on_data(rankers, part, request.how.metrics, request.how.unjudged),
    )


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


def _pooled(name: str, folds: Sequence[_Fold]) -> RankerValues:
    """The values of a ranker in all folds, and what makes them doubtful."""
    several = [fold.found.rankers[name] for fold in folds]
    shares = [one.unjudged for one in several if one.unjudged is not None]
    return RankerValues(
        _joined_folds([one.values for one in several]),
        _joined_folds(shares) if len(shares) == len(several) else None,
        tuple(
            f"fold {number}: {warning}"
            for number, one in enumerate(several, 1)
            for warning in one.warnings
        ),
    )


def _joined_folds(of_folds: Sequence[Sequence[Any]]) -> list[Any]:
    return [np.concatenate(one) for one in zip(*of_folds, strict=True)]


def _doubts(folds: Sequence[_Fold]) -> list[str]:
    return [
        *(warning for fold in folds for warning in fold.chosen.warnings),
        *(warning for fold in folds for warning in unused_weights(fold.data)),
    ]
