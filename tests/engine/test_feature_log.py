"""Feature logging: what is logged, with which parameters, and what the manifest says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from tests.engine.log_runs import (
    QUICK,
    Spoiler,
    assert_nothing_published,
    assert_only,
    clean_digest,
    digest,
    lenient,
    log,
    without,
)
from tests.engine.memory_engine import (
    NAMES,
    MemoryEngine,
    small_featureset,
    small_judgments,
    value_of,
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder / "movies.parquet"


@pytest.fixture
def clean(tmp_path: Path) -> str:
    return clean_digest(tmp_path)


def test_the_dataset_holds_what_the_engine_says_and_nan_where_it_says_nothing(out: Path) -> None:
    judgments = small_judgments()
    report = log(MemoryEngine(), out)
    data = load_dataset(out)
    assert data.feature_names == NAMES
    assert data.featureset_hash == small_featureset().hash
    assert data.query_ids.to_pylist() == [query.query_id for query in judgments.queries]
    assert data.document_ids is not None
    assert data.query_params is not None
    row = 0
    for number, query in enumerate(judgments.queries):
        assert json.loads(data.query_params[number].as_py()) == query.params
        np.testing.assert_array_equal(data[number].labels, query.grades)
        for document in query.document_ids:
            assert data.document_ids[row].as_py() == document
            values = [value_of(name, query.params["query"], document) for name in NAMES]
            expected = np.array([np.nan if v is None else v for v in values], np.float32)
            np.testing.assert_array_equal(data.features[row], expected)
            row += 1
    assert row == data.n_documents == report.counts.logged
    assert np.isnan(data.features).any()
    assert (data.features == 0).any()


def test_features_without_values_or_with_one_value_are_warned_of_by_name(out: Path) -> None:
    def silent(_number: int, _path: str, _body: Any, answer: Any) -> Any:
        for hit in answer.get("hits", {}).get("hits", []):
            values = hit.setdefault("matched_queries", {})
            values.pop("title", None)
            values["year"] = 0.0
        return answer

    report = log(MemoryEngine(fault=silent), out)
    assert report.warnings == (
        "no document has a value for title: check the templates and fields",
        "every document has the same value for year (0): check the templates and fields",
    )
    assert "warnings" not in report.manifest
    out.unlink()
    assert log(MemoryEngine(), out).warnings == ()


def test_the_manifest_accounts_for_everything_and_names_what_the_values_depend_on(
    out: Path,
) -> None:
    report = log(without("d7"), out, options=lenient())
    manifest = load_dataset(out).manifest
    assert manifest == report.manifest
    assert manifest is not None
    absent = sum("d7" in query.document_ids for query in small_judgments().queries)
    assert absent
    assert manifest["judged"] == 30
    assert manifest["absent"] == absent
    assert manifest["logged"] == 30 - absent
    assert manifest["rejected"] == {}
    assert manifest["queries"] == {"judged": 6, "logged": 6}
    assert manifest["featureset"] == {"name": "movies", "hash": small_featureset().hash}
    assert manifest["engine"] == {
        "version": "3.8.0",
        "distribution": "opensearch",
        "store": "plugin-free",
    }
    assert manifest["index"]["name"] == "movies"
    assert manifest["index"]["indices"]["movies"]["uuid"] == "uuid-1"
    assert len(manifest["judgments"]["fingerprint"]) == 64
    missing = np.isnan(load_dataset(out).features).sum(axis=0)
    assert manifest["missing"] == dict(zip(NAMES, missing.tolist(), strict=True))


@pytest.mark.parametrize(
    "changes", [{"in_flight": 1}, {"in_flight": 8}, {"batch": 1}, {"batch": 2}, {"chunk": 1}]
)
def test_no_setting_changes_the_bytes(out: Path, clean: str, changes: dict[str, Any]) -> None:
    log(MemoryEngine(), out, options=replace(QUICK, **changes))
    assert digest(out) == clean
    assert_only(out)


def test_batches_hold_at_most_so_many_documents(out: Path) -> None:
    engine = MemoryEngine()
    log(engine, out, options=replace(QUICK, batch=2))
    assert engine.largest == 2


def test_a_query_without_a_single_document_is_counted_and_left_out(out: Path) -> None:
    judgments = small_judgments()
    lost = set(judgments.queries[2].document_ids)
    engine = MemoryEngine()
    engine.documents -= lost
    report = log(engine, out, options=lenient())
    data = load_dataset(out)
    assert "q2" not in data.query_ids.to_pylist()
    assert report.manifest["queries"]["logged"] == data.n_queries < 6
    assert report.counts.absent == 30 - data.n_documents


def test_an_index_without_a_single_judged_document_gives_no_dataset(out: Path) -> None:
    with pytest.raises(Refused, match="none of the 30 judged documents could be logged"):
        log(MemoryEngine(documents=set()), out, options=lenient())
    assert_nothing_published(out)


def test_variables_that_the_judgments_lack_are_all_named(out: Path) -> None:
    features = tuple(Feature(n, ("query", n), {"match": {n: "{{query}}"}}) for n in ("age", "city"))
    with pytest.raises(UsageError, match="needs 'age', 'city', which the judgments do not have"):
        log(MemoryEngine(featureset=FeatureSet("movies", features)), out)
    assert_nothing_published(out, kept=False)


def test_a_query_without_a_variable_that_others_have_is_named(out: Path) -> None:
    judgments = small_judgments()
    del judgments.queries[3].params["query"]
    with pytest.raises(BadInput, match="query 'q3' has no 'query'"):
        log(MemoryEngine(), out, judgments=judgments)


def test_parameters_are_text_except_for_what_computes_with_them(out: Path) -> None:
    expression = Feature("age", ("year",), "year * 2", "derived_expression")
    featureset = FeatureSet("movies", (*small_featureset().features, expression))
    log(MemoryEngine(featureset=featureset), out)
    params = load_dataset(out).query_params
    assert params is not None
    assert json.loads(params[1].as_py()) == {"query": "words of 1", "year": 2001}


def test_text_that_an_expression_needs_as_a_number_is_bad_input(out: Path) -> None:
    expression = Feature("age", ("query",), "query * 2", "derived_expression")
    with pytest.raises(BadInput, match="query 'q0' has query='words of 0'"):
        log(MemoryEngine(featureset=FeatureSet("movies", (expression,))), out)


def double_judged(judgments: Judgments) -> None:
    judgments.queries[1].document_ids[1] = judgments.queries[1].document_ids[0]


def repeated_query(judgments: Judgments) -> None:
    judgments.queries.append(judgments.queries[0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (double_judged, "query 'q1' judges a document twice"),
        (repeated_query, "query 'q0' stands twice"),
        (lambda judgments: judgments.queries.clear(), "hold no query"),
    ],
)
def test_judgments_that_cannot_become_a_dataset_are_refused_before_any_search(
    out: Path, spoil: Callable[[Judgments], None], message: str
) -> None:
    judgments = small_judgments()
    spoil(judgments)
    engine = MemoryEngine()
    with pytest.raises(BadInput, match=message):
        log(engine, out, judgments=judgments)
    assert engine.calls == 0
    assert_nothing_published(out, kept=False)


@pytest.mark.parametrize(
    "changes", [{"in_flight": 0}, {"batch": 501}, {"max_absent": 1.5}, {"attempts": 0}]
)
def test_options_that_cannot_be_are_usage_errors(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be from"):
        LogOptions(**changes)


def test_no_more_searches_are_under_way_than_allowed(out: Path) -> None:
    under_way, most, lock = [0], [0], threading.Lock()
    full = threading.Event()

    def fault(_number: int, path: str, body: Any, answer: Any) -> Any:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
            if under_way[0] == 3:
                full.set()
        # What the index holds is asked before, one search after the other.
        if path.endswith("_search") and body.get("size", 0) > 1:
            full.wait(60)
            time.sleep(0.005)
        with lock:
            under_way[0] -= 1
        return answer

    log(MemoryEngine(fault=fault), out, options=replace(QUICK, in_flight=3, chunk=100))
    assert most[0] == 3


def test_an_engine_that_stays_away_says_how_to_go_on(out: Path, clean: str) -> None:
    def away(_answer: Any) -> Any:
        raise EngineUnavailable("the engine does not answer")

    with pytest.raises(EngineUnavailable, match="2 of 3 chunks are kept, and the same command"):
        log(MemoryEngine(fault=Spoiler(away, start=6)), out, options=replace(QUICK, in_flight=1))
    log(MemoryEngine(), out)
    assert digest(out) == clean


def test_progress_tells_of_every_document(out: Path) -> None:
    told: list[int] = []
    log(MemoryEngine(), out, progress=told.append)
    assert told == [10, 10, 10]
