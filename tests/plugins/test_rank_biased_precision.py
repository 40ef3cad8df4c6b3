"""Rank-biased precision: what it is at the ends of its persistence, and what it leaves open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.errors import BadInput
from owpc_ltr.metrics import parse_metric

persistences = st.floats(0.0, 0.99)


def value(text: str, labels: list[int]) -> float:
    """Of one list, best first."""
    scores, offsets = -np.arange(float(len(labels))), np.array([0, len(labels)])
    return parse_metric(text).mean(scores, np.array(labels, np.float32), offsets)


@given(st.integers(1, 60), persistences)
def test_a_perfect_list_lacks_the_residual(n: int, p: float) -> None:
    assert value(f"rbp,persistence={p}", [1] * n) == pytest.approx(1 - p**n, abs=1e-12)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=20), persistences)
def test_what_is_not_seen_adds_at_most_the_residual(seen: list[int], p: float) -> None:
    text = f"rbp,persistence={p}"
    low, high = value(text, seen), value(text, seen + [1] * 3000)
    assert high - low == pytest.approx(p ** len(seen), abs=1e-9)
    assert value(text, seen + [0] * 3000) == pytest.approx(low, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_who_never_goes_on_sees_the_winner(documents: list[tuple[int, int]]) -> None:
    scores, labels = np.array(documents, dtype=np.float64).T
    found, wanted = (
        parse_metric(text).per_query(scores, labels.astype(np.float32), np.array([0, len(labels)]))
        for text in ("rbp,persistence=0", "winner-takes-all")
    )
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=20))
def test_two_grades_are_binary_whatever_the_gain(labels: list[int]) -> None:
    binary = value("rbp", labels)
    for gain in ("linear", "exponential"):
        assert value(f"rbp,gain={gain},max-grade=1", labels) == pytest.approx(binary, abs=1e-12)


def test_values_do_not_depend_on_how_many_relevant_documents_there_are() -> None:
    assert value("rbp@3", [1, 0, 1, 0]) == value("rbp@3", [1, 0, 1, 1])
    assert value("rbp,persistence=0.5", [1, 0, 1, 0]) == pytest.approx(0.5 + 0.125)


def test_labels_beyond_the_scale_are_refused() -> None:
    with pytest.raises(BadInput, match=r"cannot count the label 5: .* max-grade="):
        value("rbp,gain=linear", [5, 0])
    with pytest.raises(BadInput, match="cannot count the label -1"):
        value("rbp,gain=exponential", [1, -1])
