"""Rankers compared on judged documents: models on their features, runs on whatever they list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from owpc_ltr.api.compared_data import Data, read_data, texts_of, without_features
from owpc_ltr.api.compared_rankers import Asked
from owpc_ltr.api.evaluation import ranker_of
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.document_fields import with_document_fields
from owpc_ltr.data.judgments.types import Judgments
from owpc_ltr.data.partitioned.dataset import PartitionedDataset, head_of, in_memory
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.data.sources import known_sides
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.comparing.on_data import measure_on_data
from owpc_ltr.evaluation.comparing.result import RankerComparison
from owpc_ltr.evaluation.comparing.side_by_side import ComparedQueries, side_by_side
from owpc_ltr.evaluation.evaluate import model_data
from owpc_ltr.evaluation.held_out import ChosenQueries, choose_queries
from owpc_ltr.evaluation.judgment_checks import judgment_doubts
from owpc_ltr.evaluation.ranked_lists import Ranking
from owpc_ltr.evaluation.trained_on import seen_doubts
from owpc_ltr.evaluation.unused_weights import unused_weights
from owpc_ltr.evaluation.verdict import Doubt
from owpc_ltr.models.reordering import FEATURE, ReorderingModel

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


def compare_on_data(
    asked: Asked, data: Data | Path | str, documents: Path | str | None, id_field: str | None
) -> RankerComparison:
    """The comparison; rerankers read their fields from the file of `documents`."""
    of_data = chosen_data(asked, data, documents, id_field)
    rankers, part, chosen, _ = of_data
    if asked.how.drawing.progress is not None:
        asked.how.drawing.progress("scores and metrics", None)
    found = measure_on_data(rankers, part, asked.how.metrics, asked.how.unjudged)
    of = ComparedQueries(
        part.query_ids,
        texts_of(part) if isinstance(part, RankingDataset) else None,
        found.weights if asked.weighted else None,
        chosen.side,
        chosen.notes,
        (*chosen.warnings, *unused_weights(part)),
    )
    compared = side_by_side(found.rankers, found.baselines, of, asked.how)
    return of_data.doubted(compared).with_doubts(judgment_doubts(head_of(part)))


def chosen_data(
    asked: Asked, data: Data | Path | str, documents: Path | str | None, id_field: str | None
) -> ChosenData:
    """The rankers, and the queries that none of them has seen, as asked."""
    given = read_data(data) if isinstance(data, Path | str) else data
    whole = without_features(given) if isinstance(given, Judgments) else given
    rankers = {
        name: _ranker(ranker, whole, asked.plugins) for name, ranker in asked.rankers.items()
    }
    for ranker in rankers.values():
        _check_features(ranker, given, whole)
    chosen = choose_queries(records_of(rankers), whole, asked.queries)
    part = whole if len(chosen.queries) == whole.n_queries else whole.select(chosen.queries)
    fields = _field_names(rankers)
    if fields:
        if documents is not None:
            part = in_memory(part, "--documents")
        if isinstance(part, RankingDataset):
            named = None if documents is None else Path(documents)
            part = with_document_fields(part, fields, named, id_field)
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
        "alone, or --live"
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
