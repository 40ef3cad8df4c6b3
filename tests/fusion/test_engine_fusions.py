"""The engine's fusions: cases worked out by hand from the formulas of their source, and laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.errors import UsageError
from owpc_ltr.fusion.engine_fusions import EngineFusion, engine_fusions

NAN = float("nan")
ONE_QUERY = np.array([0, 4])
LEXICAL_AND_DENSE = np.array([[8.0, 0.5], [6.0, NAN], [NAN, 0.75], [4.0, 1.0]])
"""Four documents; each leg misses one."""


def fused(fusion: EngineFusion, scores: object = LEXICAL_AND_DENSE) -> list[float]:
    values = np.array(scores, np.float64)
    return [float(score) for score in fusion.scores(values, np.array([0, len(values)]))]


def test_min_max_and_the_arithmetic_mean() -> None:
    """The lowest score of a leg becomes .001; a leg that misses the document counts as 0."""
    expected = [0.25 * 1 + 0.75 * 0.001, 0.25 * 0.5, 0.75 * 0.5, 0.25 * 0.001 + 0.75 * 1]
    assert fused(EngineFusion("min_max", weights=(0.25, 0.75))) == pytest.approx(expected, abs=1e-7)


def test_a_document_of_one_leg_passes_those_of_two_under_the_means_that_skip() -> None:
    """Geometric and harmonic mean drop a missing leg together with its weight."""
    geometric = fused(EngineFusion("min_max", "geometric", (0.25, 0.75)))
    expected = [0.001**0.75, 0.5, 0.5, 0.001**0.25]
    assert geometric == pytest.approx(expected, abs=1e-7)
    harmonic = fused(EngineFusion("min_max", "harmonic", (0.25, 0.75)))
    expected = [1 / (0.25 + 0.75 / 0.001), 0.5, 0.5, 1 / (0.25 / 0.001 + 0.75)]
    assert harmonic == pytest.approx(expected, abs=1e-7)


def test_l2_divides_by_the_norm_of_the_leg() -> None:
    lexical, dense = math.sqrt(64 + 36 + 16), math.sqrt(0.25 + 0.5625 + 1)
    expected = [(8 / lexical + 0.5 / dense) / 2, 3 / lexical, 0.375 / dense]
    expected += [(4 / lexical + 1 / dense) / 2]
    assert fused(EngineFusion("l2")) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("normalization", ["min_max", "l2"])
def test_a_single_hit_is_1(normalization: str) -> None:
    fusion = EngineFusion(normalization, weights=(1.0, 0.0))  # type: ignore[arg-type]
    assert fused(fusion, [[0.01, NAN], [NAN, 1.0]]) == pytest.approx([1, 0])


def test_equal_scores_are_1_under_min_max_and_a_score_of_0_is_no_hit() -> None:
    assert fused(EngineFusion("min_max"), [[2.0, 0.0], [2.0, 3.0]]) == pytest.approx([0.5, 1.0])
    assert fused(EngineFusion("rrf"), [[0.0], [2.0]]) == pytest.approx([0, 1 / 61])


def test_z_score_is_in_sample_deviations_and_at_least_a_thousandth() -> None:
    """Means 6 and .75, deviations 2 and .25; a score that is the mean stays the best raw score."""
    expected = [(1 + 0.001) / 2, 8 / 2, 1.0 / 2, (0.001 + 1) / 2]
    assert fused(EngineFusion("z_score")) == pytest.approx(expected, abs=1e-7)


def test_z_score_leaves_a_single_hit_as_it_is() -> None:
    assert fused(EngineFusion("z_score", weights=(0.5, 0.5)), [[12.5, NAN]]) == [6.25]


def test_rrf_counts_ranks_to_ten_decimals() -> None:
    ranks = [(1, 3), (2, None), (None, 2), (3, 1)]
    expected = [sum(round(1 / (60 + rank), 10) for rank in pair if rank) for pair in ranks]
    assert fused(EngineFusion("rrf")) == pytest.approx(expected, abs=2e-9)
    weighted = fused(EngineFusion("rrf", weights=(1.0, 0.0), rank_constant=1))
    assert weighted == pytest.approx([0.5, 1 / 3, 0, 0.25])


def test_rrf_ranks_within_a_shard_and_ties_by_row() -> None:
    scores = np.array([[3.0], [3.0], [1.0], [2.0]])
    fusion = EngineFusion("rrf", rank_constant=1)
    shards = np.array([0, 0, 1, 1])
    together = fusion.scores(scores, ONE_QUERY)
    apart = fusion.scores(scores, ONE_QUERY, shards)
    assert together == pytest.approx([1 / 2, 1 / 3, 1 / 5, 1 / 4])
    assert apart == pytest.approx([1 / 2, 1 / 3, 1 / 3, 1 / 2])


def test_the_workbenchs_variants() -> None:
    variants = engine_fusions(2)
    assert len(set(variants)) == len(variants) == 82
    assert {str(each) for each in variants} >= {"RRF k=60", "min_max arithmetic 0.3/0.7"}
    before = engine_fusions(2, (2, 19, 1))
    assert [each for each in variants if each.normalization != "z_score"] == list(before)
    for legs in (3, 4, 5):
        of_all = engine_fusions(legs)
        assert all(len(each.weights or (0,) * legs) == legs for each in of_all)
        assert len(of_all) < 600


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"normalization": "none"}, "no normalization 'none'"),
        ({"normalization": "z_score", "mean": "harmonic"}, "arithmetic mean only"),
        ({"normalization": "rrf", "rank_constant": 0}, "rank_constant 0"),
        ({"normalization": "l2", "weights": (1.2, -0.2)}, "not all 0 or more"),
        ({"normalization": "l2", "weights": (0.5, 0.6)}, "do not sum to 1"),
    ],
)
def test_what_an_engine_refuses_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        EngineFusion(**given)  # type: ignore[arg-type]


def test_weights_for_other_legs_are_refused() -> None:
    with pytest.raises(UsageError, match="weights has 3 values for 2 legs"):
        fused(EngineFusion("l2", weights=(0.5, 0.25, 0.25)))


scores = st.one_of(st.just(NAN), st.floats(0, 100, width=32))
matrices = st.lists(st.lists(st.tuples(scores, scores), max_size=6), max_size=5)
fusions = st.sampled_from(engine_fusions(2))


@given(matrices, fusions)
def test_queries_are_fused_by_themselves(
    queries: list[list[tuple[float, float]]], fusion: EngineFusion
) -> None:
    """Also beside a query without documents."""
    starts = np.cumsum([0, *map(len, queries)])
    values = np.array([row for rows in queries for row in rows], np.float64).reshape(-1, 2)
    together = fusion.scores(values, starts)
    assert not np.isnan(together).any()
    for number, rows in enumerate(queries):
        alone = fusion.scores(values[starts[number] : starts[number + 1]], np.array([0, len(rows)]))
        np.testing.assert_array_equal(together[starts[number] : starts[number + 1]], alone)
