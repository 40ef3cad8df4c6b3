"""FeatureSet: named features, each a query template, as the LTR plugin stores them.

`load_featureset` reads a file and refuses what engines would accept in silence (`lint`).

Its parameters are given by Python calls and by commands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.mustache import (
    check_depth,
    compiled,
    is_structure,
    json_variables,
    query_of,
    refuse_search_parts,
    strings,
    text_variables,
    variables,
)
from owpc_ltr.files.input import read_regular, read_text
from owpc_ltr.files.strict_json import (
    LARGEST_FILE,
    Json,
    each_once,
    kind_of,
    not_finite,
    read_json_value,
)
from owpc_ltr.signatures import Help
from owpc_ltr.text import ShortRepr, printable, shortened

MUSTACHE = "mustache"
DERIVED = "derived_expression"
SCRIPT = "script_feature"
LANGUAGES = (MUSTACHE, DERIVED, SCRIPT)
RESERVED_NAMES = frozenset(
    (
        *("query_id", "document_id", "label", "document_weight", "query_weight"),
        *("query_params", "comment"),
    )
)
"""Names of a dataset's own columns, which no feature can have."""
DOC_IDS = "doc_ids"
"""A template's parameter for the ids of the documents that are scored, inserted as JSON.

Logging gives it, and so does the client that scores a window; nobody else knows these ids.
"""
MOST_FEATURES = 1000
"""Fewer than the 1024 clauses that an engine takes in one search."""


@dataclass(frozen=True, repr=False)
class Feature(ShortRepr):
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


@dataclass(frozen=True, repr=False)
class FeatureSet:
    """Features in order: the order is the models' column order."""

    name: str
    features: tuple[Feature, ...]
    validation: dict[str, Any] | None = field(default=None, compare=False)
    """`{"index": …, "params": {…}}`: where and with what the engine tries the templates."""

    def __repr__(self) -> str:
        names, more = self.feature_names[:10], len(self.features) - 10
        return shortened(
            f"FeatureSet {printable(self.name)!r}: {len(self.features)} features, "
            f"hash {self.hash[:12]}\n"
            f"  features: {', '.join(map(printable, names))}"
            f"{f' and {more} more' if more > 0 else ''}\n"
            f"  params: {', '.join(map(printable, self.params)) or 'none'}"
        )

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of a dataset logged with this set."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def params(self) -> tuple[str, ...]:
        """Every variable that a template needs of a query, sorted: all but the documents' ids."""
        named = {name for feature in self.features for name in feature.params}
        return tuple(sorted(named - {DOC_IDS}))

    @cached_property
    def why_by_client(self) -> str:
        """Why only the client can score a model of this set; empty where an engine can, too."""
        for feature in self.features:
            if DOC_IDS in feature.params:
                return (
                    f"feature '{feature.name}' needs the ids of the documents that it scores "
                    f"({DOC_IDS}), which a second search gives to the engine"
                )
        return ""

    @cached_property
    def derived_from(self) -> dict[str, list[str]]:
        """The features of the set that each derived one is computed from, sorted."""
        from owpc_ltr.features.expressions import expression_variables

        names = set(self.feature_names)
        return {
            feature.name: sorted(expression_variables(str(feature.template)) & names)
            for feature in self.features
            if feature.template_language == DERIVED
        }

    @cached_property
    def text_params(self) -> dict[str, str]:
        """The variables that a template inserts as text, each with the first feature that does."""
        return self._first_uses(text_variables)

    @cached_property
    def json_params(self) -> dict[str, str]:
        """The variables that a template inserts as JSON, each with the first feature that does."""
        return self._first_uses(json_variables, str)

    @cached_property
    def hash(self) -> str:
        """Hex SHA-256 of the features in canonical JSON: what a model was trained on."""
        content = [
            [f.name, sorted(f.params), f.template_language, f.template] for f in self.features
        ]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _first_uses(
        self, variables_of: Callable[[str], set[str]], kind: type = object
    ) -> dict[str, str]:
        """Variables of mustache templates of this kind, each with the first feature that has it."""
        uses: dict[str, str] = {}
        for feature in self.features:
            if feature.template_language == MUSTACHE and isinstance(feature.template, kind):
                for text in strings(feature.template):
                    for name in sorted(variables_of(text)):
                        uses.setdefault(name, feature.name)
        return uses

    def to_body(self) -> dict[str, Any]:
        """The set as a request stores it, and as `load_featureset` reads it."""
        features = [feature.to_body() for feature in self.features]
        body: dict[str, Any] = {"featureset": {"name": self.name, "features": features}}
        return body if self.validation is None else {**body, "validation": self.validation}


def parse_featureset(
    content: Json, place: str, *, name: str | None = None, default_name: str | None = None
) -> FeatureSet:
    """A feature set from decoded JSON, with or without the `featureset` around it.

    Only its shape is checked: a set that lies in a store is as it is. Raises BadInput.
    """
    body = _check(place, content, {"featureset", "validation", "name", "features"}, ())
    validation = None
    if "featureset" in body:
        _check(place, body, {"featureset", "validation"}, ("featureset",))
        validation = _validation(place, body.get("validation"))
        body = body["featureset"]
    body = _check(f"{place}: featureset", body, {"name", "features"}, ("features",))
    name = name or body.get("name") or default_name
    if not isinstance(name, str):
        raise BadInput(f'{place}: the feature set has no name: give it "name": "…"')
    features = body["features"]
    if not isinstance(features, list):
        raise BadInput(f"{place}: features must be a list of features")
    return FeatureSet(
        name, tuple(_feature(place, i, part) for i, part in enumerate(features)), validation
    )


def read_featureset(source: Json, place: str) -> FeatureSet:
    """The feature set of a stored document."""
    return parse_featureset(stored_part(source, "featureset", place), place)


def stored_part(source: Json, key: str, place: str) -> Any:
    """An object within a document of a store. Raises BadInput where it is not there."""
    part = source.get(key) if isinstance(source, dict) else None
    if not isinstance(part, dict):
        raise BadInput(f"{place} is damaged: it has no '{key}'")
    return part


def _feature(place: str, position: int, content: Json) -> Feature:
    where = f"{place}: feature {position + 1}"
    if isinstance(content, dict) and isinstance(content.get("name"), str):
        where = f"{place}: feature '{content['name']}'"
    # A description is for readers of the file; the engine does not store it.
    keys = {"name", "params", "template", "template_language", "description"}
    content = _check(where, content, keys, ("name", "template"))
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


def _validation(place: str, content: Json) -> dict[str, Any] | None:
    if content is None:
        return None
    where = f"{place}: validation"
    content = _check(where, content, {"index", "params"}, ("index",))
    params = content.get("params", {})
    if not isinstance(content["index"], str) or not isinstance(params, dict):
        raise BadInput(f'{where} must be {{"index": "NAME", "params": {{…}}}}')
    return {"index": content["index"], "params": params}


def _check(
    where: str, content: Json, known: Collection[str], required: Collection[str]
) -> dict[str, Any]:
    """The object, which has known keys alone, and all that are required."""
    if not isinstance(content, dict):
        raise BadInput(f"{where} must be a JSON object")
    unknown = sorted(set(content) - set(known))
    if {"format", "feature_names"} <= content.keys():
        raise BadInput(f"{where} is a model, and no feature set: name the file that was pushed")
    if unknown:
        raise BadInput(f"{where}: unknown key '{unknown[0]}'; known: {', '.join(sorted(known))}")
    for key in required:
        if key not in content:
            raise BadInput(f"{where}: {key} is missing")
    return content


def load_featureset(source: Path | str, name: str | None = None) -> FeatureSet:
    """A feature set from a file, or from JSON text; `name` overrides the one that it has.

    A text is JSON where it begins with a bracket or is blank, else the file's path. The content
    is what the LTR plugin's `_featureset` takes; a set without a name gets its file's. Everything
    is checked that the engine would accept in silence, or only refuse later. Raises BadInput
    naming the file, the feature and what is wrong.
    """
    if isinstance(source, str) and source.strip() and not source.lstrip().startswith(("{", "[")):
        source = Path(source)
    place, text = "the feature set", source
    if isinstance(source, Path):
        place = str(source)
        raw = read_regular(source, LARGEST_FILE, "cannot read the feature set", "a feature set")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadInput(f"{source} is not UTF-8 text: not a feature set") from error
    try:
        content = json.loads(str(text), object_pairs_hook=each_once)
    except RecursionError as error:
        raise BadInput(f"{place} is not a feature set: it is nested too deep") from error
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{place}, line {error.lineno}: not JSON ({error.msg}); fix it there"
        ) from error
    except ValueError as error:
        raise BadInput(f"{place}: {error}") from error
    default_name = source.stem if isinstance(source, Path) else None
    featureset = parse_featureset(content, place, name=name, default_name=default_name)
    lint(featureset, place)
    return featureset


def lint(featureset: FeatureSet, place: str) -> None:
    """Raise BadInput for the first fault, naming the feature and what to do."""
    if not featureset.features:
        raise BadInput(f"{place}: the feature set is empty: add features to it")
    if len(featureset.features) > MOST_FEATURES:
        raise BadInput(
            f"{place}: {len(featureset.features)} features are more than an engine computes in "
            f"one search: {MOST_FEATURES} at most"
        )
    seen: set[str] = set()
    for feature in featureset.features:
        where = f"{place}: feature '{feature.name}'"
        if feature.name in seen:
            raise BadInput(f"{where} occurs twice: give one of them another name")
        seen.add(feature.name)
        _lint_name(feature.name, where)
        if feature.template_language not in LANGUAGES:
            raise BadInput(
                f"{where}: its template_language is '{feature.template_language}', which no engine "
                f"knows: {', '.join(LANGUAGES)}"
            )
        if feature.template_language == MUSTACHE:
            _lint_template(feature, where)
        elif feature.template_language == DERIVED:
            _lint_expression(feature, seen - {feature.name}, featureset, where)
    _lint_validation(featureset, place)


def _lint_name(name: str, where: str) -> None:
    if not name or name != name.strip() or not name.isprintable() or len(name) > 200:
        raise BadInput(f"{where}: a name is 1 to 200 printable characters without outer spaces")
    if "," in name:
        raise BadInput(f"{where}: a comma in a name breaks lists of features: use '_'")
    if name in RESERVED_NAMES:
        raise BadInput(f"{where}: a dataset has a column of that name itself: use another one")


def _lint_template(feature: Feature, where: str) -> None:
    check_depth(feature.template, where)
    used: set[str] = set()
    in_text = isinstance(feature.template, str)
    if feature.template in ("", {}):
        raise BadInput(f"{where}: its template is empty: write a query")
    for text in strings(feature.template):
        try:
            compiled(text, str)
            used |= variables(text)
        except BadInput as error:
            hint = "" if in_text else " (a section must open and close within one string)"
            raise BadInput(f"{where}: {error}{hint if 'section' in str(error) else ''}") from error
        if json_variables(text) and not in_text:
            raise BadInput(
                f"{where}: toJson inside a string gives no JSON: write the whole template as text"
            )
    refuse_search_parts(query_of(feature.template), where)
    undeclared = sorted(used - set(feature.params))
    if undeclared:
        raise BadInput(
            f"{where}: its template uses '{undeclared[0]}', which its params do not declare, so "
            f'that it would be empty: add "{undeclared[0]}" to params'
        )


def _lint_expression(
    feature: Feature, before: set[str], featureset: FeatureSet, where: str
) -> None:
    from owpc_ltr.features.expressions import check_expression, expression_variables

    if not isinstance(feature.template, str) or not feature.template.strip():
        raise BadInput(f'{where}: a derived_expression is text, such as "ln(1 + votes)"')
    try:
        check_expression(feature.template)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
    for name in sorted(expression_variables(feature.template) - set(feature.params) - before):
        if name in featureset.feature_names:
            raise BadInput(f"{where} uses '{name}', which comes after it: move it before")
        raise BadInput(f"{where} uses '{name}', which is neither a feature nor one of its params")


def _lint_validation(featureset: FeatureSet, place: str) -> None:
    if featureset.validation is None:
        return
    lacking = sorted(set(featureset.params) - set(featureset.validation["params"]))
    if lacking:
        raise BadInput(
            f"{place}: validation has no value for '{lacking[0]}', which a template needs: add it "
            "to validation.params"
        )
    try:
        refuse_structures(featureset, featureset.validation["params"])
    except BadInput as error:
        raise BadInput(f"{place}: validation: {error}") from error


def refuse_by_client(featureset: FeatureSet) -> None:
    """Raise Refused where only the client can score a model of this set."""
    if featureset.why_by_client:
        raise Refused(
            f"{featureset.why_by_client}, so that the client has to score the model: push the "
            "feature set and upload, both with `store_kind='plugin-free'`"
        )


def refuse_unfit(featureset: FeatureSet, params: Mapping[str, Any]) -> None:
    """Raise BadInput for a parameter that a feature cannot insert, naming both.

    The plugin inserts a toJson parameter that is text as it is, quotes and all: text could then
    become a query, so that only lists and objects may be given.
    """
    for name, feature in featureset.json_params.items():
        if name in params and not is_structure(params[name]):
            raise BadInput(
                f"feature '{feature}' inserts '{name}' as JSON: it must be a list or an object, "
                f"not {params[name]!r}"
            )
    refuse_structures(featureset, params)


def refuse_structures(featureset: FeatureSet, params: Mapping[str, Any]) -> None:
    """Raise BadInput for a list or an object that a feature would insert as text.

    An engine would take a list for the text `{0=a, 1=b}`, and say nothing.
    """
    for name, feature in featureset.text_params.items():
        if is_structure(params.get(name)):
            raise BadInput(f"feature '{feature}' {what_it_inserts(name, params[name])}")


def what_it_inserts(name: str, value: Json) -> str:
    """What is wrong with inserting a list or an object as text, and what to write."""
    return (
        f"inserts '{name}' as text, and it is {kind_of(value)}: give a text or a number, or write "
        f"{{{{#toJson}}}}{name}{{{{/toJson}}}} where a list belongs"
    )


_LARGEST = 10_000_000


def named_params(texts: Iterable[str]) -> dict[str, Any]:
    """Parameters by name from texts as `year=1979`, `keywords=alien` or `tags=["a", "b"]`.

    What is a number, a list, an object, true or false in JSON is that, all else the text itself;
    `vector=@FILE` is what the file holds as JSON. In quotes, anything is a text. Raises UsageError
    for what has no name or is named twice, BadInput for a file that is no JSON.

    >>> named_params(["year=1979", "words=the thing", 'tags=["a", "b"]', 'quoted="1979"'])
    {'year': 1979, 'words': 'the thing', 'tags': ['a', 'b'], 'quoted': '1979'}
    """
    params: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise UsageError(
                f"cannot read the parameter '{text[:60]}': write it as NAME=VALUE, as year=1979"
            )
        if name in params:
            raise UsageError(
                f"the parameter '{name}' is given twice in `params`: give it one value"
            )
        params[name] = _file_value(value[1:], name) if value.startswith("@") else _value(value)
    return params


Params = Annotated[
    "Mapping[str, Any] | None",
    Help(
        'Parameters of the features: `params={"year": 1979, "genre": "war"}`.',
        flag="--param",
        metavar="NAME=JSON|TEXT|@FILE",
        cli=list[str],
        parse=named_params,
    ),
]


def plain_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Parameters as JSON holds them: arrays as lists, and no number that is not finite.

    >>> import numpy as np
    >>> plain_params({"vector": np.array([0.5, 1]), "year": np.int64(1979)})
    {'vector': [0.5, 1.0], 'year': 1979}
    """
    plain = {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in (params or {}).items()
    }
    for name, value in plain.items():
        number = not_finite(value)
        if number is not None:
            raise BadInput(
                f"the parameter '{name}' holds {number}, which is not a finite number: fix it"
            )
    return plain


def _value(text: str) -> Any:
    try:
        decoded = read_json_value(text)
    except ValueError:
        return text
    return text if decoded is None else decoded


def _file_value(file: str, name: str) -> Any:
    try:
        value = read_json_value(read_text(Path(file), largest=_LARGEST))
    except ValueError as error:
        raise BadInput(
            f"cannot read {file}, which `params` names for '{name}': it is not JSON ({error})"
        ) from error
    except BadInput as error:
        raise BadInput(
            f"{error}; where @ begins the text itself, write '{name}=\"@{file[:40]}\"'"
        ) from error
    if value is None:
        raise BadInput(
            f"{file}, which `params` names for '{name}', holds null, which is not a value"
        )
    return value
