"""All scores of a model lie in its interval, and some come near its ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.score_range import UNKNOWN, ScoreInterval, score_interval
from owpc_ltr.models.trees import Forest, TreeModel

NAMES = ("a", "b", "c")


def forest() -> Forest:
    """Two trees: a < 1 ? −2 : 3, and a single leaf of 0.5."""
    return Forest(
        np.array([0, 3], np.int32),
        np.array([0, -1, -1, -1], np.int32),
        np.array([1, 0, 0, 0], np.float32),
        np.array([1, 0, 0, 0], np.int32),
        np.array([False] * 4),
        np.array([9.0, -2.0, 3.0, 0.5]),
    )


def test_the_interval_of_trees_is_the_sum_of_their_lowest_and_highest_leaves() -> None:
    found = score_interval(TreeModel(NAMES, forest(), base=1.0))
    assert found.proven
    assert found.low == pytest.approx(-0.5, abs=1e-5)
    assert found.high == pytest.approx(4.5, abs=1e-5)
    assert found.low <= -0.5
    assert found.high >= 4.5


def test_a_logistic_output_lies_between_0_and_1() -> None:
    found = score_interval(TreeModel(NAMES, forest(), link="logistic"))
    assert found.low == pytest.approx(1 / (1 + math.exp(1.5)), rel=1e-5)
    assert found.high == pytest.approx(1 / (1 + math.exp(-3.5)), rel=1e-5)


def test_a_sum_of_scores_with_no_weight_below_0_is_proven_by_that_alone() -> None:
    model = LinearModel(NAMES, np.array([1.0, 0.0, 2.0]))
    found = score_interval(model, set(NAMES))
    assert found.proven
    assert found.low == pytest.approx(0.0)
    assert found.high == math.inf


def test_features_that_may_be_negative_or_weigh_less_than_0_prove_nothing() -> None:
    assert score_interval(LinearModel(NAMES, np.array([1.0, 1.0, 1.0])), {"a", "b"}) == UNKNOWN
    lowered = score_interval(LinearModel(NAMES, np.array([1.0, -1.0, 1.0])), set(NAMES))
    assert lowered == UNKNOWN


def test_a_missing_feature_counts_0_also_where_none_was_seen() -> None:
    model = LinearModel(NAMES, np.array([-1.0, 2.0, 0.0]))
    seen = np.array([[2.0, 3.0, 0.0], [4.0, 5.0, 0.0]])
    found = score_interval(model, set(NAMES), seen)
    assert not found.proven
    assert found.low == pytest.approx(-4.0, abs=1e-5)
    assert found.high == pytest.approx(10.0, abs=1e-5)


def test_features_that_are_bounded_by_their_kind_prove_a_mixed_model_for_every_document() -> None:
    model = LinearModel(NAMES, np.array([-1.0, 2.0, -0.5]))
    seen = np.array([[0.0, 0.0, 0.0], [0.1, 0.1, 0.1]])
    found = score_interval(model, set(NAMES), seen, {"a": 3.0, "b": math.inf, "c": 8.0})
    assert found.proven
    assert found.holds == "for every document"
    assert found.low == pytest.approx(-7.0, abs=1e-4)
    assert found.high == math.inf
    # One that is not bounded is enough to prove nothing, whatever was seen.
    half = score_interval(model, set(NAMES), seen, {"a": 3.0, "c": math.inf})
    assert not half.proven
    assert half.low == pytest.approx(-0.15, abs=1e-4)
    assert half.holds.startswith("within twice what was seen")
    assert UNKNOWN.holds == "not known"


finite = st.floats(-50, 50, width=32)


@given(
    weights=st.lists(finite, min_size=3, max_size=3),
    shift=st.floats(0, 5),
    rows=st.lists(st.lists(st.floats(0, 100, width=32), min_size=3, max_size=3), min_size=1),
)
def test_every_score_is_in_the_interval_also_as_a_float32_sum(
    weights: list[float], shift: float, rows: list[list[float]]
) -> None:
    model = LinearModel(NAMES, np.array(weights), {"b": Normaliser("standard", shift, 2.0)})
    features = np.array(rows, dtype=np.float32)
    seen = np.vstack([features.min(axis=0), features.max(axis=0)])
    found = score_interval(model, set(NAMES), seen)
    folded, intercept = model.folded()
    total = np.full(len(rows), np.float32(intercept))
    for column in range(3):
        total = total + np.float32(folded[column]) * features[:, column]
    for scores in (total, model.score(features)):
        # Normalised one by one or folded, a sum may also lose what is far below its largest term.
        assert scores.min() >= found.low - 1e-9
        assert scores.max() <= found.high + 1e-9


def test_an_interval_survives_json() -> None:
    for interval in (UNKNOWN, ScoreInterval(-1.5, math.inf, proven=True)):
        assert ScoreInterval.from_dict(interval.as_dict()) == interval
