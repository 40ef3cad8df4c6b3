"""What would bring a document past another: one feature changed, and the model asked again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.explanations.by_kind import breakpoints
from owpc_ltr.explanations.what_if import Lead, Single, ToPass, smallest_changes
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import Model

_ROWS = 20_000
"""About how many rows are reranked at a time."""


def ways_past(
    ranker: Model | ReorderingModel,
    features: Matrix,
    fields: Fields,
    place: int,
    target: int,
    shown: tuple[str, str, float],
) -> ToPass:
    """The changes that each bring the document at `place` above that at `target`.

    `shown` is the target's id, title and score. Where a reranker looks at the whole list, all of
    it is reranked for each change.
    """
    ranges, seen = _ranges(ranker, features)
    columns = range(len(ranker.feature_names))
    if isinstance(ranker, ReorderingModel) and ranker.reordering is not None:
        lead = _lead_in_list(ranker, features, fields, place, target)
        # A list bends a score anywhere.
        bends = [None for _ in columns]
        changes = smallest_changes(features[place], ranker.feature_names, ranges, bends, lead)
    else:
        model = ranker.base if isinstance(ranker, ReorderingModel) else ranker
        asked = [breakpoints(model, features[place], column) for column in columns]
        lead = _lead_alone(model, features, place, target)
        changes = smallest_changes(features[place], ranker.feature_names, ranges, asked, lead)
    document, title, score = shown
    return ToPass(document, title, target + 1, score, changes, seen)


def _lead_alone(model: Model, features: Matrix, place: int, target: int) -> Lead:
    """The lead where each document has a score of its own."""
    mark = float(model.score(features[target : target + 1])[0])

    def lead(columns: NDArray[np.int64], values: Single) -> tuple[Vector, Vector]:
        rows = np.repeat(features[place : place + 1], len(columns), axis=0)
        rows[np.arange(len(columns)), columns] = values
        scores = model.score(rows)
        return scores - mark, scores

    return lead


def _lead_in_list(
    ranker: ReorderingModel, features: Matrix, fields: Fields, place: int, target: int
) -> Lead:
    """The lead where a change of one document may move all others."""
    size = len(features)
    most = max(1, _ROWS // size)

    def some(columns: NDArray[np.int64], values: Single) -> tuple[Vector, Vector]:
        count = len(columns)
        lists = np.tile(features, (count, 1))
        lists[np.arange(count) * size + place, columns] = values
        again = {name: list(each) * count for name, each in fields.items()}
        scores = ranker.rerank(lists, np.arange(count + 1) * size, again).reshape(count, size)
        return scores[:, place] - scores[:, target], scores[:, place]

    def lead(columns: NDArray[np.int64], values: Single) -> tuple[Vector, Vector]:
        cuts = range(0, len(columns), most)
        parts = [some(columns[c : c + most], values[c : c + most]) for c in cuts]
        if not parts:
            return np.zeros(0), np.zeros(0)
        leads, scores = zip(*parts, strict=True)
        return np.concatenate(leads), np.concatenate(scores)

    return lead


def _ranges(ranker: Model | ReorderingModel, features: Matrix) -> tuple[Vector, str]:
    """Lowest and highest values (2, n_features) of each feature, and where they were seen."""
    records = [ranker.record]
    if isinstance(ranker, ReorderingModel):
        records.append(ranker.base.record)
    for record in records:
        ranges = _recorded(record, features.shape[1])
        if ranges is not None:
            return ranges, "in training"
    known = ~np.isnan(features)
    low = np.where(known, features, np.inf).min(axis=0)
    high = np.where(known, features, -np.inf).max(axis=0)
    nothing = ~known.any(axis=0)
    ends = np.stack([np.where(nothing, 0.0, low), np.where(nothing, 0.0, high)])
    return ends.astype(np.float64), "in this list"


def _recorded(record: Mapping[str, object], width: int) -> Vector | None:
    """The ranges that training saw, where the record has them."""
    try:
        ranges = np.asarray(record.get("feature_ranges"), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    fit = (
        ranges.shape == (2, width) and np.isfinite(ranges).all() and (ranges[0] <= ranges[1]).all()
    )
    return ranges if fit else None
