"""A model as a cluster gets it: joined features are left out, or the client scores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.external_features.columns import JoinedColumns, columns_for, refuse_unused
from owpc_ltr.data.external_features.source import in_words, joined_features
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import Refused
from owpc_ltr.features.expressions import expression_variables
from owpc_ltr.features.feature_set import DERIVED, MUSTACHE, FeatureSet
from owpc_ltr.formats.external_features import (
    for_engine,
    joined_sources,
    joined_used,
    without_joined,
)
from owpc_ltr.models.feature_use import features_used, with_features
from owpc_ltr.models.model_file import with_record
from owpc_ltr.models.parity_samples import packed, unpacked
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import JoinedTable


@dataclass(frozen=True)
class ServedModel:
    """The model that is stored, samples with its columns, and where its joined ones are found.

    `joined` is None where the model reads none, or no table was given: `cautions` say which.
    """

    model: Model
    samples: list[dict[str, Any]]
    joined: JoinedColumns | None = None
    cautions: tuple[str, ...] = ()


def served_model(
    store: Store,
    model: Model,
    samples: Sequence[dict[str, Any]],
    *,
    client_scored: bool,
    tables: Sequence[JoinedTable],
) -> ServedModel:
    """The model without joined features, unless it reads them and the client is to score it.

    Raises Refused for a model that reads some and is to run in an engine, and for a store that
    keeps no model for clients.
    """
    if client_scored and store.kind == "ltr-plugin":
        raise Refused(
            "the LTR plugin's store keeps no model that the client scores: push its feature set "
            "(featureset push), and upload it, both with --store-kind plugin-free"
        )
    sources = joined_sources(model)
    refuse_unused(sources, tables, "the model")
    names, used = joined_features(sources), joined_used(model)
    if not (client_scored and used):
        small = for_engine(model)
        kept = without_joined(samples, len(model.feature_names), len(names))
        nothing = f"the model makes nothing of {in_words(names, sources)}: it was left out"
        return ServedModel(small, kept, cautions=(nothing,) if names else ())
    if tables:
        joined = columns_for(sources, tables, "the model")
        return ServedModel(model, list(samples), joined)
    unseen = (
        f"{in_words(names, sources)}: values of no index, which the proof took as the model "
        "remembers them; to prove that they are found, give the table with --join FILE"
    )
    return ServedModel(model, list(samples), cautions=(unseen,))


def with_fewer_features(
    store: Store, served: ServedModel, featureset: FeatureSet
) -> tuple[ServedModel, FeatureSet]:
    """The model, and a set of the features that it uses alone, where the store computes whole sets.

    The LTR plugin computes every feature of a model's set in each search, whatever its weight.
    Names of features and of their parameters stay. Both are as they were where nothing can be left
    out.
    """
    names = featureset.feature_names
    languages = {feature.template_language for feature in featureset.features}
    used = features_used(served.model)
    if store.kind != "ltr-plugin" or not used or not languages <= {MUSTACHE, DERIVED}:
        return served, featureset
    needed = set(used)
    for feature in reversed(featureset.features):
        if feature.name in needed and feature.template_language == DERIVED:
            needed |= expression_variables(str(feature.template)) & set(names)
    if needed >= set(names):
        return served, featureset
    places = [place for place, name in enumerate(names) if name in needed]
    small = with_features(served.model, [names[place] for place in places])
    record = dict(small.record)
    ranges = np.array(record.get("feature_ranges") or [], dtype=np.float64)
    if ranges.shape == (2, len(names)):
        record["feature_ranges"] = ranges[:, places].tolist()
    samples = [_of_columns(sample, len(names), places) for sample in served.samples]
    kept = tuple(featureset.features[place] for place in places)
    model = with_record(small, record)
    fewer = replace(featureset, features=kept, validation=None)
    return replace(served, model=model, samples=samples), fewer


def _of_columns(sample: dict[str, Any], width: int, places: list[int]) -> dict[str, Any]:
    if "features" not in sample:
        return sample
    rows = unpacked(sample["features"], len(sample["document_ids"]), width)
    return {**sample, "features": packed(rows[:, places])}
