"""What optimizers and rerankers return, looked at before anything is made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import PluginError
from owpc_ltr.protocols import Certificate, Fit, Reordering

_MODEL = ("kind", "feature_names", "record", "score", "as_dict")
_REORDERING = ("kind", "feature_names", "field_names", "rerank", "as_dict")


def checked_fit(name: str, returned: Any, data: RankingDataset) -> Fit:
    """The fit that an optimizer returned, whose model scores the first query of its data.

    Raises PluginError naming the optimizer, what it returned, and what it must return.
    """
    who = f"optimizer '{name}'"
    if not isinstance(returned, Fit):
        raise PluginError(f"{who} returned {_shown(returned)}: return an owpc_ltr.protocols.Fit")
    if not isinstance(returned.certificate, Certificate):
        raise PluginError(
            f"{who} returned a fit with the certificate {_shown(returned.certificate)}: give an "
            "owpc_ltr.protocols.Certificate, of which only the objective is needed"
        )
    model = returned.model
    _check_parts(who, model, "model", _MODEL, data)
    if not dataclasses.is_dataclass(model):
        raise PluginError(
            f"{who} returned the model {_shown(model)}, which is no dataclass: make it one, with a "
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
            f"{who} returned {_shown(returned)} where a {what} belongs, which has no "
            f"{', '.join(missing)}: return an object with {', '.join(parts)}"
        )
    if tuple(returned.feature_names) != data.feature_names:
        raise PluginError(
            f"{who} returned a {what} of the features {_shown(returned.feature_names)}, where the "
            f"data have {_shown(data.feature_names)}: give it those of the data"
        )


def _check_scores(who: str, what: str, score: Callable[[Any], Any], features: Any) -> None:
    scores = score(features)
    if np.shape(scores) != (len(features),):
        raise PluginError(
            f"{who} returned a {what} that gives scores of shape {np.shape(scores)} for "
            f"{len(features)} documents: one number a document is wanted"
        )


def _shown(value: Any) -> str:
    """A value in one short line, and its type."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"
