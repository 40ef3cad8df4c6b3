"""One fit, checked, and its figures: of data in memory or in a folder of parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import PluginError, Refused, UsageError
from owpc_ltr.metrics import Metric, RankedQueries, uneven
from owpc_ltr.protocols import (
    Certificate,
    Fit,
    Loss,
    Model,
    Optimizer,
    Reordering,
    Run,
    StreamingOptimizer,
)

ZERO = "zero"
_CHECKED_ROWS = 1000


def check_missing(missing: str | None) -> None:
    """Refuse another word than `zero`; None leaves missing values to the optimizer."""
    if missing not in {None, ZERO}:
        raise UsageError(f"missing values can be taken as zero, not as '{missing}'")


def taking_missing_as_zero(model: Model, data: RankingDataset) -> Model:
    """The model, fitted to filled values, for data as they are; it scores a gap as it does a 0.

    Raises Refused, on the evidence of `data`, for a kind of model that cannot.
    """
    from owpc_ltr.models.trees import TreeModel

    if isinstance(model, TreeModel):
        model = model.with_missing_as_zero()
    gaps = np.isnan(data.features[:_CHECKED_ROWS]).any(axis=1)
    features = data.features[:_CHECKED_ROWS][gaps]
    filled = np.nan_to_num(features)
    if gaps.any() and not np.array_equal(model.score(features), model.score(filled)):
        raise Refused(
            f"a {model.kind} model scores a missing value otherwise than 0: train it without "
            "--missing zero, or use --optimizer boosting or larank"
        )
    return model


_MODEL = ("kind", "feature_names", "record", "score", "as_dict")
_REORDERING = ("kind", "feature_names", "field_names", "rerank", "as_dict")


def checked_fit(name: str, returned: Any, data: RankingDataset) -> Fit:
    """The fit that an optimizer returned, whose model scores the first query of its data.

    Raises PluginError naming the optimizer, what it returned, and what it must return.
    """
    who = f"optimizer '{name}'"
    if not isinstance(returned, Fit):
        raise PluginError(f"{who} returned {_short(returned)}: return an owpc_ltr.protocols.Fit")
    if not isinstance(returned.certificate, Certificate):
        raise PluginError(
            f"{who} returned a fit with the certificate {_short(returned.certificate)}: give an "
            "owpc_ltr.protocols.Certificate, of which only the objective is needed"
        )
    model = returned.model
    _check_parts(who, model, "model", _MODEL, data)
    if not dataclasses.is_dataclass(model):
        raise PluginError(
            f"{who} returned the model {_short(model)}, which is no dataclass: make it one, with a "
            "field for the record of its training"
        )
    _check_scores(who, "model", model.score, data.features[: int(data.offsets[1])])
    return returned


def checked_reordering(name: str, returned: Any, data: RankingDataset) -> Reordering:
    """The reordering that a reranker returned. Raises PluginError as `checked_fit` does."""
    who = f"reranker '{name}'"
    _check_parts(who, returned, "reordering", _REORDERING, data)
    reordering: Reordering = returned
    return reordering


def _check_parts(
    who: str, returned: Any, what: str, parts: tuple[str, ...], data: RankingDataset
) -> None:
    missing = [part for part in parts if not hasattr(returned, part)]
    if missing:
        raise PluginError(
            f"{who} returned {_short(returned)} where a {what} belongs, which has no "
            f"{', '.join(missing)}: return an object with {', '.join(parts)}"
        )
    if tuple(returned.feature_names) != data.feature_names:
        raise PluginError(
            f"{who} returned a {what} of the features {_short(returned.feature_names)}, where the "
            f"data have {_short(data.feature_names)}: give it those of the data"
        )


def _check_scores(who: str, what: str, score: Callable[[Any], Any], features: Any) -> None:
    scores = score(features)
    if np.shape(scores) != (len(features),):
        raise PluginError(
            f"{who} returned a {what} that gives scores of shape {np.shape(scores)} for "
            f"{len(features)} documents: one number a document is wanted"
        )


def _short(value: Any) -> str:
    """A value in one short line, and its type."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


Data = RankingDataset | PartitionedDataset


def fitted(optimizer: Optimizer, loss: Loss, data: Data, run: Run, start: Fit | None) -> Fit:
    """What the optimizer finds, looked at. TypeError for parts that it cannot go through."""
    if isinstance(data, RankingDataset):
        return checked_fit(optimizer.name, optimizer.minimise(loss, data, run, start), data)
    if not isinstance(optimizer, StreamingOptimizer):
        raise TypeError(f"{optimizer.name} does not stream")
    return checked_fit(optimizer.name, optimizer.minimise_parts(loss, data, run, start), data.head)


def mean_of(metric: Metric, model: Model, data: Data) -> float:
    """The mean of a metric over the queries of some data, weighted by their importance."""
    return metric.average(next(per_query([metric], model, data)), weights_of(data))


def weights_of(data: Data) -> Vector | None:
    """The importance of the queries; None where all are alike."""
    if isinstance(data, RankingDataset):
        return uneven(data.query_weights)
    if "query_weights" not in data.columns:
        return None
    return uneven(np.concatenate(list(data.each(lambda part: part.query_importance))))


def per_query(metrics: list[Metric], model: Model, data: Data) -> Iterator[Vector]:
    """The value of each query by each metric; the documents are sorted once for all."""

    def values(part: RankingDataset) -> list[Vector]:
        queries = RankedQueries(model.score(part.features), part.labels, part.offsets)
        return [metric.of(queries) for metric in metrics]

    if isinstance(data, RankingDataset):
        yield from values(data)
    else:
        yield from map(np.concatenate, zip(*data.each(values), strict=True))
