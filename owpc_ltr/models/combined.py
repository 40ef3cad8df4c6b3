"""Models made of models: averages, and a base ranker with what reorders its lists.

Averages of models: the weighted mean of their scores; and models of folds. The mean of linear
models is a linear model: `average` makes that one, which every engine runs.

A model that was trained on all queries has in its record one model a fold, trained in the same way
without the queries of that fold. A query is ranked by the model that has not seen it.

Reordering models: a base ranker and what reorders its lists, in one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from owpc_ltr.arrays import Fields, Vector
from owpc_ltr.data.documents import fields_of
from owpc_ltr.data.feature_sources import KEY, external_entry, sources_in
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.strict_json import take_numbers
from owpc_ltr.host.commands import CommandSummary
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import (
    REORDERING,
    SavedRanker,
    checked_record,
    content_of,
    damage_named,
    dataset_of,
    load_scoring_model,
    model_matrix,
    model_of,
    read_content,
    save_model,
    warnings_of,
    with_record,
)
from owpc_ltr.protocols import Model, Reordering, Reranker
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Reads, Writes, job, public
from owpc_ltr.text import printable

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import PartitionedDataset
    from owpc_ltr.data.runs import TrecRun


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


FEATURE = "feature:"


@dataclass(frozen=True, eq=False, repr=False)
class ReorderingModel(SavedRanker):
    """A base model and a reordering of its lists; without one, the base as it is.

    `reranker` names the plugin that learned the reordering, and loads it. `save_model` writes it.
    """

    kind: ClassVar[str] = REORDERING

    base: Model
    reranker: str
    reordering: Reordering | None
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that `rerank` expects, in order."""
        return self.base.feature_names

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that `rerank` needs besides the features."""
        return () if self.reordering is None else self.reordering.field_names

    def rerank(
        self, features: Any, offsets: NDArray[np.int64] | None = None, fields: Fields | None = None
    ) -> Vector:
        """Scores of the documents of one list, or of the lists that `offsets` cuts."""
        features = model_matrix(self.base, features)
        base_scores = self.base.score(features)
        if self.reordering is None:
            return base_scores
        return self.reordering.rerank(features, base_scores, offsets, fields)

    def rerank_dataset(self, data: RankingDataset) -> Vector:
        """Scores for all queries of a dataset, one a document."""
        return self.rerank(data.features, data.offsets, fields_of(data))

    def sizes(self) -> dict[str, object]:
        """The base, and whether its lists are reordered."""
        return {
            "base": self.base.kind,
            "reranker": self.reranker if self.reordering is not None else "none: the base as it is",
        }

    def as_dict(self) -> dict[str, Any]:
        """Base and reordering as JSON."""
        return {
            "base": content_of(self.base),
            "reranker": self.reranker,
            "reordering": None if self.reordering is None else self.reordering.as_dict(),
        }


@public
def load_model(
    path: Path | str, plugins: Annotated[Iterable[Path | str], Argument.LIST] = ()
) -> Model | ReorderingModel:
    """A model or a reordering from its file. Raises BadInput naming the file.

    `plugins` are the files of rerankers besides those installed.
    """
    path = Path(path)
    content = read_content(path)
    if content.get("kind") != REORDERING:
        return model_of(content, path)
    with damage_named(path):
        name, learned = str(content["reranker"]), content["reordering"]
        base = model_of(content["base"], path)
        record = checked_record(content)
    reordering: Reordering | None = None
    if learned is not None:
        from owpc_ltr.host.registry import load as load_plugins
        from owpc_ltr.host.settings import configure

        reranker: Reranker = configure(load_plugins(plugins).find("reranker", name), {})
        with damage_named(path):
            reordering = reranker.load(learned)
            if reordering.feature_names != base.feature_names:
                raise BadInput("its two parts read other features")
    return ReorderingModel(base, name, reordering, record)


def load_reordering(path: Path | str, plugins: Iterable[Path | str] = ()) -> ReorderingModel:
    """A reordering from its file. Raises BadInput for a model of single documents too."""
    ranker = load_model(path, plugins)
    if not isinstance(ranker, ReorderingModel):
        raise BadInput(f"{path} is not a reordering: upload it, and search with it")
    return ranker


def dataset_scores(
    ranker: Model | ReorderingModel | CrossValidated | TrecRun, data: RankingDataset
) -> Vector:
    """A ranker's scores of all documents of a dataset: list by list where it sees whole lists."""
    from owpc_ltr.data.runs import TrecRun

    if isinstance(ranker, TrecRun | CrossValidated):
        return ranker.score_dataset(data)
    if isinstance(ranker, ReorderingModel):
        return ranker.rerank_dataset(data)
    return ranker.score(data.features)


def read_base(text: str, data: RankingDataset) -> Model:
    """The base ranker that is meant: a model file, or `feature:NAME`, as the engine's score."""
    if text.startswith(FEATURE):
        return feature_ranker(text, data)
    return load_scoring_model(Path(text))


def feature_ranker(text: str, data: RankingDataset | PartitionedDataset) -> Model:
    """The ranker `feature:NAME`: one feature as it is, 0 where missing. UsageError if none."""
    from difflib import get_close_matches

    name = text.removeprefix(FEATURE)
    if name not in data.feature_names:
        within = [other for other in data.feature_names if name.lower() in other.lower()]
        close = within or get_close_matches(name, data.feature_names)
        names = ", ".join(f"'{other}'" for other in close or data.feature_names)
        what = "the nearest names are" if close else "the features are"
        raise UsageError(f"no feature is called '{name}'; {what} {names}")
    weights = np.array([float(own == name) for own in data.feature_names])
    return LinearModel(data.feature_names, weights, record={"base": text})
