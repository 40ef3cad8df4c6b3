"""Cross-validated evidence: the models of folds, which rank what their model has learned from.

A model that was trained on all queries has in its record one model a fold, trained in the same way
without the queries of that fold. A query is ranked by the model that has not seen it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.external_features.sources import KEY
from owpc_ltr.models.model_file import content_of, model_of, with_record
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset

FOLDS = "folds"
"""The key of the models of folds in a record."""
_KEPT = ("source", "featureset_hash", KEY)
"""What is kept of the record of a fold's model: which queries it has seen, and what it reads."""

_NONE = -1
FoldOf = Mapping[str, int]
"""Of each query that is ranked by the model of a fold, by its id, the number of that fold."""


def with_folds(model: Model, models: Sequence[Model]) -> Model:
    """The model with those of folds in its record; as it is where there are none."""
    if not models:
        return model
    folds = [content_of(fold) for fold in models]
    for content in folds:
        record = content["record"]
        content["record"] = {key: record[key] for key in _KEPT if key in record}
    return with_record(model, {**model.record, FOLDS: folds})


def fold_records(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The records of the models of folds; none where a model has none."""
    return [fold["record"] for fold in record.get(FOLDS) or ()]


def fold_model(record: Mapping[str, Any], number: int) -> Model:
    """The model of a fold. Raises BadInput where it is damaged."""
    return model_of(record[FOLDS][number], Path(f"the model of fold {number + 1}"))


def without_other_folds(record: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The record without models of folds that read other features than the model itself."""
    folds = record.get(FOLDS) or ()
    if all(fold["feature_names"] == list(names) for fold in folds):
        return record
    return {key: part for key, part in record.items() if key != FOLDS}


def scores_by_fold(
    data: RankingDataset, fold: NDArray[np.int64], models: Mapping[int, Model]
) -> Vector:
    """A score for each document: by the model of the number that its query has in `fold`."""
    of_document = np.repeat(fold, np.diff(data.offsets))
    scores = np.empty(data.n_documents)
    for number in np.unique(of_document).tolist():
        rows = of_document == number
        scores[rows] = models[number].score(data.features[rows])
    return scores


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """A model to be measured, of which the models of folds rank the queries in `fold_of`."""

    model: Model
    fold_of: FoldOf

    @property
    def kind(self) -> str:
        """That of the model."""
        return self.model.kind

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of the data, in order."""
        return self.model.feature_names

    @property
    def record(self) -> dict[str, Any]:
        """That of the model."""
        return self.model.record

    @cached_property
    def _models(self) -> dict[int, Model]:
        folds = {number: fold_model(self.record, number) for number in {*self.fold_of.values()}}
        return {_NONE: self.model, **folds}

    def score_dataset(self, data: RankingDataset) -> Vector:
        """Scores for all queries of a dataset, one a document."""
        fold = [self.fold_of.get(query, _NONE) for query in data.query_ids.to_pylist()]
        return scores_by_fold(data, np.array(fold, np.int64), self._models)
