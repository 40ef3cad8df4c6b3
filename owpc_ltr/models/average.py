"""Averages of models: the weighted mean of their scores; and models of folds.

The mean of linear models is a linear model: `average` makes that one, which every engine runs.

A model that was trained on all queries has in its record one model a fold, trained in the same way
without the queries of that fold. A query is ranked by the model that has not seen it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.feature_sources import KEY, external_entry, sources_in
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import take_numbers
from owpc_ltr.host.commands import CommandSummary
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import (
    SavedRanker,
    content_of,
    dataset_of,
    load_scoring_model,
    model_matrix,
    model_of,
    save_model,
    warnings_of,
    with_record,
)
from owpc_ltr.protocols import Model
from owpc_ltr.signatures import NO_MODEL, Help, Reads, Writes, job
from owpc_ltr.text import printable

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


@dataclass(frozen=True, eq=False, repr=False)
class AverageModel(SavedRanker):
    """Σ_k weight_k · score_k; the weights are not negative and sum to 1."""

    kind: ClassVar[str] = "average"

    feature_names: tuple[str, ...]
    parts: tuple[Model, ...]
    weights: Vector
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _shares(self.parts, self.weights))
        for part in self.parts:
            _check_features(part, self.feature_names)

    def score(self, features: Any) -> Vector:
        """Mean scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        total = np.zeros(features.shape[0])
        for weight, part in zip(self.weights, self.parts, strict=True):
            total += weight * part.score(features)
        return total

    def sizes(self) -> dict[str, object]:
        """The parts and their shares."""
        parts = zip(self.parts, self.weights, strict=True)
        return {"parts": ", ".join(f"{share:.3g} × {part.kind}" for part, share in parts)}

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {
            "weights": [float(weight) for weight in self.weights],
            "parts": [content_of(part) for part in self.parts],
        }

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> AverageModel:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        if any(part.get("kind") == cls.kind for part in content["parts"]):
            raise BadInput("an average of averages: average their parts instead")
        parts = tuple(model_of(part, Path("a part of it")) for part in content["parts"])
        return cls(names, parts, take_numbers(content, "weights", "the average"), record)


def _summary(mean: Model) -> CommandSummary:
    """The kind of an average, and how many models it is made of."""
    content = {"kind": mean.kind, "models": mean.record["average_of"]}
    return CommandSummary("a {kind} model, the mean of {models}".format(**content), content)


@job(shows=_summary)
def average(
    models: Annotated[
        Sequence[Model | Path | str],
        Reads("Model files of the same features.", cli=list[Path], absent=NO_MODEL),
    ],
    *,
    weights: Annotated[
        Sequence[float] | None,
        Help("One weight per model, in order; default: equal weights.", flag="--weight"),
    ] = None,
    normalise: Annotated[
        bool,
        Help("Divide each model's scores by their spread on the queries that the first remembers."),
    ] = False,
    out: Annotated[Path | str | None, Writes("The model file (JSON).", required=True)] = None,
) -> Model:
    """Make one model that averages the scores of several.

    The average of linear models is one linear model, without an intercept, which changes no
    ranking. Averages among the models are replaced by their parts.
    """
    loaded = [
        load_scoring_model(model) if isinstance(model, Path | str) else model for model in models
    ]
    mean = _mean(loaded, _by_spread(loaded, weights) if normalise else weights)
    if out is not None:
        save_model(mean, out)
    return mean


def _by_spread(models: Sequence[Model], weights: Sequence[float] | None) -> list[float]:
    """The weights over the spread of each model's scores. Raises BadInput without samples."""
    samples = models[0].record.get("probes") if models else None
    if not samples:
        raise BadInput(
            "the first model remembers no queries, on which the spread of scores is measured: give "
            "`weights`, or train it on data that log-features wrote"
        )
    data = dataset_of(samples, models[0].feature_names)
    spreads = [float(np.std(model.score(data.features))) for model in models]
    shares = [1.0] * len(models) if weights is None else weights
    return [share / (spread or 1.0) for share, spread in zip(shares, spreads, strict=True)]


def _mean(models: Sequence[Model], weights: Sequence[float] | None) -> Model:
    if not models:
        raise BadInput("there is no model to average")
    shares = _shares(models, np.ones(len(models)) if weights is None else np.asarray(weights))
    names = models[0].feature_names
    parts: list[Model] = []
    parts_shares: list[float] = []
    for model, share in zip(models, shares, strict=True):
        _check_features(model, names)
        if isinstance(model, AverageModel):
            parts += model.parts
            parts_shares += list(share * model.weights)
        else:
            parts.append(model)
            parts_shares.append(float(share))
    record = _common_record(models)
    if all(isinstance(part, LinearModel) for part in parts):
        folded = [part.folded()[0] for part in parts if isinstance(part, LinearModel)]
        return LinearModel(names, np.average(folded, axis=0, weights=parts_shares), {}, record)
    return AverageModel(names, tuple(parts), np.array(parts_shares), record)


def _common_record(models: Sequence[Model]) -> dict[str, Any]:
    """What all records agree on (feature set, probes, data), so that the mean can be uploaded."""
    from owpc_ltr.data.splits import joint_source

    first, *others = records = [model.record for model in models]
    common = {
        key: value
        for key, value in first.items()
        if all(record.get(key) == value for record in others)
    }
    if first.get("probes"):
        common["probes"] = first["probes"]
    if seen := joint_source(records):
        common["source"] = {**(common.get("source") or {}), **seen}
    # Each may have been trained with a newer table than the one before.
    common |= external_entry(tuple(dict.fromkeys(s for r in records for s in sources_in(r))))
    common["average_of"] = len(models)
    if warnings := list(dict.fromkeys(text for r in records for text in warnings_of(r))):
        common["warnings"] = warnings
    return common


def _check_features(model: Model, names: tuple[str, ...]) -> None:
    if model.feature_names != names:
        raise BadInput(
            "models of different features cannot be averaged: "
            f"{printable(', '.join(model.feature_names[:3]))} … against "
            f"{printable(', '.join(names[:3]))} …"
        )


def _shares(parts: Sequence[Model], weights: ArrayLike) -> Vector:
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(parts),) or not len(parts):
        raise BadInput(f"{len(parts)} models need as many weights, not {shares.size}")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
        raise BadInput("weights of an average are finite, not negative, and not all 0")
    normalised: Vector = shares / shares.sum()
    return normalised
