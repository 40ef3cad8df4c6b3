"""A model as an engine's store keeps it, and its form as JSON."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet, parse_featureset, stored_part
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json


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


def read_model(source: Json, place: str) -> StoredModel:
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


def same_model(first: StoredModel, second: StoredModel) -> bool:
    """Whether two models score alike: their features, definition and normalisers are equal."""
    return (
        first.type == second.type
        and first.featureset.hash == second.featureset.hash
        and first.feature_normalizers == second.feature_normalizers
        and _decoded(first.definition) == _decoded(second.definition)
    )


def _decoded(definition: Json) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(definition) if isinstance(definition, str) else definition
    return definition


def body_text(body: dict[str, Any]) -> str:
    """JSON that people can read, ending in a line break."""
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
