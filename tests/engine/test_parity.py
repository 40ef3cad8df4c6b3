"""The figures of a parity certificate: by enumeration, by another library, and where 0 is due."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from owpc_ltr.engine.defaults import MAX_DRIFT
from owpc_ltr.engine.deployment.feature_drift import (
    drift_refusal,
    moved_features,
    moved_rankings,
)
from owpc_ltr.engine.deployment.parity import Answered, parity_of
from owpc_ltr.metrics import parse_metric

few = st.lists(st.integers(-3, 3), min_size=2, max_size=9)


def answered(
    reference: list[Any], other: list[Any], labels: list[Any] | None = None, query: str = "q"
) -> Answered:
    """One probe with the laptop's scores and the engine's."""
    one, two = (np.array(scores, dtype=np.float64) for scores in (reference, other))
    ids = tuple(f"d{number}" for number in range(len(one)))
    grades = None if labels is None else np.array(labels, dtype=np.float64)
    none = np.zeros((len(one), 1), np.float32)
    return Answered({"query_id": query}, ids, grades, none, None, one, two)


@given(reference=few, data=st.data())
def test_swaps_and_broken_ties_are_those_of_all_pairs_and_tau_is_scipys(
    reference: list[int], data: st.DataObject
) -> None:
    size = len(reference)
    other = data.draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
    found = parity_of([answered(reference, other)])
    pairs = [
        (np.sign(reference[i] - reference[j]), np.sign(other[i] - other[j]))
        for i, j in combinations(range(size), 2)
    ]
    assert found.swapped == sum(one * two < 0 for one, two in pairs)
    assert found.ties_broken == sum((one == 0) != (two == 0) for one, two in pairs)
    wanted = float(kendalltau(reference, other).statistic)
    # Where one side orders nothing there is no tau, and nothing to hold against it.
    assert found.tau == pytest.approx(1.0 if np.isnan(wanted) else wanted)


@given(scores=few)
def test_equal_scores_differ_in_nothing(scores: list[int]) -> None:
    found = parity_of([answered(scores, scores, list(range(len(scores))))])
    assert (found.largest_difference, found.swapped, found.ties_broken) == (0, 0, 0)
    assert found.tau == pytest.approx(1.0)
    assert found.ndcg_difference == 0.0
    assert found.refusal(0.0) is None


def test_the_worst_document_is_named_and_its_difference_is_relative_above_1() -> None:
    near = answered([1.0, 2.0], [1.0, 2.0005], query="near")
    far = answered([100.0, 0.5, 3.0], [101.0, 0.5, 3.0], query="far")
    found = parity_of([near, far])
    assert found.largest_difference == pytest.approx(0.01)
    assert (found.worst_query, found.worst_document) == ("far", "d0")
    assert (found.queries, found.documents) == (2, 5)
    refusal = found.refusal(1e-3)
    assert refusal is not None
    assert "by 0.01 on document 'd0' of query 'far' (0.001 is allowed)" in refusal


@pytest.mark.parametrize("own", [2.0, np.nan, np.inf])
@pytest.mark.parametrize("lie", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_never_let_through(lie: float, own: float) -> None:
    """As of a document that the engine did not return, or with a feature that is no number."""
    found = parity_of([answered([1.0, own, 3.0], [1.0, lie, lie], [0, 1, 2])])
    assert found.largest_difference == np.inf
    assert found.refusal(1e300) is not None
    assert np.isfinite(found.tau)
    assert found.ndcg_difference is None or np.isfinite(found.ndcg_difference)


def test_what_the_labels_lose_is_the_difference_of_the_metric() -> None:
    reference, other, labels = [3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [2, 0, 1]
    found = parity_of([answered(reference, other, labels)] * 2)
    metric = parse_metric("ndcg@10")
    grades, offsets = np.array(labels, np.float32), np.array([0, 3])
    wanted = metric.mean(np.array(other), grades, offsets) - metric.mean(
        np.array(reference), grades, offsets
    )
    assert wanted < -0.1
    assert found.ndcg_difference == pytest.approx(wanted)
    # Of documents without labels nothing is claimed.
    half = [answered(reference, other, labels), answered(reference, other)]
    assert parity_of(half).ndcg_difference is None


# --- how far features moved, and the limit of it


def remembered(before: Any, now: Any, weights: Any) -> Answered:
    """One sample whose features were others, scored by a linear model of these weights."""
    earlier, features = np.array(before, np.float32), np.array(now, np.float32)
    by = np.array(weights, np.float64)
    local, then = features.astype(np.float64) @ by, earlier.astype(np.float64) @ by
    ids = tuple(f"d{row}" for row in range(len(features)))
    grades = np.arange(len(features), dtype=np.float64)
    return Answered({"query_id": "q"}, ids, grades, features, earlier, local, local, then)


columns = st.lists(st.tuples(*[st.integers(-8, 8)] * 2), min_size=3, max_size=9)


@given(before=columns)
def test_features_that_stayed_move_no_ranking_and_are_never_refused(before: list[Any]) -> None:
    answered_ = [remembered(before, before, (1, -2))]
    features, rankings = moved_features(("a", "b"), answered_), moved_rankings(answered_)
    assert [one.by for one in features] == [0, 0]
    assert rankings is not None
    assert rankings.swapped == rankings.ndcg_difference == 0
    assert rankings.tau == pytest.approx(1)
    assert drift_refusal(features, rankings, 0.0) is None


@given(before=columns, factor=st.floats(0.1, 9))
def test_one_scale_for_all_features_moves_them_and_no_ranking(
    before: list[Any], factor: float
) -> None:
    """As another BM25 does to a model of text scores alone: the drift is told, the order stays."""
    scaled = (np.array(before) * np.float64(factor)).tolist()
    rankings = moved_rankings([remembered(before, scaled, (1, 0))])
    assert rankings is not None
    assert rankings.swapped == 0
    assert rankings.tau == pytest.approx(1)


def test_two_features_that_have_nothing_in_common_are_as_far_apart_as_the_limit_reckons() -> None:
    generator = np.random.default_rng(0)
    one, two = generator.normal(size=(2, 200_000))
    for correlation in (0.0, 0.95):
        other = correlation * one + np.sqrt(1 - correlation**2) * two
        (moved,) = moved_features(("x",), [remembered(one[:, None], other[:, None], (1,))])
        expected = 2 / np.sqrt(np.pi) * np.sqrt(1 - correlation)
        assert moved.by == pytest.approx(expected, rel=0.02)
    assert moved.by == pytest.approx(MAX_DRIFT, rel=0.03)


def test_the_refusal_names_feature_limit_and_what_rankings_lose() -> None:
    answered_ = [remembered([[0], [1], [2], [3]], [[3], [2], [1], [0]], (1,))]
    features, rankings = moved_features(("title",), answered_), moved_rankings(answered_)
    refusal = drift_refusal(features, rankings, 0.25)
    assert refusal is not None
    for words in ("'title'", "by 1.79 standard", "(0.25 is allowed)", "tau -1.0000", "ndcg@10 -0."):
        assert words in refusal
    assert drift_refusal(features, rankings, 1.8) is None


def test_without_remembered_features_nothing_is_said_of_rankings() -> None:
    plain = [answered([1.0, 2.0], [1.0, 2.0])]
    assert moved_rankings(plain) is None
    assert drift_refusal(moved_features(("x",), plain), None, 0.0) is None
