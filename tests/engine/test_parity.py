"""The figures of a parity certificate: by enumeration, by another library, and where 0 is due."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

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
    return Answered({"query_id": query}, ids, grades, none, None, one, one, two)


@given(reference=few, data=st.data())
def test_swaps_and_broken_ties_are_those_of_all_pairs_and_tau_is_scipys(
    reference: list[int], data: st.DataObject
) -> None:
    size = len(reference)
    other = data.draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
    found = parity_of([answered(reference, other)], "scores")
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
    found = parity_of([answered(scores, scores, list(range(len(scores))))], "scores")
    assert (found.largest_difference, found.swapped, found.ties_broken) == (0, 0, 0)
    assert found.tau == pytest.approx(1.0)
    assert found.ndcg_difference == 0.0
    assert found.refusal(0.0) is None


def test_the_worst_document_is_named_and_its_difference_is_relative_above_1() -> None:
    near = answered([1.0, 2.0], [1.0, 2.0005], query="near")
    far = answered([100.0, 0.5, 3.0], [101.0, 0.5, 3.0], query="far")
    found = parity_of([near, far], "scores")
    assert found.largest_difference == pytest.approx(0.01)
    assert (found.worst_query, found.worst_document) == ("far", "d0")
    assert (found.queries, found.documents) == (2, 5)
    refusal = found.refusal(1e-3)
    assert refusal is not None
    assert "by 0.01 on document 'd0' of query 'far' (0.001 is allowed)" in refusal


@pytest.mark.parametrize("lie", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_never_let_through(lie: float) -> None:
    """As of a document that the engine did not return, or scored with nothing."""
    found = parity_of([answered([1.0, 2.0, 3.0], [1.0, lie, lie], [0, 1, 2])], "scores")
    assert found.largest_difference == np.inf
    assert found.refusal(1e300) is not None
    assert np.isfinite(found.tau)
    assert found.ndcg_difference is None or np.isfinite(found.ndcg_difference)


def test_what_the_labels_lose_is_the_difference_of_the_metric() -> None:
    reference, other, labels = [3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [2, 0, 1]
    found = parity_of([answered(reference, other, labels)] * 2, "scores")
    metric = parse_metric("ndcg@10")
    grades, offsets = np.array(labels, np.float32), np.array([0, 3])
    wanted = metric.mean(np.array(other), grades, offsets) - metric.mean(
        np.array(reference), grades, offsets
    )
    assert wanted < -0.1
    assert found.ndcg_difference == pytest.approx(wanted)
    # Of documents without labels nothing is claimed.
    half = [answered(reference, other, labels), answered(reference, other)]
    assert parity_of(half, "scores").ndcg_difference is None
