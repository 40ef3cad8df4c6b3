"""Rankers measured on the data of a report: compared, explained by examples, bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import with_document_fields
from owpc_ltr.errors import OwpcLtrError
from owpc_ltr.evaluation.compare import compare
from owpc_ltr.evaluation.data_comparison import ranker_of
from owpc_ltr.evaluation.evaluate import evaluate
from owpc_ltr.evaluation.judged_data import model_data
from owpc_ltr.host.commands import public_function
from owpc_ltr.inspection.inspect import inspect
from owpc_ltr.models.combined import dataset_scores
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import warnings_of
from owpc_ltr_report.models import is_model
from owpc_ltr_report.page import short_names
from owpc_ltr_report.queries import changed_examples

if TYPE_CHECKING:
    from owpc_ltr.data.partitioned import JudgedTable
    from owpc_ltr.signatures import Progress


def measure(
    results: Sequence[Any],
    data: JudgedTable,
    baseline: Path | str | None,
    examples: int,
    progress: Progress,
    how: dict[str, Any],
) -> tuple[list[Any], str | None]:
    """The results with the rankers among them measured on the data, and the new one compared.

    Several rankers are compared; one without a baseline is evaluated. `how` are the parameters that
    `compare` and `evaluate` share.
    """
    rankers, measured = _rankers_among(results)
    if baseline is not None:
        rankers.setdefault(str(baseline), baseline)
    if not rankers:
        return [*measured, data], None
    names, files = short_names(list(rankers)), [Path(plugin) for plugin in how["plugins"]]
    loaded = {names[name]: ranker_of(ranker, data, files) for name, ranker in rankers.items()}
    measured.append({name: ranker for name, ranker in loaded.items() if _is_trained(ranker)})
    new, judged = None, data
    if len(loaded) == 1:
        evaluation = evaluate(next(iter(rankers.values())), data, **how)
        measured, judged = [*measured, evaluation], evaluation.data
    else:
        how |= {"baseline": names[str(baseline)] if baseline is not None else list(loaded)[-1]}
        new = next(name for name in loaded if name != how["baseline"])
        side_by_side, judged = _compared(loaded, new, data, examples, {**how, "progress": progress})
        measured += [*side_by_side, judged]
    if isinstance(judged, RankingDataset):
        progress("inspecting the data", None)
        measured.append(inspect(judged))
    return [*measured, *_bounds(next(iter(loaded.values())), data, how["plugins"], progress)], new


def _rankers_among(results: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Files and models by name, and the other results."""
    rankers: dict[str, Any] = {}
    other_results = []
    for result in results:
        if isinstance(result, Path | str):
            rankers.setdefault(str(result), result)
        elif isinstance(result, Mapping):
            rankers |= {str(name): ranker for name, ranker in result.items()}
        elif is_model(result):
            rankers[f"the {result.kind} model"] = result
        else:
            other_results.append(result)
    return rankers, other_results


def _is_trained(ranker: Any) -> bool:
    """Whether it is more than a run, or a feature that ranks alone."""
    return "base" not in getattr(ranker, "record", ("base",))


def _compared(
    rankers: dict[str, Any], new: str, data: JudgedTable, examples: int, how: dict[str, Any]
) -> tuple[list[Any], JudgedTable]:
    """The comparison with examples, and its queries."""
    comparison = compare(rankers, data=data, **how)
    record = getattr(rankers[new], "record", {})
    warnings = [f"in training: {warning}" for warning in warnings_of(record)]
    comparison = replace(comparison, warnings=(*warnings, *comparison.warnings))
    if comparison.n_queries != data.n_queries:
        data = data.select(pc.index_in(comparison.query_ids, data.query_ids).to_numpy())
    if not isinstance(data, RankingDataset):
        return [comparison], data
    pair = rankers[how["baseline"]], rankers[new]
    if how["documents"] is not None:
        fields = "title", *(name for ranker in pair for name in getattr(ranker, "field_names", ()))
        data = with_document_fields(data, fields, Path(how["documents"]), how["id_field"])
    how["progress"]("choosing examples", None)
    scores = dataset_scores(pair[0], data), dataset_scores(pair[1], data)
    examples_shown = changed_examples(
        comparison, data, scores, (how["baseline"], new), ranker=pair[1], count=examples
    )
    return [comparison, *examples_shown], data


def _bounds(
    ranker: Any, data: JudgedTable, plugins: Sequence[Path | str], progress: Progress
) -> list[Any]:
    """The risk bounds of a linear model on its training queries, if `bounds` is installed."""
    bounds = public_function("bounds")
    if bounds is None or not isinstance(ranker, LinearModel) or not ranker.record.get("loss"):
        return []
    progress("computing risk bounds", None)
    try:
        trained = model_data(ranker, data, "train").data
    except OwpcLtrError:
        # The model was trained on other data.
        return []
    if not isinstance(trained, RankingDataset):
        return []
    return [bounds(ranker, trained, plugins=plugins)]
