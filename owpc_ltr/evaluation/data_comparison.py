"""Rankers compared on judged documents: models on their features, runs on whatever they list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import with_document_fields
from owpc_ltr.data.judgments.grouping import Judgments
from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.judged_data import Data, read_data, without_features
from owpc_ltr.evaluation.measurement import Measurable, Ranking, measure_on_data, ranker_of
from owpc_ltr.evaluation.query_choice import (
    ChosenQueries,
    choose_queries,
    compared_queries,
    model_data,
)
from owpc_ltr.evaluation.results import ComparisonPlan
from owpc_ltr.models.fold_models import CrossValidated
from owpc_ltr.models.reordering import FEATURE, ReorderingModel
from owpc_ltr.protocols import Model
from owpc_ltr.signatures import option_name

LIVE = "live:"
Dataset = RankingDataset | PartitionedDataset


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


class ChosenData(NamedTuple):
    """Rankers as they are measured, the queries that they are compared on, and why these."""

    rankers: dict[str, Measurable]
    part: Dataset
    chosen: ChosenQueries


def compare_on_data(request: ComparisonRequest, data: Data | Path | str) -> RankerComparison:
    """The comparison of rankers on what is judged."""
    rankers, part, chosen = chosen_data(request, data)
    request.how.drawing.progress("scores and metrics", None)
    of, how = compared_queries(part, chosen), request.how
    return compare_results(measure_on_data(rankers, part, of, how, weighted=request.weighted), how)


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
    part = with_fields(part, rankers, request.documents, request.id_field)
    return ChosenData(by_folds(rankers, chosen), part, chosen)


def by_folds(rankers: Mapping[str, Ranking], chosen: ChosenQueries) -> dict[str, Measurable]:
    """The rankers as they are measured on these queries: where it must be, by models of folds."""
    return {
        name: CrossValidated(cast(Model, one), chosen.folds[name]) if name in chosen.folds else one
        for name, one in rankers.items()
    }


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


def is_live(ranker: Any) -> bool:
    """Whether a ranker is one that the engine serves: `live:…`."""
    return isinstance(ranker, str) and ranker.startswith(LIVE)


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


def with_fields(
    data: Dataset,
    rankers: Mapping[str, Ranking],
    documents: Path | str | None,
    id_field: str | None,
) -> Dataset:
    """The data with the document fields that any reranker needs, from the file that was indexed."""
    names = [
        name
        for one in rankers.values()
        if isinstance(one, ReorderingModel)
        for name in one.field_names
    ]
    if not names:
        return data
    if documents is not None:
        data = in_memory(data, option_name("documents"))
    if not isinstance(data, RankingDataset):
        return data
    path = None if documents is None else Path(documents)
    return with_document_fields(data, tuple(dict.fromkeys(names)), path, id_field)
