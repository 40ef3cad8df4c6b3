"""FeatureSet: named features, each a query template, as the LTR plugin stores them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.features.mustache import json_variables, strings, text_variables

MUSTACHE = "mustache"
DERIVED = "derived_expression"
SCRIPT = "script_feature"
LANGUAGES = (MUSTACHE, DERIVED, SCRIPT)
RESERVED_NAMES = frozenset(
    (
        "query_id",
        "document_id",
        "label",
        "document_weight",
        "query_weight",
        "query_params",
        "comment",
    )
)
"""Names of a dataset's own columns, which no feature can have."""


@dataclass(frozen=True)
class Feature:
    """One query template; its score on a document is the feature's value.

    `params` are the variables that the mustache template names. `template` is the query (an
    object, or mustache text).
    """

    name: str
    params: tuple[str, ...]
    template: Any
    template_language: str = MUSTACHE

    def to_body(self) -> dict[str, Any]:
        """The feature in the plugin's JSON."""
        return {
            "name": self.name,
            "params": list(self.params),
            "template_language": self.template_language,
            "template": self.template,
        }


@dataclass(frozen=True)
class FeatureSet:
    """Features in order: the order is the models' column order."""

    name: str
    features: tuple[Feature, ...]
    validation: dict[str, Any] | None = field(default=None, compare=False)
    """`{"index": …, "params": {…}}`: where and with what the engine tries the templates."""

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of a dataset logged with this set."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def params(self) -> tuple[str, ...]:
        """Every variable that a template needs, sorted."""
        return tuple(sorted({name for feature in self.features for name in feature.params}))

    @cached_property
    def text_params(self) -> dict[str, str]:
        """The variables that a template inserts as text, each with the first feature that does."""
        found: dict[str, str] = {}
        for feature in self._mustache():
            for text in strings(feature.template):
                for name in sorted(text_variables(text)):
                    found.setdefault(name, feature.name)
        return found

    @cached_property
    def json_params(self) -> dict[str, str]:
        """The variables that a template inserts as JSON, each with the first feature that does."""
        found: dict[str, str] = {}
        for feature in self._mustache():
            if isinstance(feature.template, str):
                for name in sorted(json_variables(feature.template)):
                    found.setdefault(name, feature.name)
        return found

    @cached_property
    def hash(self) -> str:
        """Hex SHA-256 of the features in canonical JSON: what a model was trained on."""
        content = [
            [f.name, sorted(f.params), f.template_language, f.template] for f in self.features
        ]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _mustache(self) -> Iterator[Feature]:
        return (feature for feature in self.features if feature.template_language == MUSTACHE)

    def to_body(self) -> dict[str, Any]:
        """The set as a request stores it, and as `load_featureset` reads it."""
        features = [feature.to_body() for feature in self.features]
        body: dict[str, Any] = {"featureset": {"name": self.name, "features": features}}
        return body if self.validation is None else {**body, "validation": self.validation}


def parse_featureset(
    content: Any, place: str, *, name: str | None = None, default_name: str | None = None
) -> FeatureSet:
    """A feature set from decoded JSON, with or without the `featureset` around it.

    Only its shape is checked: a set that lies in a store is as it is. Raises BadInput.
    """
    _check(place, content, {"featureset", "validation", "name", "features"}, ())
    validation = None
    if "featureset" in content:
        _check(place, content, {"featureset", "validation"}, ("featureset",))
        validation = _validation(place, content.get("validation"))
        content = content["featureset"]
    _check(f"{place}: featureset", content, {"name", "features"}, ("features",))
    named = name or content.get("name") or default_name
    if not isinstance(named, str):
        raise BadInput(f'{place}: the feature set has no name: give it "name": "…"')
    features = content["features"]
    if not isinstance(features, list):
        raise BadInput(f"{place}: features must be a list of features")
    return FeatureSet(
        named, tuple(_feature(place, i, part) for i, part in enumerate(features)), validation
    )


def _feature(place: str, position: int, content: Any) -> Feature:
    where = f"{place}: feature {position + 1}"
    if isinstance(content, dict) and isinstance(content.get("name"), str):
        where = f"{place}: feature '{content['name']}'"
    # A description is for readers of the file; the engine does not store it.
    keys = {"name", "params", "template", "template_language", "description"}
    _check(where, content, keys, ("name", "template"))
    params = content.get("params", [])
    if not isinstance(params, list) or not all(isinstance(name, str) for name in params):
        raise BadInput(f"{where}: params must be a list of names, not {json.dumps(params)[:60]}")
    if not isinstance(content["name"], str):
        raise BadInput(f"{where}: its name must be text")
    if not isinstance(content["template"], dict | str):
        raise BadInput(f"{where}: its template must be a query object, or text")
    language = content.get("template_language", MUSTACHE)
    if not isinstance(language, str):
        raise BadInput(f"{where}: template_language is one of {', '.join(LANGUAGES)}")
    return Feature(content["name"], tuple(params), content["template"], language)


def _validation(place: str, content: Any) -> dict[str, Any] | None:
    if content is None:
        return None
    where = f"{place}: validation"
    _check(where, content, {"index", "params"}, ("index",))
    params = content.get("params", {})
    if not isinstance(content["index"], str) or not isinstance(params, dict):
        raise BadInput(f'{where} must be {{"index": "NAME", "params": {{…}}}}')
    return {"index": content["index"], "params": params}


def _check(where: str, content: Any, known: Collection[str], needed: Collection[str]) -> None:
    if not isinstance(content, dict):
        raise BadInput(f"{where} must be a JSON object")
    unknown = sorted(set(content) - set(known))
    if unknown:
        raise BadInput(f"{where}: unknown key '{unknown[0]}'; known: {', '.join(sorted(known))}")
    for key in needed:
        if key not in content:
            raise BadInput(f"{where}: {key} is missing")
