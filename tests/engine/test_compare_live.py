"""Rankers compared by the lists that users get, on a real node: uploaded, tried, queries, runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import Cluster, OwpcLtrError, save_model
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.engine.live_results.comparison import LiveComparison
from owpc_ltr.engine.search.client_scoring import query_alone
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.attempts import ATTEMPTS_FILE
from owpc_ltr.models.linear import LinearModel
from tests.datasets import seen_sides
from tests.engine.deployed import put, unknowing
from tests.engine.small_cluster import WORDS, Small, judged_titles, linear, shared_cluster

BODY = {"match": {"body": "{{keywords}}"}}
BY_TITLE, BY_BODY, BY_SIZE = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, -1.0)
SPLIT = HashSplit(0.1, 0.5)
QUICK: dict[str, Any] = {"resamples": 200}


small = shared_cluster(documents=100)


@pytest.fixture(scope="module")
def cluster(small: Small) -> Cluster:
    return small.cluster


@pytest.fixture(scope="module")
def judgments(small: Small) -> Judgments:
    return judged_titles(small, 24, 6)


Compare = Callable[..., LiveComparison]


@pytest.fixture
def compare(cluster: Cluster, small: Small) -> Compare:
    """Compares rankers by ndcg@10, unless otherwise asked."""
    return partial(cluster.compare_live, index=small.index, query_template=BODY, metrics="ndcg@10")


def half(judgments: Judgments) -> Judgments:
    """The same, with every second document unjudged."""
    return Judgments(
        [
            replace(query, doc_ids=query.doc_ids[::2], grades=query.grades[::2], judged_by=None)
            for query in judgments.queries
        ]
    )


def trained(weights: tuple[float, ...], salt: str = "owpc-ltr") -> LinearModel:
    split = replace(SPLIT, salt=salt)
    return linear(weights, source=seen_sides((f"q{n}" for n in range(56)), split))


def test_two_rankers_are_what_a_model_and_the_query_alone_are(
    cluster: Cluster, small: Small, judgments: Judgments, compare: Compare, tmp_path: Path
) -> None:
    (tmp_path / "body.json").write_text(json.dumps(BODY))
    model, data = trained(BY_TITLE), half(judgments)
    wanted = cluster.compare_live(
        [model], judgments=data, query_template=BODY, metrics=["ndcg@10", "map"], index=small.index
    )
    assert wanted.headline == ("the linear model", "query")
    asked = {"new": model, "old": f"live:{tmp_path / 'body.json'}"}
    for unjudged in ("zero", "condensed"):
        comparison = compare(
            asked,
            judgments=data,
            metrics=["ndcg@10", "map"],
            unjudged=unjudged,
        )
        assert (comparison.split, comparison.n_queries) == (wanted.split, wanted.n_queries)
        for pair, expected_pair in zip(comparison.pairs, wanted.pairs, strict=True):
            theirs = expected_pair.comparison if unjudged == "zero" else expected_pair.left_out
            assert theirs is not None
            assert pair.comparison.as_dict() == pytest.approx(theirs.as_dict(), abs=1e-4)
    plain = compare(asked, judgments=data, metrics=["ndcg@10", "map"])
    outcomes = [pair.verdict.outcome for pair in plain.pairs]
    assert outcomes == [pair.verdict.outcome for pair in wanted.pairs]
    assert {"unjudged"} <= {warning.check for warning in plain.pairs[0].verdict.warnings}
    whole = compare(asked, judgments=judgments, metrics=["ndcg@10", "map"])
    assert whole.pairs[0].verdict.warnings == ()
    share = comparison.ranker("new").unjudged
    assert share is not None
    assert share == wanted.rankers[0].unjudged
    assert comparison.query_texts is not None
    assert comparison.query_texts[0].as_py().split()[0] in WORDS


def test_an_index_without_any_judged_document_is_refused_and_is_no_attempt(
    compare: Compare, judgments: Judgments
) -> None:
    others = [
        replace(query, doc_ids=[f"sku-{name}" for name in query.doc_ids])
        for query in judgments.queries
    ]
    counted = ATTEMPTS_FILE.path.read_bytes() if ATTEMPTS_FILE.path.exists() else None
    with pytest.raises(BadInput, match=r"has none of the judged documents \(\d+ looked for, first"):
        compare([unknowing(BY_TITLE)], judgments=Judgments(others), **QUICK)
    # One that is there is enough.
    some = [replace(others[0], doc_ids=judgments.queries[0].doc_ids), *others[1:]]
    after = ATTEMPTS_FILE.path.read_bytes() if ATTEMPTS_FILE.path.exists() else None
    assert after == counted
    assert compare([unknowing(BY_TITLE)], judgments=Judgments(some), **QUICK).n_queries == 24


def test_judgments_that_contradict_the_query_decide_nothing_between_models(
    small: Small, judgments: Judgments, compare: Compare
) -> None:
    """What the query alone has first is graded worst; neither ranker is the query alone."""
    turned = []
    for query in judgments.queries:
        request = SearchRequest(small.index, BODY, query.params, 10, 100)
        first = query_alone(small.engine, small.store)(request).doc_ids
        grades = np.array([2.0 if name in first[5:] else 0.0 for name in query.doc_ids])
        turned.append(replace(query, grades=grades.astype(np.float32)))
    rankers = {"new": unknowing(BY_TITLE), "old": unknowing(BY_SIZE)}
    comparison = compare(rankers, judgments=Judgments(turned), **QUICK)
    warnings = comparison.verdict("new", "old").warnings
    assert "inverted" in {warning.check for warning in warnings}


def test_uploaded_tried_feature_query_and_run_stand_side_by_side(
    small: Small, cluster: Cluster, judgments: Judgments, compare: Compare, tmp_path: Path
) -> None:
    name = f"{small.name}-one"
    put(small, linear(BY_TITLE), name=name)
    save_model(linear(BY_TITLE), tmp_path / "model.json")
    (tmp_path / "body.json").write_text(json.dumps({"query": BODY}))
    models = small.store.list_models()
    lines = []
    for query in judgments.queries:
        best = np.argsort(-query.grades, kind="stable")
        lines += [f"{query.query_id} Q0 {query.doc_ids[n]} {r} {-r} ideal\n"
                  for r, n in enumerate(best.tolist(), 1)]  # fmt: skip
    (tmp_path / "ideal.run").write_text("".join(lines))
    asked = [
        f"live:{name}@{small.index}", str(tmp_path / "model.json"), "feature:title",
        f"live:{tmp_path / 'body.json'}@{small.index}", str(tmp_path / "ideal.run"),
        "query",
    ]  # fmt: skip
    comparison = compare(asked, judgments=judgments, baseline=asked[3], **QUICK)
    values = [ranker.measured[0].per_query for ranker in comparison.rankers]
    assert values[0].tolist() == values[1].tolist() == values[2].tolist()
    assert values[5].tolist() == values[3].tolist()
    assert values[4].tolist() == pytest.approx([1.0] * 24)
    assert [pair.better for pair in comparison.pairs[:3]] == asked[:3]
    assert comparison.ranker(asked[0]).unjudged == {"ndcg@10": 0.0}
    note_start = "lists are of the whole index, their first 100 documents, which have 100% of"
    assert any(note.startswith(note_start) for note in comparison.notes)
    assert comparison.milliseconds.keys() == {*asked} - {asked[4]}
    assert small.store.list_models() == models
    same = compare(asked[:2], judgments=judgments, **QUICK)
    assert same.pairs[0].comparison.ties == 24


def test_queries_are_left_that_neither_model_was_trained_on(
    judgments: Judgments, compare: Compare
) -> None:
    ids = [query.query_id for query in judgments.queries]
    salts = ("owpc-ltr", "x")
    tests = [replace(SPLIT, salt=salt).sides_of(ids) == "test" for salt in salts]
    asked = {salt: trained(BY_TITLE, salt) for salt in salts}
    comparison = compare(asked, judgments=judgments, **QUICK)
    left = np.flatnonzero(tests[0] & tests[1])
    assert comparison.query_ids.to_pylist() == [ids[n] for n in left]
    assert comparison.split == "test"
    assert "held out from all rankers" in comparison.notes[0]


def test_queries_with_unjudged_documents_are_skipped_for_all(
    judgments: Judgments, compare: Compare
) -> None:
    gap = replace(judgments.queries[3], doc_ids=[], grades=np.empty(0, np.float32), judged_by=[])
    data = Judgments([*judgments.queries[:3], gap, *judgments.queries[4:]])
    asked = {"title": linear(BY_TITLE), "size": linear(BY_SIZE)}
    comparison = compare(asked, judgments=data, unjudged="skip", **QUICK)
    assert comparison.pairs[0].comparison.n_queries == 23
    with pytest.raises(Refused, match="queries count in ndcg@10"):
        compare(asked, judgments=half(data), unjudged="skip")


@pytest.mark.parametrize(
    ("ranker", "error", "message"),
    [
        ("live:nothing-like-this", OwpcLtrError, "nothing-like-this"),
        ("live:none.json", BadInput, "none.json"),
        ("live:", UsageError, "names no ranker"),
        ("live:name@", UsageError, "names no ranker"),
        ("feature:weight", UsageError, "no feature of 'small' is called 'weight'"),
    ],
)
def test_what_no_engine_can_serve_is_refused(
    judgments: Judgments, compare: Compare, ranker: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        compare([linear(BY_TITLE), ranker], judgments=judgments, **QUICK)


def test_a_metric_that_looks_beyond_the_window_is_refused(
    judgments: Judgments, compare: Compare
) -> None:
    asked = [linear(BY_TITLE), linear(BY_SIZE)]
    with pytest.raises(UsageError, match="further than the window of 5"):
        compare(asked, judgments=judgments, window=5)


def test_a_segment_that_there_is_not_is_refused_before_anything_is_searched(
    judgments: Judgments, compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owpc_ltr.engine.live_results.comparison.answers_of", pytest.fail)
    for options, message in (
        ({"segments": "shop"}, "no segment by 'shop'"),
        ({"accept_loss": "no such"}, "no segment is called 'no such'"),
    ):
        with pytest.raises(UsageError, match=message):
            compare([linear(BY_TITLE)], judgments=judgments, **QUICK, **options)
