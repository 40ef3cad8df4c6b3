"""Risk bounds: the papers' formulas on small numbers, and what it means to be vacuous."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_papers.bounds import (
    Bound,
    all_bounds,
    covering_complexity,
    margin_bound,
    margin_errors,
    owa_weights,
    rademacher_complexity,
    sizes_of,
)

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrWarning, RankingDataset, make_dataset
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.host.registry import load
from owpc_ltr.host.settings import configure
from owpc_ltr.models.linear import LinearModel

REGISTRY = load()
OWPC, PAIRWISE, LISTWISE = (
    configure(REGISTRY.find("loss", name), {})
    for name in ("owpc", "position-sensitive", "average-precision")
)


def sample(queries: int = 12, documents: int = 5, grades: int = 3) -> RankingDataset:
    generator = np.random.default_rng(1)
    X = generator.normal(size=(queries * documents, 2)).astype(np.float32)
    labels = np.tile(np.arange(documents) % grades, queries)
    return make_dataset(X, labels, np.repeat(np.arange(queries), documents))


MODEL = LinearModel(("1", "2"), np.array([0.3, 0.4]))


def bounds(data: RankingDataset, delta: float = 0.05) -> dict[str, Bound]:
    return {
        bound.name: bound
        for bound in all_bounds(MODEL, data, OWPC, PAIRWISE, LISTWISE, delta=delta)
    }


def test_sizes_are_counted_by_hand() -> None:
    sizes = sizes_of(MODEL, sample())
    assert sizes.norm == pytest.approx(0.5)
    assert sizes.radius == pytest.approx(np.linalg.norm(sample().features, axis=1).max())
    # Labels 0 1 2 0 1: grades of sizes 2, 2, 1.
    assert math.exp(sizes.log_pairs) == pytest.approx(10)
    assert math.exp(sizes.log_graded_pairs) == pytest.approx(2 * 2 + 2 * 1 + 2 * 1)
    assert math.exp(sizes.log_binary_pairs) == pytest.approx(3 * 2)
    assert math.exp(sizes.log_permutations) == pytest.approx(math.factorial(5))
    assert math.exp(sizes.log_relevance_orders) == pytest.approx(math.comb(5, 3))


@pytest.mark.parametrize("factor", [0.25, 4.0, 1024.0])
def test_the_margin_bound_does_not_depend_on_the_size_of_the_scores(factor: float) -> None:
    data = sample()
    scaled = LinearModel(MODEL.feature_names, MODEL.weights * factor)
    bound, other = (margin_bound(model, data, OWPC, 0.05) for model in (MODEL, scaled))
    assert other.log_value == pytest.approx(bound.log_value)
    assert other.log_empirical == pytest.approx(bound.log_empirical)
    assert other.queries_needed == pytest.approx(bound.queries_needed)


def test_theorem_3_is_its_formula() -> None:
    data, delta = sample(), 0.1
    bound = bounds(data, delta)["Riezler & De Bona Theorem 3"]
    B, n, m = 0.5, data.n_queries, 5
    M = np.linalg.norm(data.features, axis=1).max()
    pairs = m * (m - 1) / 2
    complexity = pairs * 4 * B * M / math.sqrt(n) + pairs * (m - 1 + 2 * B * M) * math.sqrt(
        8 * math.log(2 / delta) / n
    )
    losses = [
        PAIRWISE.value_and_gradient(MODEL.score(q.features), q.labels, q.weights)[0] for q in data
    ]
    assert math.exp(bound.log_value) == pytest.approx(np.mean(losses) + complexity)
    assert bound.vacuous


def test_the_margin_bound_is_theorem_4_of_the_owpc_paper() -> None:
    data = sample()
    bound = bounds(data)["OWPC Theorem 4"]
    assert bound.margin is not None
    reach = 2 * 0.5 * np.linalg.norm(data.features, axis=1).max()
    log_cover = 2 * math.log(1 + 2 * reach / (bound.margin / 2))
    expected = math.sqrt((log_cover + math.log(30 / 0.05)) / (2 * data.n_queries))
    assert math.exp(bound.log_complexity) == pytest.approx(expected)


def test_margin_errors_are_the_owa_of_indicators() -> None:
    data = sample()
    owpc = configure(REGISTRY.find("loss", "owpc"), {"generator": "inverse"})
    scores = MODEL.score(data.features)
    margins = np.array([0.0, 0.3, 5.0])
    expected = []
    for margin in margins:
        risks = []
        for q, start in zip(data, data.offsets[:-1], strict=True):
            s = scores[start : start + len(q.labels)]
            relevant, irrelevant = s[q.labels > 0], s[q.labels == 0]
            alpha = owa_weights(owpc, len(irrelevant))
            wrong = [np.sort(irrelevant >= i - margin)[::-1] @ alpha for i in relevant]
            risks.append(np.mean(wrong))
        expected.append(np.mean(risks))
    assert margin_errors(scores, data, margins, owpc) == pytest.approx(expected)
    assert margin_errors(scores, data, margins, owpc)[2] == pytest.approx(1.0)


def test_queries_with_documents_of_one_kind_alone_count_for_nothing() -> None:
    data, generator = sample(), np.random.default_rng(2)
    alike = make_dataset(
        np.concatenate([data.features, generator.normal(size=(6, 2)).astype(np.float32)]),
        np.concatenate([data.labels, [0, 0, 0, 1, 2, 1]]),
        np.concatenate([np.repeat(np.arange(12), 5), [12, 12, 12, 13, 13, 13]]),
    )
    margins = np.array([0.0, 0.3, 5.0])
    errors, other = (
        margin_errors(MODEL.score(part.features), part, margins, OWPC) for part in (data, alike)
    )
    assert np.array_equal(errors, other)


def test_owa_weights_are_the_generators() -> None:
    owpc = configure(REGISTRY.find("loss", "owpc"), {"generator": "inverse"})
    harmonic = 1 / np.arange(1, 8)
    assert owa_weights(owpc, 7) == pytest.approx(harmonic / harmonic.sum())


@given(st.floats(0.1, 3.0), st.floats(0.5, 4.0))
def test_the_covering_number_covers_a_ball_on_the_line(radius: float, margin: float) -> None:
    """In one dimension the smallest cover is known: ⌈R/ε⌉ intervals of half-width ε."""
    sizes = replace(sizes_of(MODEL, sample()), features=1, norm=radius, radius=0.5)
    smallest = math.ceil(radius / (margin / 2))
    log_cover = covering_complexity(margin, sizes, 1 - 1e-12, 0.5)
    assert math.exp(2 * log_cover) >= math.log(smallest) - 1e-9


def test_the_number_of_queries_that_would_help_is_exact() -> None:
    data = sample()
    sizes = sizes_of(MODEL, data)
    for bound in bounds(data).values():
        if not math.isfinite(bound.queries_needed) or bound.margin is not None:
            continue
        k = {"Theorem 3": 4, "Corollary 1": 2, "Corollary 2": 1}.get(bound.name[18:], 1)
        K = k + 2 * sizes.norm * sizes.radius
        room = math.exp(bound.log_largest_risk) - math.exp(bound.log_empirical)
        log_count = bound.log_largest_risk

        def at(n: float, log_count: float = log_count, K: float = K) -> float:
            return math.exp(rademacher_complexity(log_count, K, sizes, 0.05, n))

        assert at(bound.queries_needed * 1.0001) <= room * (1 + 1e-6)
        assert at(bound.queries_needed * 0.999) > room * (1 - 1e-3)


def test_a_bound_that_bites_is_not_called_vacuous() -> None:
    """A sure ranker on very many queries: both signs of the verdict are reached."""
    bound = Bound("x", "y", math.log(0.1), math.log(0.2), 0.0, 10)
    assert not bound.vacuous
    assert math.exp(bound.log_value) == pytest.approx(0.3)
    assert Bound("x", "y", math.log(0.9), math.log(0.2), 0.0, 10).vacuous


def test_long_lists_do_not_overflow() -> None:
    data = sample(queries=3, documents=2000)
    listed = bounds(data)["Riezler & De Bona Theorem 4"]
    assert listed.vacuous
    assert math.isfinite(listed.log_value)
    assert listed.log_value > 10_000


def test_more_queries_never_loosen_a_bound() -> None:
    sizes = sizes_of(MODEL, sample())
    values = [rademacher_complexity(1.0, 2.0, sizes, 0.05, n) for n in (10, 100, 1000)]
    values += [covering_complexity(0.1, sizes, 0.05, n) for n in (10, 100, 1000)]
    for triple in (values[:3], values[3:]):
        assert triple[0] > triple[1] > triple[2]


def test_what_has_no_bound_is_refused() -> None:
    data = sample()
    with pytest.raises(UsageError, match="delta is a probability"):
        all_bounds(MODEL, data, OWPC, PAIRWISE, LISTWISE, delta=1.0)
    with pytest.raises(UsageError, match="linear models"):
        all_bounds(object(), data, OWPC, PAIRWISE, LISTWISE)
    with pytest.raises(BadInput, match="different labels"):
        sizes_of(MODEL, replace(data, labels=np.ones_like(data.labels)))


def test_bounds_on_other_queries_than_it_was_trained_on_say_so() -> None:
    data = sample()
    other = sample(queries=13)
    trained = replace(MODEL, record={"fingerprint": data.fingerprint, "queries": data.n_queries})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        here = ltr.bounds(trained, data)
    assert here.trained_here
    assert "for queries it was trained on" in str(here)
    with pytest.warns(OwpcLtrWarning, match="trained on other data"):
        assert ltr.bounds(trained, other).trained_here is False
    with pytest.warns(OwpcLtrWarning, match="does not say which queries"):
        unknown = ltr.bounds(MODEL, data)
    assert unknown.as_dict()["trained_here"] is None
    # Only what is said changes: the figures are those of these queries.
    assert replace(here, trained_here=None) == unknown


def test_bounds_on_all_queries_of_a_split_say_how_many_trained() -> None:
    data = sample()
    source = {"split": {"validation": 0.2, "test": 0.2}, "fingerprint": data.fingerprint}
    record = {"fingerprint": "of the training side", "queries": 7, "source": source}
    with pytest.warns(OwpcLtrWarning, match="trained on 7 of these 12 queries"):
        assert not ltr.bounds(replace(MODEL, record=record), data).trained_here
