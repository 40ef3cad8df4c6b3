"""The fields of an index, by its mapping, and those that the templates of a feature set name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import Engine, EngineLike
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.query_analysis import NamedField, named_fields

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json

_OF_EVERY_INDEX = frozenset(
    (
        *("_id", "_index", "_source", "_type", "_routing", "_ignored", "_seq_no", "_doc_count"),
        *("_field_names", "_primary_term", "_version", "_size", "_tier", "_nested_path", "_uid"),
        *("_ignored_source", "_data_stream_timestamp", "_tsid"),
    )
)
_ANY_KEY = frozenset(("flattened", "flat_object", "rank_features", "sparse_vector", "join"))
"""Fields with keys of their own, which documents bring along."""
_FIELDS_TOLD = 8


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
    mappings = [content.get("mappings") for content in answer.values() if isinstance(content, dict)]
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


def _properties(properties: Json, above: str) -> Iterator[tuple[str, str]]:
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


def _computed(fields: Json) -> Iterator[tuple[str, str]]:
    """Fields that scripts compute in a search; composite ones have fields of their own."""
    for name, field in _objects(fields):
        yield name, "flattened" if field.get("type") == "object" else "computed"
        for inner, _ in _objects(field.get("fields")):
            yield f"{name}.{inner}", "computed"


def _objects(tree: Json) -> Iterator[tuple[str, dict[str, Any]]]:
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
            messages.append("fix the template, or push it all the same with `allow_unmapped`")
        raise BadInput("; ".join(messages))


def _fault(feature: str, field: NamedField, known: IndexFields, index: str) -> str:
    closest = known.closest(field)
    what = "nested object" if field.use == "path" else "field"
    if "*" in field.name:
        fault = f"feature '{feature}': no field of '{index}' is called '{field.name}'"
    else:
        fault = f"feature '{feature}': '{field.name}' is not a {what} of '{index}'"
        if field.name in known.objects:
            fault += " but an object"
            closest = next(
                iter(sorted(f for f in known.fields if f.startswith(f"{field.name}."))), closest
            )
    return fault if closest is None else f"{fault}; did you mean '{closest}'?"
