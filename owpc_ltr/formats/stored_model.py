"""A model as an engine's store keeps it, and its form as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet, parse_featureset, stored_part
from owpc_ltr.plain_text import ShortRepr


@dataclass(frozen=True, repr=False)
class StoredModel(ShortRepr):
    """A model as a store keeps it: the LTR plugin's type and definition."""

    name: str
    type: str
    definition: Any
    featureset: FeatureSet
    feature_normalizers: dict[str, Any] = field(default_factory=dict)


def model_source(model: StoredModel) -> dict[str, Any]:
    """A model with its own copy of the feature set."""
    return {
        "name": model.name,
        "feature_set": model.featureset.to_body()["featureset"],
        "model": ranker_source(model),
    }


def ranker_source(model: StoredModel) -> dict[str, Any]:
    """The part of a model that scores."""
    normalisers = model.feature_normalizers
    return {
        "type": model.type,
        "definition": model.definition,
        **({"feature_normalizers": normalisers} if normalisers else {}),
    }


def read_model(source: Any, place: str) -> StoredModel:
    """The model of a stored document."""
    content = stored_part(source, "model", place)
    ranker = stored_part(content, "model", place)
    featureset = parse_featureset(stored_part(content, "feature_set", place), place)
    try:
        return StoredModel(
            str(content["name"]),
            str(ranker["type"]),
            ranker["definition"],
            featureset,
            dict(ranker.get("feature_normalizers") or {}),
        )
    except (KeyError, TypeError) as error:
        raise BadInput(f"{place} is damaged: {type(error).__name__} {error}") from error


def same_model(one: StoredModel, other: StoredModel) -> bool:
    """Whether two models score alike: their features, definition and normalisers are equal."""
    return (
        one.type == other.type
        and one.featureset.hash == other.featureset.hash
        and one.feature_normalizers == other.feature_normalizers
        and _decoded(one.definition) == _decoded(other.definition)
    )


def _decoded(definition: Any) -> Any:
    if isinstance(definition, str):
        try:
            return json.loads(definition)
        except (ValueError, RecursionError):
            return definition
    return definition


def body_text(body: dict[str, Any]) -> str:
    """JSON that people can read, ending in a line break."""
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
