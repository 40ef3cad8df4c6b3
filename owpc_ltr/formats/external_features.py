"""Models of external features before they go into an engine, which has no such features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from owpc_ltr.data.external_features.sources import (
    KEY,
    ExternalSource,
    external_names,
    in_words,
    sources_in,
)
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.models.feature_use import features_used, without_last_columns
from owpc_ltr.models.model_file import with_record
from owpc_ltr.protocols import Model, Ranker

LEFT_OUT = "joined_left_out"
"""Where a record names the joined features that a model had, and made nothing of."""


def joined_sources(model: Ranker) -> tuple[ExternalSource, ...]:
    """Where the model's joined features are from. Raises BadInput where its record is damaged."""
    sources = sources_in(model.record, "the model's record")
    names = external_names(sources)
    if names and model.feature_names[-len(names) :] != names:
        raise BadInput("the model's record is damaged: its joined features are not its last ones")
    return sources


def index_features(model: Ranker) -> tuple[str, ...]:
    """The features that an index has: all but the joined ones, which are the last."""
    joined = len(external_names(joined_sources(model)))
    return model.feature_names[: len(model.feature_names) - joined]


def joined_used(model: Model) -> tuple[str, ...]:
    """The joined features that can change a score of the model."""
    used = features_used(model)
    return tuple(name for name in external_names(joined_sources(model)) if name in used)


def for_engine(model: Model) -> Model:
    """The model without joined features, of which it makes nothing; itself where it has none.

    Raises Refused, naming them, where it reads some: no engine has their values.
    """
    sources = joined_sources(model)
    names = external_names(sources)
    used = joined_used(model)
    if used:
        raise Refused(
            f"the model reads {in_words(used, sources)}, which is in no index, so that no engine "
            "can run it: train without it, or let the client score the model: upload "
            "--client-scored"
        )
    if not names:
        return model
    return with_record(without_last_columns(model, names), _record(model, names))


def without_joined(
    samples: Sequence[dict[str, Any]], features: int, joined: int
) -> list[dict[str, Any]]:
    """Samples of so many features without the last, joined ones."""
    if not joined:
        return list(samples)
    from owpc_ltr.models.model_file import packed

    return [
        {**sample, "features": packed(matrix[:, : features - joined])}
        if (matrix := _features(sample, features)) is not None
        else sample
        for sample in samples
    ]


def _record(model: Model, names: Sequence[str]) -> dict[str, Any]:
    record = {key: part for key, part in model.record.items() if key != KEY}
    width, joined = len(model.feature_names), len(names)
    if record.get("probes"):
        record["probes"] = without_joined(record["probes"], width, joined)
    if record.get("feature_ranges"):
        record["feature_ranges"] = [ends[: width - joined] for ends in record["feature_ranges"]]
    return {**record, LEFT_OUT: list(names)}


def _features(sample: dict[str, Any], width: int) -> Any:
    if "features" not in sample:
        return None
    from owpc_ltr.models.model_file import unpacked

    return unpacked(sample["features"], len(sample["document_ids"]), width)
