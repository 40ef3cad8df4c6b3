"""The trial of a feature set before it is stored: its fields, its parameters, what a failure means.

An engine takes a query on a field that is not there, and answers that nothing matches. A parameter
that nothing is known of is tried as text, which a number or a list cannot be.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import Engine, EngineLike
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import DERIVED, DOC_IDS, FeatureSet
from owpc_ltr.features.query_analysis import NamedField, named_fields
from owpc_ltr.formats.engine_versions import serving_profile

_NO_JSON = re.compile(
    r"does not give JSON|as JSON: it must|unrecognized token|unexpected char", re.I
)
_OF_FEATURE = re.compile(r"feature '([^']+)'|feature \[([^\]]+)\]")
_OF_EVERY_INDEX = frozenset(
    (
        *("_id", "_index", "_source", "_type", "_routing", "_ignored", "_seq_no", "_doc_count"),
        *("_field_names", "_primary_term", "_version", "_size", "_tier", "_nested_path", "_uid"),
        *("_ignored_source", "_data_stream_timestamp", "_tsid"),
    )
)
_ANY_KEY = frozenset(("flattened", "flat_object", "rank_features", "sparse_vector", "join"))
"""Fields with keys of their own, which documents bring along."""
_FEATURES_TOLD = 5
_FIELDS_TOLD = 8
_TEXTS = frozenset(("keywords", "query", "text", "q"))
"""Names of parameters that are text in every feature set."""


@dataclass(frozen=True)
class TrialParams:
    """The parameters of a trial, and the names of those that are only guessed to be this text."""

    values: dict[str, Any]
    guessed: frozenset[str]
    text: str


def trial_params(featureset: FeatureSet, text: str, given: Mapping[str, Any]) -> TrialParams:
    """What is given, else what the set's own validation has, else `text`.

    Raises UsageError for a parameter that no template names.
    """
    for name in given:
        if name not in featureset.params:
            names = ", ".join(featureset.params) or "none"
            raise UsageError(
                f"'{name}' is no parameter of the feature set '{featureset.name}': it has {names}"
            )
    defaults = (featureset.validation or {}).get("params", {})
    guessed = frozenset(featureset.params) - defaults.keys() - given.keys()
    values = {**dict.fromkeys(featureset.params, text), **defaults, **given}
    if featureset.why_by_client:
        values[DOC_IDS] = []
    return TrialParams(values, guessed, text)


def put_tried(store: Store, featureset: FeatureSet, tried: TrialParams, *, replace: bool) -> None:
    """Keep the set; where its trial fails because of a guess, the refusal says how to do better."""
    store.prepare()
    try:
        store.put_featureset(featureset, replace=replace)
    except (Refused, BadInput) as error:
        names = _suspects(str(error), featureset, tried)
        if not names:
            raise
        quoted = ", ".join(f"'{name}'" for name in names)
        kind = BadInput if isinstance(error, BadInput) else Refused
        raise kind(
            f"{error}; {quoted} was tried as the text '{tried.text}': if it is a number or a list, "
            f"give a value to try with, --param {names[0]}=VALUE"
        ) from error


def derived_cautions(engine: Engine, store: Store, featureset: FeatureSet) -> list[str]:
    """What the derived features of a set mean for models, before anything is logged for one."""
    derived = [f"'{f.name}'" for f in featureset.features if f.template_language == DERIVED]
    if not derived:
        return []
    more = " …" if len(derived) > _FEATURES_TOLD else ""
    names = f"{', '.join(derived[:_FEATURES_TOLD])}{more} (derived)"
    if store.kind != "ltr-plugin":
        return [
            f"{names}: only the LTR plugin computes this inside a search, so that here the client "
            "must score a model that uses it: upload it with --client-scored, or leave it out"
        ]
    about = engine.about()
    if serving_profile(about.distribution, about.version).missing == "zero":
        return []
    return [
        f"{names}: where a feature that it is derived from does not match, it is logged as for 0, "
        "and trees in the engine take it for missing: train trees with --missing zero, and let it "
        "be 0 there; linear models are not affected"
    ]


def _suspects(message: str, featureset: FeatureSet, tried: TrialParams) -> list[str]:
    """The guessed parameters that can be what a message complains of: it shows their text."""
    shows_text = re.search(rf"""["'\[=]\s*{re.escape(tried.text)}\s*["'\]]""", message)
    if not tried.guessed or not (shows_text or _NO_JSON.search(message)):
        return []
    match = _OF_FEATURE.search(message)
    name = (match[1] or match[2]) if match else None
    features = [feature for feature in featureset.features if feature.name == name]
    named = {param for feature in features or featureset.features for param in feature.params}
    guessed = sorted(named & tried.guessed)
    return [param for param in guessed if param not in _TEXTS] or guessed


@dataclass(frozen=True)
class IndexFields:
    """The fields of an index, or of all that stand behind an alias."""

    fields: frozenset[str]
    objects: frozenset[str]
    """Paths of objects, nested ones among them."""
    nested: frozenset[str]
    open: frozenset[str]
    """Fields below which every name is one."""

    def has(self, named: NamedField) -> bool:
        """Whether there is such a field, or one that the pattern matches."""
        if named.use == "path":
            return named.name in self.nested
        names = self.fields | self.objects if named.use == "exists" else self.fields
        if "*" in named.name:
            pattern = re.compile(".*".join(map(re.escape, named.name.split("*"))))
            return any(map(pattern.fullmatch, names))
        return named.name in names or named.name in _OF_EVERY_INDEX or self._below(named.name)

    def closest(self, named: NamedField) -> str | None:
        """The name that is most like it, or that ends as it does."""
        names = sorted(self.nested if named.use == "path" else self.fields)
        name = named.name.replace("*", "")
        close = difflib.get_close_matches(name, names, n=1)
        ends = [field for field in names if field.endswith(f".{name}")]
        return next(iter((*close, *ends)), None)

    def _below(self, name: str) -> bool:
        parts = re.split(r"[.#]", name)
        lengths = [sum(map(len, parts[:n])) + n - 1 for n in range(1, len(parts))]
        return any(name[:length] in self.open for length in lengths)


def field_types(engine: EngineLike, index: str) -> dict[str, str]:
    """Each field and object that the mapping of an index has, with its type, parents first."""
    types: dict[str, str] = {}
    for mapping in _mappings(engine, index):
        for name, kind in _properties(mapping.get("properties"), ""):
            types.setdefault(name, kind)
    return types


def field_mapping(engine: Engine, index: str, field: str) -> dict[str, Any]:
    """What the mapping of an index says of a field; nothing where it has none of this name."""
    for mapping in _mappings(engine, index):
        field_content: dict[str, Any] = mapping
        for part in field.split("."):
            field_content = dict(_objects(field_content.get("properties"))).get(part, {})
        if field_content:
            return field_content
    return {}


def _mappings(engine: EngineLike, index: str) -> list[dict[str, Any]]:
    answer = engine.request("GET", f"/{quote(index, safe='')}/_mapping")
    if not isinstance(answer, dict):
        raise Refused(f"the mapping of '{index}' is not an object: is an engine at this address?")
    mappings = [found.get("mappings") for found in answer.values() if isinstance(found, dict)]
    return [mapping for mapping in mappings if isinstance(mapping, dict)]


def flattened(mappings: Iterable[Mapping[str, Any]]) -> IndexFields:
    """The fields of these mappings together: properties, multi-fields, runtime and derived ones."""
    named_kinds: list[tuple[str, str]] = []
    for mapping in mappings:
        named_kinds += _properties(mapping.get("properties"), "")
        for kind in ("runtime", "derived"):
            named_kinds += _computed(mapping.get(kind))
    kinds = ("object", "nested")
    return IndexFields(
        fields=frozenset(name for name, kind in named_kinds if kind not in kinds),
        objects=frozenset(name for name, kind in named_kinds if kind in kinds),
        nested=frozenset(name for name, kind in named_kinds if kind == "nested"),
        open=frozenset(name for name, kind in named_kinds if kind in _ANY_KEY),
    )


def _properties(properties: Any, above: str) -> Iterator[tuple[str, str]]:
    """Full name and type of each field and object."""
    for name, field in _objects(properties):
        kind = str(field.get("type", "object"))
        yield above + name, "object" if kind == "passthrough" else kind
        yield from _properties(field.get("properties"), f"{above}{name}.")
        if kind == "passthrough":
            # Its fields are found without its name too.
            yield from _properties(field.get("properties"), above)
        for inner, part in _objects(field.get("fields")):
            yield f"{above}{name}.{inner}", str(part.get("type"))
        if kind == "search_as_you_type":
            for size in range(2, int(field.get("max_shingle_size", 3)) + 1):
                yield f"{above}{name}._{size}gram", kind
            yield f"{above}{name}._index_prefix", kind


def _computed(fields: Any) -> Iterator[tuple[str, str]]:
    """Fields that scripts compute in a search; composite ones have fields of their own."""
    for name, field in _objects(fields):
        yield name, "flattened" if field.get("type") == "object" else "computed"
        for inner, _ in _objects(field.get("fields")):
            yield f"{name}.{inner}", "computed"


def _objects(tree: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, content in tree.items() if isinstance(tree, dict) else ():
        # A composite's fields may be written as a type alone.
        yield str(name), content if isinstance(content, dict) else {"type": content}


def refuse_unmapped(
    engine: Engine, featureset: FeatureSet, index: str, params: Mapping[str, Any]
) -> None:
    """Raise BadInput for a field that no template can mean on this index, with what it may mean.

    An engine takes a query on a field that is not there, and answers that nothing matches.
    """
    named = [
        (feature.name, field)
        for feature in featureset.features
        for field in named_fields(feature, params)
    ]
    if not named:
        return
    try:
        fields = flattened(_mappings(engine, index))
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise
        return  # the trial says it better
    faults = [_fault(name, field, fields, index) for name, field in named if not fields.has(field)]
    if faults:
        messages = faults[:_FIELDS_TOLD] + (
            [f"and {len(faults) - _FIELDS_TOLD} more"] if faults[_FIELDS_TOLD:] else []
        )
        if not all(fault.endswith("?") for fault in faults):
            messages.append("fix the template, or push it all the same with --allow-unmapped")
        raise BadInput("; ".join(messages))


def _fault(feature: str, field: NamedField, known: IndexFields, index: str) -> str:
    closest = known.closest(field)
    what = "nested object" if field.use == "path" else "field"
    if "*" in field.name:
        fault = f"feature '{feature}': no field of '{index}' is called '{field.name}'"
    else:
        fault = f"feature '{feature}': '{field.name}' is no {what} of '{index}'"
        if field.name in known.objects:
            fault += " but an object"
            closest = next(
                iter(sorted(f for f in known.fields if f.startswith(f"{field.name}."))), closest
            )
    return fault if closest is None else f"{fault}; did you mean '{closest}'?"
