"""What `report` measures of rankers on judged queries: figures, examples, data checks, bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from owpc_ltr_papers.bounds import bounds
from owpc_ltr_papers.risk_bounds import Bound

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import with_document_fields
from owpc_ltr.errors import OwpcLtrError
from owpc_ltr.evaluation.compare import compare
from owpc_ltr.evaluation.evaluate import evaluate
from owpc_ltr.evaluation.measurement import ranker_of
from owpc_ltr.evaluation.query_choice import Data, model_data
from owpc_ltr.inspection.inspect import inspect
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import warnings_of
from owpc_ltr.models.reordering import ReorderingModel, dataset_scores
from owpc_ltr.signatures import Progress
from owpc_ltr_report.comparison import short_names
from owpc_ltr_report.features import Scores
from owpc_ltr_report.queries import changed_examples


def measure(
    results: Sequence[Any],
    data: Data,
    baseline: Path | str | None,
    examples: int,
    progress: Progress,
    how: dict[str, Any],
) -> tuple[list[Any], str | None]:
    """The results with the rankers among them measured on the data, and the new one compared.

    Several rankers are compared; one without a baseline is evaluated. `how` are the parameters that
    `compare` and `evaluate` share.
    """
    rankers, found = _rankers_among(results)
    if baseline is not None:
        rankers.setdefault(str(baseline), baseline)
    if not rankers:
        return [*found, data], None
    names, files = short_names(list(rankers)), [Path(plugin) for plugin in how["plugins"]]
    loaded = {names[name]: ranker_of(one, data, files) for name, one in rankers.items()}
    found.append({name: one for name, one in loaded.items() if _is_trained(one)})
    new, judged = None, data
    if len(loaded) == 1:
        evaluation = evaluate(next(iter(rankers.values())), data, **how)
        found, judged = [*found, evaluation], evaluation.data
    else:
        how |= {"baseline": names[str(baseline)] if baseline is not None else list(loaded)[-1]}
        new = next(name for name in loaded if name != how["baseline"])
        compared, judged = _compared(loaded, new, data, examples, {**how, "progress": progress})
        found += [*compared, judged]
    if isinstance(judged, RankingDataset):
        found.append(inspect(judged, training=False))
    return [*found, *_bounds(next(iter(loaded.values())), data, how["plugins"])], new


def _rankers_among(results: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Files and models by name, and the other results."""
    rankers: dict[str, Any] = {}
    others = []
    for one in results:
        if isinstance(one, Path | str):
            rankers.setdefault(str(one), one)
        elif isinstance(one, Mapping):
            rankers |= {str(name): each for name, each in one.items()}
        elif hasattr(one, "feature_names") and hasattr(one, "record"):
            rankers[f"the {one.kind} model"] = one
        else:
            others.append(one)
    return rankers, others


def _is_trained(ranker: Any) -> bool:
    """Whether it is more than a run, or a feature that ranks alone."""
    return "base" not in getattr(ranker, "record", ("base",))


def _compared(
    rankers: dict[str, Any], new: str, data: Data, examples: int, how: dict[str, Any]
) -> tuple[list[Any], Data]:
    """The comparison with examples, and its queries."""
    found = compare(rankers, data=data, **how)
    warnings = [f"in training: {one}" for one in warnings_of(getattr(rankers[new], "record", {}))]
    found = replace(found, warnings=(*warnings, *found.warnings))
    if found.n_queries != data.n_queries:
        place = {query: number for number, query in enumerate(data.query_ids.to_pylist())}
        data = data.select(np.array([place[one] for one in found.query_ids.to_pylist()]))
    if not isinstance(data, RankingDataset):
        return [found], data
    pair = rankers[how["baseline"]], rankers[new]
    if how["documents"] is not None:
        fields = [
            name for one in pair if isinstance(one, ReorderingModel) for name in one.field_names
        ]
        documents = Path(how["documents"])
        data = with_document_fields(data, ("title", *fields), documents, how["id_field"])
    scores = dataset_scores(pair[0], data), dataset_scores(pair[1], data)
    shown = changed_examples(found, data, scores, (how["baseline"], new), pair[1], examples)
    new_scores = [Scores(new, scores[1])] if _is_trained(pair[1]) else []
    return [found, *new_scores, *shown], data


def _bounds(ranker: Any, data: Data, plugins: Sequence[Path | str]) -> Sequence[Bound]:
    """The risk bounds of a linear model on the queries that it was trained on."""
    if not isinstance(ranker, LinearModel) or not ranker.record.get("loss"):
        return []
    try:
        trained = model_data(ranker, data, "train").data
    except OwpcLtrError:
        # The model was trained on other data.
        return []
    if not isinstance(trained, RankingDataset):
        return []
    return bounds(ranker, trained, plugins=plugins).bounds
