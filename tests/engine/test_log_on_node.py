"""Feature logging on a real node: other ids, swapped columns, aliases, and refused searches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine, open_engine
from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.request_options import LogOptions
from owpc_ltr.engine.index import index_documents
from owpc_ltr.engine.staging_index import create_index, drop_index
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.mustache import variables

INDEX = "feature-log-test"
WORDS = ("apple", "pear", "plum", "fig", "quince", "medlar", "sloe")
DOCUMENTS = 60
OPTIONS = LogOptions(pause=0, chunk=20, in_flight=2)


def some(words: tuple[str, ...], number: int) -> str:
    return " ".join(word for place, word in enumerate(words) if (number * 7 + place) % 3)


def featureset() -> FeatureSet:
    def factor(field: str) -> dict[str, Any]:
        return {"function_score": {"field_value_factor": {"field": field}, "boost_mode": "replace"}}

    templates: dict[str, Any] = {
        "title": {"match": {"title": "{{query}}"}},
        "all": {"match": {"body": {"query": "{{query}}", "operator": "and"}}},
        "phrase": {"match_phrase": {"body": "{{query}}"}},
        "both": {"multi_match": {"query": "{{query}}", "fields": ["title^2", "body"]}},
        "recent": {"range": {"year": {"gte": "{{year}}"}}},
        "year": factor("year"),
        "zero": {"constant_score": {"filter": {"match_all": {}}, "boost": 0.0}},
    }
    return FeatureSet(
        "feature-log-test",
        tuple(
            Feature(name, tuple(sorted(variables(json.dumps(template)))), template)
            for name, template in templates.items()
        ),
    )


def judgments() -> Judgments:
    """Six queries of twelve documents; two of the seventy-two are not in the index."""
    return Judgments(
        [
            JudgedQuery(
                f"q{number}",
                {"query": some(WORDS[number : number + 3], number), "year": str(1990 + 5 * number)},
                [str((number * 11 + 5 * place) % (DOCUMENTS + 2)) for place in range(12)],
                np.array([place % 3 for place in range(12)], np.float32),
            )
            for number in range(6)
        ]
    )


@pytest.fixture(scope="module")
def engine(node_url: str) -> Iterator[Engine]:
    engine = open_engine(node_url)
    text = {"type": "text", "analyzer": "english"}
    properties = {"title": text, "body": text, "year": {"type": "integer"}}
    drop_index(engine, INDEX)
    create_index(
        engine, INDEX, {"settings": {"number_of_shards": 2}, "mappings": {"properties": properties}}
    )
    index_documents(
        engine,
        INDEX,
        (
            (
                str(number),
                {
                    "title": some(WORDS, number),
                    "body": f"{some(WORDS[::-1], number + 1)} {some(WORDS, number * 3)}",
                    "year": 1980 + number,
                },
            )
            for number in range(DOCUMENTS)
        ),
        lambda _message, _done: None,
    )
    store = PluginFreeStore(engine)
    store.prepare()
    store.put_featureset(featureset(), replace=True)
    yield engine
    engine.request("DELETE", f"/{INDEX}")
    store.delete_featureset(featureset().name)
    engine.close()


def log(engine: Engine, out: Path, options: LogOptions = OPTIONS, **changes: Any) -> LogReport:
    store = PluginFreeStore(engine)
    given: dict[str, Any] = {"judgments": judgments(), "index": INDEX, **changes}
    return run_log(
        engine,
        store,
        store.get_featureset("feature-log-test"),
        given["judgments"],
        given["index"],
        out,
        options=options,
        progress=given.get("progress", lambda _: None),
    )


def lenient(**changes: Any) -> LogOptions:
    return LogOptions(**{"pause": 0, "chunk": 20, "in_flight": 2, "max_absent": 0.5, **changes})


def test_swapped_columns_are_told_and_leave_nothing_behind(engine: Engine, tmp_path: Path) -> None:
    texts, grades = [f"red {word}" for word in WORDS], np.zeros(len(WORDS), np.float32)
    swapped = Judgments(
        [JudgedQuery(f"{n}", {"query": f"{n}", "year": "1990"}, texts, grades) for n in range(20)]
    )
    options = LogOptions(pause=0)
    with pytest.raises(Refused, match=r"are the columns right"):
        log(engine, tmp_path / "out.parquet", options, judgments=swapped)
    assert list(tmp_path.iterdir()) == []
    assert log(engine, tmp_path / "out.parquet", lenient()).counts.logged > 0


def test_an_alias_stands_for_its_index(engine: Engine, tmp_path: Path) -> None:
    alias = f"{INDEX}-alias"
    engine.request("PUT", f"/{INDEX}/_alias/{alias}")
    log(engine, tmp_path / "alias.parquet", lenient(), index=alias)
    manifest = load_dataset(tmp_path / "alias.parquet").manifest
    engine.request("DELETE", f"/{INDEX}/_alias/{alias}")
    assert manifest is not None
    assert manifest["index"]["name"] == alias
    assert list(manifest["index"]["indices"]) == [INDEX]


def test_an_index_that_is_not_there_is_one_line(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'feature-log-tost' .* did you mean 'feature-log-test'"):
        log(engine, tmp_path / "features.parquet", index="feature-log-tost")
    with pytest.raises(BadInput, match="there is no index 'feature-log-nowhere'"):
        log(engine, tmp_path / "out.parquet", index="feature-log-nowhere")
    assert list(tmp_path.iterdir()) == []


def test_ids_of_another_kind_are_shown_beside_those_of_the_index(
    engine: Engine, tmp_path: Path
) -> None:
    strangers = Judgments([
        replace(query, doc_ids=[f"SKU-{doc_id}" for doc_id in query.doc_ids])
        for query in judgments().queries
    ])  # fmt: skip
    with pytest.raises(Refused) as caught:
        log(engine, tmp_path / "out.parquet", LogOptions(pause=0), judgments=strangers)
    assert re.fullmatch(
        f"none of 72 judged documents is in '{INDEX}': judged 'SKU-0'; ids in the index look like "
        r"'\d+'; is it the right index and id field, and are the columns right \(columns=\)\?",
        str(caught.value),
    )
    empty = f"{INDEX}-empty"
    create_index(engine, empty, {})
    try:
        with pytest.raises(Refused, match=f"judged '0', and '{empty}' is empty; is it the right"):
            log(engine, tmp_path / "out.parquet", LogOptions(pause=0), index=empty)
    finally:
        drop_index(engine, empty)


def test_a_search_with_too_many_clauses_is_named(engine: Engine, tmp_path: Path) -> None:
    long = judgments()
    long.queries[0].params["query"] = " ".join(f"word{n}" for n in range(1100))
    with pytest.raises(Refused, match=r"document '0' of query 'q0' cannot be logged: .*too_many"):
        log(engine, tmp_path / "out.parquet", judgments=long)
