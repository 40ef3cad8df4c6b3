"""Rankers compared on judged documents: models on their features, runs on whatever they list.

Over folds, a ranker has one model for each fold, and all test queries are pooled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import with_document_fields
from owpc_ltr.data.judgments.queries import Judgments
from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.data.sources import digests_of, known_sides
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.comparison import RankerComparison
from owpc_ltr.evaluation.comparison_statistics import ComparedQueries, side_by_side
from owpc_ltr.evaluation.held_out import ChosenQueries, NothingHeldOut, choose_queries, seen_doubts
from owpc_ltr.evaluation.judged_data import Data, read_data, texts_of, without_features
from owpc_ltr.evaluation.judgment_checks import judgment_doubts, unused_weights
from owpc_ltr.evaluation.measurement import (
    OnData,
    RankerValues,
    measure_on_data,
    model_data,
    ranker_of,
)
from owpc_ltr.evaluation.ranked_lists import Ranking
from owpc_ltr.evaluation.verdict import Doubt
from owpc_ltr.metrics import uneven
from owpc_ltr.models.reordering import FEATURE, ReorderingModel
from owpc_ltr.signatures import spelled

if TYPE_CHECKING:
    from owpc_ltr.evaluation.comparison_statistics import ComparisonPlan


LIVE = "live:"
UNJUDGED = ("zero", "skip", "condensed")


@dataclass(frozen=True)
class ComparisonRequest:
    """Which rankers are compared, by which conventions, on which split of the data.

    `documents` is the file that was indexed, for rerankers that read fields of documents.
    """

    rankers: Mapping[str, Any]
    how: ComparisonPlan
    split: str
    weighted: bool
    plugins: tuple[Path, ...]
    documents: Path | str | None = None
    id_field: str | None = None


def named_rankers(rankers: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """The rankers by name: as given, or as files and texts are spelled; others by their kind.

    Raises UsageError for fewer than two, and for one that is named twice.
    """
    if isinstance(rankers, Mapping):
        found = {str(name): ranker for name, ranker in rankers.items()}
    else:
        found = {}
        for ranker in [rankers] if isinstance(rankers, str | Path) else rankers:
            found[_new_name(ranker, found)] = ranker
    if len(found) < 2:
        raise UsageError(
            f"a comparison needs 2 rankers, and there is {len(found)}: name another model, run "
            "or feature:NAME"
        )
    return found


def is_live(ranker: Any) -> bool:
    """Whether a ranker is one that the engine serves: `live:…`."""
    return isinstance(ranker, str) and ranker.startswith(LIVE)


def check_baseline(baseline: str | None, names: Mapping[str, Any]) -> None:
    """Refuse a baseline that is none of the rankers."""
    if baseline is not None and baseline not in names:
        raise UsageError(
            f"the baseline '{baseline}' is none of the rankers: choose among {', '.join(names)}"
        )


def check_unjudged(unjudged: str) -> None:
    """Refuse what unjudged documents cannot be taken for."""
    if unjudged not in UNJUDGED:
        raise UsageError(
            f"unjudged documents cannot be taken for '{unjudged}': choose among "
            f"{', '.join(UNJUDGED)}"
        )


def _new_name(ranker: Any, taken: Mapping[str, Any]) -> str:
    if isinstance(ranker, str | Path):
        name = str(ranker)
        if name in taken:
            raise UsageError(f"'{name}' is named twice: a ranker does not differ from itself")
        return name
    kind = f"the {ranker.kind} model" if hasattr(ranker, "kind") else "the run"
    name, number = kind, 2
    while name in taken:
        name, number = f"{kind} {number}", number + 1
    return name


Dataset = RankingDataset | PartitionedDataset


class ChosenData(NamedTuple):
    """Rankers, the queries that they are compared on, and why these.

    `seen` are doubts by ranker: queries that it was trained or chosen on.
    """

    rankers: dict[str, Ranking]
    part: Dataset
    chosen: ChosenQueries
    seen: dict[str, tuple[Doubt, ...]]

    def doubted(self, found: RankerComparison) -> RankerComparison:
        """The comparison, with the doubts about what rankers have seen."""
        for name, doubts in self.seen.items():
            found = found.with_doubts(doubts, name)
        return found


def compare_on_data(request: ComparisonRequest, data: Data | Path | str) -> RankerComparison:
    """The comparison of rankers on what is judged."""
    of_data = chosen_data(request, data)
    rankers, part, chosen, _ = of_data
    request.how.drawing.progress("scores and metrics", None)
    found = measure_on_data(rankers, part, request.how.metrics, request.how.unjudged)
    of = ComparedQueries(
        part.query_ids,
        texts_of(part) if isinstance(part, RankingDataset) else None,
        found.weights if request.weighted else None,
        chosen.side,
        chosen.notes,
        (*chosen.warnings, *unused_weights(part)),
    )
    compared = side_by_side(found.rankers, found.baselines, of, request.how)
    return of_data.doubted(compared).with_doubts(judgment_doubts(part.head))


def chosen_data(request: ComparisonRequest, data: Data | Path | str) -> ChosenData:
    """The rankers, and the queries that none of them has seen, as request."""
    given = read_data(data) if isinstance(data, Path | str) else data
    whole = without_features(given) if isinstance(given, Judgments) else given
    rankers = {
        name: _ranker(ranker, whole, request.plugins) for name, ranker in request.rankers.items()
    }
    for ranker in rankers.values():
        _check_features(ranker, given, whole)
    chosen = choose_queries(records_of(rankers), whole, request.split)
    part = whole if len(chosen.queries) == whole.n_queries else whole.select(chosen.queries)
    fields = _field_names(rankers)
    if fields:
        if request.documents is not None:
            part = in_memory(part, spelled("documents"))
        if isinstance(part, RankingDataset):
            named = None if request.documents is None else Path(request.documents)
            part = with_document_fields(part, fields, named, request.id_field)
    seen = {
        name: seen_doubts(name, known_sides(record, part))
        for name, record in records_of(rankers).items()
        # Held out from all are those that none has seen.
        if chosen.side != "test"
    }
    return ChosenData(rankers, part, chosen, seen)


def _ranker(given: Any, data: Dataset, plugins: tuple[Path, ...]) -> Ranking:
    if not data.n_features and isinstance(given, str) and given.startswith(FEATURE):
        raise _no_features()
    if is_live(given):
        raise UsageError(f"'{given}' is a live ranker: compare live results with compare-live")
    if isinstance(given, str) and not given.startswith(FEATURE) and not Path(given).exists():
        # Names of uploaded models have no ending.
        meant = (
            "check the name" if Path(given).suffix else f"an uploaded model is live:{given}@INDEX"
        )
        raise BadInput(f"cannot read the ranker {given}: no such file or directory; {meant}")
    return ranker_of(given, data, plugins)


def _check_features(ranker: Ranking, given: Data, whole: Dataset) -> None:
    if isinstance(given, Judgments) and not isinstance(ranker, TrecRun):
        raise _no_features()
    model_data(ranker, whole, "all")


def _no_features() -> UsageError:
    return UsageError(
        "judgments have no features, by which models rank: give data that log-features wrote, runs "
        "alone, or compare live results"
    )


def records_of(rankers: Mapping[str, Ranking]) -> dict[str, Mapping[str, Any]]:
    """The record of each ranker's training; a run has none."""
    return {
        name: ranker.record for name, ranker in rankers.items() if not isinstance(ranker, TrecRun)
    }


def _field_names(rankers: dict[str, Ranking]) -> tuple[str, ...]:
    """The document fields that any reranker needs."""
    names = [
        name
        for one in rankers.values()
        if isinstance(one, ReorderingModel)
        for name in one.field_names
    ]
    return tuple(dict.fromkeys(names))


class _Fold(NamedTuple):
    """The test queries of a fold, which they are, and what was measured on them."""

    data: RankingDataset
    chosen: ChosenQueries
    found: OnData
    seen: Mapping[str, tuple[Doubt, ...]]


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
        pa.concat_arrays([fold.data.query_ids for fold in measured]),
        None if any(one is None for one in texts) else pa.concat_arrays(texts),
        weights if request.weighted else None,
        "test" if all(fold.chosen.side == "test" for fold in measured) else "all",
        (f"the test queries of {len(measured)} folds ({sizes}) are pooled: one test over all",),
        tuple(dict.fromkeys(_doubts(measured))),
    )
    values = {name: _pooled(name, measured) for name in request.rankers}
    zero = [np.concatenate(one) for one in zip(*(f.found.baselines for f in measured), strict=True)]
    found = side_by_side(values, zero, of, request.how)
    for fold in measured:
        for name, of_ranker in fold.seen.items():
            found = found.with_doubts(of_ranker, name)
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
        rankers, part, chosen, seen = chosen_data(request, data)
    except NothingHeldOut as nothing:
        raise _seen(fold, str(nothing)) from nothing
    if chosen.notes:
        raise _seen(fold, chosen.notes[0])
    part = in_memory(part, f"fold {fold}")
    return _Fold(
        part,
        chosen,
        measure_on_data(rankers, part, request.how.metrics, request.how.unjudged),
        seen,
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
