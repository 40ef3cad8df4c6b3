"""Indices by name: flattened mappings, aliases after an index swap, and empty names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import owpc_ltr
from owpc_ltr.engine.index_fields import flattened
from owpc_ltr.errors import UsageError
from owpc_ltr.features.query_analysis import NamedField, Use
from tests.commands import Run

TEXT = {"type": "text"}
MAPPING: dict[str, Any] = {
    "dynamic": True,
    "properties": {
        "title": {**TEXT, "fields": {"english": TEXT, "raw": {"type": "keyword"}}},
        "name": {"type": "alias", "path": "title"},
        "votes": {"type": "integer"},
        "studio": {"properties": {"city": {"type": "keyword", "fields": {"text": TEXT}}}},
        "cast": {"type": "nested", "properties": {"actor": TEXT}},
        "typed": {"type": "search_as_you_type", "max_shingle_size": 4},
        "labels": {"type": "flat_object"},
        "topics": {"type": "rank_features"},
        "family": {"type": "join", "relations": {"film": "scene"}},
        "attributes": {"type": "passthrough", "properties": {"host": {"type": "keyword"}}},
    },
    "runtime": {"age": {"type": "long"}, "geo": {"type": "composite", "fields": {"lat": "long"}}},
    "derived": {"decade": {"type": "long"}},
}
FIELDS = flattened([MAPPING])


def has(name: str, use: Use = "field") -> bool:
    return FIELDS.has(NamedField(name, use))


@pytest.mark.parametrize(
    "name",
    [
        *("title", "title.english", "title.raw", "name", "votes", "studio.city"),
        *("studio.city.text", "cast.actor", "typed", "typed._2gram", "typed._4gram"),
        *("typed._index_prefix", "labels", "labels.any.key", "topics.sports", "family#film"),
        *("attributes.host", "host", "age", "geo.lat", "decade", "_id", "_index", "_routing"),
        *("*", "title*", "t*e", "*.raw", "studio.*", "cast.*"),
    ],
)
def test_a_name_that_queries_may_use_is_one(name: str) -> None:
    assert has(name)


@pytest.mark.parametrize(
    "name",
    [
        *("titel", "Title", "title.german", "vots", "studio", "cast", "city", "actor"),
        *("typed._5gram", "votes.any.key", "title#x", "_nosuch", "tilte*", "*.german", "nosuch.*"),
        *("title.", ".title", "titlee", "cast.actor.raw"),
    ],
)
def test_a_name_that_is_not_there_is_none(name: str) -> None:
    assert not has(name)


def test_objects_are_there_but_hold_no_values_and_only_nested_ones_are_paths() -> None:
    assert has("studio", "exists")
    assert has("cast", "exists")
    assert has("cast", "path")
    assert not has("studio", "path")
    assert not has("title", "path")


@pytest.mark.parametrize(
    ("name", "closest"),
    [("titel", "title"), ("vots", "votes"), ("city", "studio.city"), ("title.enlish",
     "title.english"), ("tilte*", "title"), ("zzzzzz", None)],
)  # fmt: skip
def test_the_closest_name_is_offered(name: str, closest: str | None) -> None:
    assert FIELDS.closest(NamedField(name)) == closest


def test_behind_an_alias_a_field_of_either_index_is_one() -> None:
    both = flattened([{"properties": {"title": TEXT}}, {"properties": {"name": TEXT}}])
    assert all(both.has(NamedField(name)) for name in ("title", "name"))
    assert not both.has(NamedField("titel"))


def test_an_index_without_a_mapping_has_no_fields() -> None:
    assert not flattened([{}]).has(NamedField("title"))
    assert not flattened([{}]).has(NamedField("*"))
    assert flattened([{}]).has(NamedField("_id"))


COMMANDS = [
    ["index", "DOCS", "--index", ""],
    ["index", "DOCS", "--index", "docs", "--id-field", ""],
    ["log-features", "--judgments", "DOCS", "--index", "", "--out", "OUT"],
    ["log-features", "--judgments", "DOCS", "--featureset", "", "--out", "OUT"],
    ["featureset", "push", "DOCS", "--name", ""],
    ["featureset", "push", "DOCS", "--index", ""],
    ["featureset", "show", "--store", ""],
    ["featureset", "show", "--store-kind", ""],
    ["featureset", "show", ""],
    ["featureset", "delete", ""],
    ["upload", "DOCS", "--name", ""],
    ["upload", "DOCS", "--index", ""],
    ["upload", "DOCS", "--featureset", ""],
    ["upload", "DOCS", "--store", ""],
    ["verify", ""],
    ["verify", "m", "--index", ""],
    ["models", "show", "--store", ""],
    ["models", "show", ""],
    ["models", "promote", ""],
    ["models", "rollback", ""],
    ["models", "delete", ""],
    ["search", "words", "--model", ""],
    ["search", "words", "--index", ""],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_empty_name_is_an_error_of_use(command: list[str], tmp_path: Path, run: Run) -> None:
    documents = tmp_path / "docs.jsonl"
    documents.write_text("{}\n")
    places = {"DOCS": str(documents), "OUT": str(tmp_path / "out.parquet")}
    # Nobody listens there: what is asked first would end with 4.
    words = (places.get(word, word) for word in command)
    assert "is empty" in run.refusal(2, *words, "--url=http://127.0.0.1:1")


def test_so_it_is_from_python() -> None:
    with pytest.raises(UsageError, match="a store needs a name"):
        owpc_ltr.connect("http://127.0.0.1:1", store="")
    cluster = owpc_ltr.connect("http://127.0.0.1:1")
    with pytest.raises(UsageError, match="`index` is empty"):
        cluster.index("docs.jsonl", index="")
