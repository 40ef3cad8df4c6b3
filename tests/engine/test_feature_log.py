"""The feature log: judged = logged + absent + rejected, parameters, manifest, fingerprint."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.feature_log.job import (
    DocumentStatus,
    LogCounts,
    Values,
    fingerprint,
    typed_params,
)
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from tests.engine.log_runs import (
    GRADE,
    QUICK,
    assert_nothing_published,
    assert_only,
    digest,
    judged,
    lenient,
    log,
    rows_of,
    without,
)
from tests.engine.memory_engine import (
    NAMES,
    MemoryEngine,
    find,
    is_log_search,
    small_featureset,
    small_judgments,
    value_of,
)


def test_the_dataset_holds_what_the_engine_says_and_nan_where_it_says_nothing(out: Path) -> None:
    judgments = small_judgments()
    report = log(MemoryEngine(), out)
    data = load_dataset(out)
    assert data.feature_names == NAMES
    assert data.featureset_hash == small_featureset().hash
    pairs = [(query, document) for query in judgments.queries for document in query.doc_ids]
    assert rows_of(data) == [(query.query_id, document) for query, document in pairs]
    assert data.query_params is not None
    params = [json.loads(text.as_py()) for text in data.query_params]
    assert params == [query.params for query in judgments.queries]
    grades = np.concatenate([query.grades for query in judgments.queries])
    np.testing.assert_array_equal(data.labels, grades)
    values = [[value_of(name, q.params["query"], d) for name in NAMES] for q, d in pairs]
    np.testing.assert_array_equal(data.features, np.array(values, np.float32))
    assert report.counts.logged == len(pairs)
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
    absent = sum("d7" in query.doc_ids for query in small_judgments().queries)
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
    engine = MemoryEngine()
    log(engine, out, options=replace(QUICK, **changes))
    assert digest(out) == clean
    assert_only(out)
    assert engine.largest <= changes.get("batch", 5)


def test_a_query_without_a_single_document_is_counted_and_left_out(out: Path) -> None:
    judgments = small_judgments()
    lost = set(judgments.queries[2].doc_ids)
    engine = MemoryEngine()
    engine.documents -= lost
    report = log(engine, out, options=lenient())
    data = load_dataset(out)
    assert "q2" not in data.query_ids.to_pylist()
    assert report.manifest["queries"]["logged"] == data.n_queries < 6
    assert report.counts.absent == 30 - data.n_documents


def test_variables_that_the_judgments_lack_are_all_named(out: Path) -> None:
    features = tuple(Feature(n, ("query", n), {"match": {n: "{{query}}"}}) for n in ("age", "city"))
    with pytest.raises(UsageError, match="needs 'age', 'city', which the judgments do not have: t"):
        log(MemoryEngine(featureset=FeatureSet("movies", features)), out)
    assert_nothing_published(out, kept=False)


def test_parameters_are_text_except_for_what_computes_with_them(out: Path) -> None:
    expression = Feature("age", ("year",), "year * 2", "derived_expression")
    featureset = FeatureSet("movies", (*small_featureset().features, expression))
    log(MemoryEngine(featureset=featureset), out)
    params = load_dataset(out).query_params
    assert params is not None
    assert json.loads(params[1].as_py()) == {"query": "words of 1", "year": 2001}


def double_judged(judgments: Judgments) -> None:
    judgments.queries[1].doc_ids[1] = judgments.queries[1].doc_ids[0]


def repeated_query(judgments: Judgments) -> None:
    judgments.queries.append(judgments.queries[0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (double_judged, "query 'q1' judges a document twice"),
        (repeated_query, "query 'q0' occurs twice"),
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


def test_progress_tells_of_every_document(out: Path) -> None:
    counts: list[int] = []
    log(MemoryEngine(), out, progress=counts.append)
    assert counts == [10, 20, 30]


@given(
    st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)), st.integers(1, 12), st.integers(1, 5)
)
def test_judged_is_logged_and_absent_and_rejected(
    tmp_path_factory: pytest.TempPathFactory,
    absent: set[int],
    poisoned: set[int],
    chunk: int,
    batch: int,
) -> None:
    def fault(_number: int, _path: str, body: Any, answer: Any) -> Any:
        if is_log_search(body):
            for hit in answer["hits"]["hits"]:
                if int(hit["_id"][1:]) in poisoned:
                    hit["matched_queries"] = {"title": 1e39}
        return answer

    engine = MemoryEngine(documents={f"d{d}" for d in range(12) if d not in absent}, fault=fault)
    out = tmp_path_factory.mktemp("account") / "out.parquet"
    judgments = small_judgments()
    pairs = [(q.query_id, int(d[1:])) for q in judgments.queries for d in q.doc_ids]
    rejected = poisoned - absent
    kept = [(q, f"d{d}") for q, d in pairs if d not in absent | rejected]
    try:
        account = log(engine, out, options=lenient(chunk=chunk, batch=batch)).counts
    except Refused:
        assert not kept
        return
    assert account.judged == 30
    assert account.absent == sum(d in absent for _, d in pairs)
    assert account.n_rejected == sum(d in rejected for _, d in pairs)
    assert rows_of(load_dataset(out)) == kept


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(-9, 9))
def test_an_account_that_does_not_add_up_cannot_be(
    logged: int, absent: int, rejected: int, error: int
) -> None:
    judged = logged + absent + rejected + error
    if error:
        with pytest.raises(Refused, match="do not add up"):
            LogCounts(judged, logged, absent, {"a reason": rejected})
    else:
        assert LogCounts(judged, logged, absent, {"a reason": rejected}).judged == judged


@pytest.mark.parametrize("liar", ["loses a row", "forgets a document", "gives no reason"])
def test_a_chunk_that_loses_a_document_is_caught(liar: str) -> None:
    values = Values.unknown(3, 2)
    values.status[:] = DocumentStatus.LOGGED
    if liar == "loses a row":
        values = Values(values.status[:2], values.features[:2], {})
    elif liar == "forgets a document":
        values.status[1] = DocumentStatus.UNKNOWN
    else:
        values.status[1] = DocumentStatus.REJECTED
    with pytest.raises(Refused):
        values.counts(3)


def test_more_absent_documents_than_allowed_end_the_run(out: Path) -> None:
    engine = without("d7")
    with pytest.raises(Refused, match=r"not in 'movies', and at most 1.0% may be") as caught:
        log(engine, out)
    assert "`max_absent=0.0" in str(caught.value)
    assert_nothing_published(out)


def test_a_wrong_index_is_noticed_after_the_first_chunk(out: Path) -> None:
    engine = MemoryEngine(documents=set())
    with pytest.raises(Refused, match="is it the right index"):
        log(engine, out, options=replace(QUICK, in_flight=1))
    assert engine.calls < 16


def test_the_suggested_share_is_enough(out: Path) -> None:
    engine = without("d7")
    options = QUICK
    for _ in range(3):
        try:
            log(engine, out, options=options)
        except Refused as refusal:
            options = replace(
                options, max_absent=float(str(refusal).rpartition("=")[2].rstrip("`"))
            )
    assert_only(out)


def refuse_more_than(documents: int, status: int, kind: str) -> Callable[..., Any]:
    def fault(_number: int, _path: str, body: Any, answer: Any) -> Any:
        if is_log_search(body) and len(find(body, "ids")["values"]) > documents:
            raise EngineRefusal("refused", status, kind, "too big")
        return answer

    return fault


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("status", "kind"),
    [(413, "content_too_long"), (400, "too_many_clauses"), (500, "too_many_nested_clauses")],
)
def test_a_search_that_is_too_big_is_halved_until_it_fits(
    out: Path, clean: str, most: int, status: int, kind: str
) -> None:
    log(MemoryEngine(fault=refuse_more_than(most, status, kind)), out)
    assert digest(out) == clean


def test_halving_finds_the_one_document_that_spoils_the_search(out: Path) -> None:
    def fault(_number: int, _path: str, body: Any, answer: Any) -> Any:
        if is_log_search(body) and "d7" in find(body, "ids")["values"]:
            raise EngineRefusal("refused", 400, "script_score", "negative")
        return answer

    with pytest.raises(Refused, match=r"document 'd7' of query 'q0' .*script_score: negative"):
        log(MemoryEngine(fault=fault), out, options=replace(QUICK, in_flight=1))
    report = log(MemoryEngine(fault=fault), out, options=lenient())
    judged = sum("d7" in query.doc_ids for query in small_judgments().queries)
    assert report.counts.rejected == {"the engine refuses the search: script_score": judged}


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refusal_that_is_not_about_the_documents_is_passed_on_also_with_leave(
    out: Path, status: int
) -> None:
    def fault(_number: int, _path: str, body: Any, answer: Any) -> Any:
        if is_log_search(body):
            raise EngineRefusal("no", status, "security_exception", "no")
        return answer

    with pytest.raises(EngineRefusal):
        log(MemoryEngine(fault=fault), out, options=lenient())
    assert_nothing_published(out, kept=False)


TEXT = Feature("title", ("words",), {"match": {"title": "{{words}}"}})
EXPRESSION = Feature("age", ("year",), "year * 2", "derived_expression")
SCRIPT = Feature("old", ("year",), {"params": {"year": "year"}}, "script_feature")


def typed(*features: Feature, **params: Any) -> dict[str, object]:
    (params_of_query,) = typed_params(judged(**params), FeatureSet("movies", features))
    return params_of_query


@pytest.mark.parametrize(
    ("text", "number"),
    [("2001", 2001), ("-7", -7), ("+7", 7), (" 12 ", 12), ("1.5", 1.5), ("1e3", 1000.0)],
)
@pytest.mark.parametrize("feature", [EXPRESSION, SCRIPT], ids=lambda feature: feature.name)
def test_what_computes_gets_a_number_and_all_else_its_text(
    feature: Feature, text: str, number: float
) -> None:
    params_of_query = typed(TEXT, feature, year=text, more="3")
    assert params_of_query == {"words": "10", "year": number, "more": "3"}
    assert type(params_of_query["year"]) is type(number)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e999", "new", ""])
def test_what_is_no_finite_number_stays_text_for_a_script_and_is_refused_for_an_expression(
    text: str,
) -> None:
    assert typed(TEXT, SCRIPT, year=text)["year"] == text
    for features in ([EXPRESSION], [EXPRESSION, SCRIPT], [SCRIPT, EXPRESSION]):
        with pytest.raises(BadInput) as caught:
            typed(*features, year=text)
        assert str(caught.value) == (
            f"query 'q7' has year='{text}', which a derived_expression of 'movies' needs as a "
            "number"
        )


@pytest.mark.parametrize("number", [2001, 1.5, 0])
def test_a_number_stays_one_for_templates_and_for_what_computes(number: float) -> None:
    for features in ([TEXT], [TEXT, EXPRESSION], [TEXT, SCRIPT]):
        assert typed(*features, year=number)["year"] is number


@pytest.mark.parametrize("value", [[1.5], {"a": 1}, True])
def test_what_is_no_number_is_refused_for_an_expression_by_its_value(value: Any) -> None:
    with pytest.raises(BadInput, match=r"^query 'q7' has year='.*', which a derived_expression"):
        typed(EXPRESSION, year=value)
    assert typed(SCRIPT, year=value)["year"] == value


def test_a_query_without_a_parameter_that_others_have_is_named() -> None:
    queries = [
        JudgedQuery("q1", {"words": "a", "year": "1"}, ["d"], GRADE),
        JudgedQuery("q2", {"words": "b"}, ["d"], GRADE),
    ]
    with pytest.raises(BadInput, match="query 'q2' has no 'year', which the feature set 'movies'"):
        typed_params(Judgments(queries), FeatureSet("movies", (TEXT, EXPRESSION)))


FIRST = JudgedQuery("q1", {"query": "a", "year": "1"}, ["d1", "d2"], np.array([1, 0], np.float32))
SECOND = JudgedQuery("q2", {"query": "b"}, ["d1"], np.array([2], np.float32))


@pytest.mark.parametrize(
    "change",
    [
        {"query_id": "q3"},
        {"params": {"query": "a", "year": "2"}},
        {"params": {"query": "a"}},
        {"doc_ids": ["d2", "d1"]},
        {"doc_ids": ["d1", "d3"]},
        {"grades": np.array([1, 1], np.float32)},
        {"grades": np.array([0, 1], np.float32)},
        {"weights": np.array([1, 2], np.float32)},
        {"weights": np.array([2, 1], np.float32)},
        {"importance": 2.0},
        {"importance": 0.0},
    ],
    ids=str,
)
def test_any_other_judgment_has_another_fingerprint(change: dict[str, Any]) -> None:
    changed = [replace(FIRST, **change), SECOND]
    assert fingerprint(Judgments(changed)) != fingerprint(Judgments([FIRST, SECOND]))


def test_what_says_the_same_has_the_same_fingerprint_and_nothing_else() -> None:
    known = fingerprint(Judgments([FIRST, SECOND]))
    turned = replace(FIRST, params=dict(reversed(FIRST.params.items())))
    ones = replace(FIRST, weights=np.ones(2, np.float32), importance=1.0)
    for same in (turned, ones):
        assert fingerprint(Judgments([same, SECOND])) == known
    assert fingerprint(Judgments([FIRST, SECOND], notes=("read with care",))) == known
    assert fingerprint(Judgments([SECOND, FIRST])) != known
    # A weight is no importance of the same size, and a number is not its text.
    heavy = replace(SECOND, weights=np.array([2], np.float32))
    often = replace(SECOND, importance=2.0)
    assert fingerprint(Judgments([heavy])) != fingerprint(Judgments([often]))
    assert len({fingerprint(judged(year=year)) for year in (1, "1", [1], True)}) == 4
