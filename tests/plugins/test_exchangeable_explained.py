"""What the exchangeable reranker says of its lists: all that it did, kernel by kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from owpc_ltr_rerankers.exchangeable.lists import ListBatch
from owpc_ltr_rerankers.exchangeable.reordering import (
    ExchangeableReordering,
    ReorderingShape,
    log_factors,
    slopes_of,
)

from owpc_ltr.protocols import ExplainingReordering
from tests.plugins.reranker_oracles import ALL_KERNELS, fields_of

NAMES = tuple("1234")
SEEDS = st.integers(0, 2**32 - 1)


def reordering(rng: np.random.Generator, terms: int = 1, **shape: Any) -> ExchangeableReordering:
    made = ReorderingShape(**{"kernels": ALL_KERNELS, **shape})
    weights = rng.normal(scale=0.3, size=(terms, len(made.parsed())))
    shares = rng.uniform(0.1, 1, terms)
    return ExchangeableReordering(NAMES, made, weights, shares / shares.sum())


def a_list(rng: np.random.Generator, count: int = 12) -> tuple[Any, Any, Any]:
    features = rng.normal(size=(count, 4)).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    return features, rng.uniform(0.5, 3, count), fields_of(count, rng)


@pytest.mark.parametrize("kernel", ALL_KERNELS.split(","))
@settings(max_examples=10)
@given(seed=SEEDS)
def test_pairs_add_up_to_the_sums(kernel: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, _, fields = a_list(rng, int(rng.integers(1, 15)))
    for normalise in (True, False):
        lists = ListBatch(features, NAMES, np.array([0, len(features)]), fields, normalise)
        (made,) = ReorderingShape(kernel).parsed()
        pairs = made.pairs(lists)
        assert not np.diag(pairs).any()
        np.testing.assert_allclose(pairs.sum(axis=1), made.sums(lists), atol=1e-10)
        np.testing.assert_allclose(pairs, pairs.T, atol=1e-12)


@pytest.mark.parametrize("positive", ["exp", "softplus", "as-is"])
@pytest.mark.parametrize("terms", [1, 3])
@settings(max_examples=10)
@given(seed=SEEDS)
def test_terms_add_up_to_what_the_list_did(positive: str, terms: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sums = str(rng.choice(["mean", "raw"]))
    made = reordering(rng, terms, positive=positive, kernel_sums=sums)
    features, base, fields = a_list(rng)
    moved = made.rerank(features, base, None, fields) - base
    assert isinstance(made, ExplainingReordering)
    found = made.explain(features, base, fields)
    assert [term.name for term in found] == [f"the list by {k}" for k in ALL_KERNELS.split(",")]
    largest = np.abs(moved).max()
    assert np.abs(sum(term.amounts for term in found) - moved).max() <= 1e-9 * largest
    for term in found:
        assert term.by_document is not None
        added = term.by_document.sum(axis=1)
        assert np.abs(added - term.amounts).max() <= 1e-9 * (np.abs(term.by_document).max() + 1)


@given(SEEDS)
def test_with_one_term_a_logarithm_is_the_weight_times_the_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = reordering(rng)
    features, base, fields = a_list(rng)
    sums = made.shape.sums(features, NAMES, np.array([0, len(features)]), fields)
    for kernel, term in enumerate(made.explain(features, base, fields)):
        assert term.logarithms is not None
        expected = made.weights[0, kernel] * sums[:, kernel]
        np.testing.assert_allclose(term.logarithms, expected, rtol=1e-9, atol=1e-12)


@given(SEEDS)
def test_logarithms_of_several_terms_add_up_to_the_factor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sums = rng.normal(scale=2, size=(20, 3))
    weights, shares = rng.normal(size=(4, 3)), rng.uniform(0.1, 1, 4)
    shares /= shares.sum()
    added = (slopes_of(sums, weights, shares) * sums).sum(axis=1)
    np.testing.assert_allclose(added, log_factors(sums, weights, shares), atol=1e-8)


def test_a_document_that_is_taken_away_takes_what_it_added(rng: np.random.Generator) -> None:
    """With raw sums of rows that no list changes, and the base as it is."""
    made = reordering(
        rng, kernels="cosine,dot:1+2", kernel_sums="raw", normalise="none", positive="as-is"
    )
    features, base, _ = a_list(rng)
    (one, other) = made.explain(features, base)
    assert one.by_document is not None
    assert other.by_document is not None
    scores = made.rerank(features, base)
    left = made.rerank(features[:-1], base[:-1])
    logarithms = sum(  # what the last document added to the log of each factor
        term.by_document[:-1, -1] * (term.logarithms / term.amounts)[:-1]
        for term in (one, other)
        if term.by_document is not None and term.logarithms is not None
    )
    np.testing.assert_allclose(np.log(scores[:-1] / left), logarithms, rtol=1e-6)


def test_of_a_long_list_it_is_not_said_who_added_what(rng: np.random.Generator) -> None:
    made = reordering(rng, kernels="cosine,rbf", rbf_documents=5)
    features, base, _ = a_list(rng)
    assert [term.by_document for term in made.explain(features, base)] == [None, None]
    moved = made.rerank(features, base) - base
    total = sum(term.amounts for term in made.explain(features, base))
    np.testing.assert_allclose(total, moved, atol=1e-9)


def test_a_list_of_one_document_does_nothing(rng: np.random.Generator) -> None:
    made = reordering(rng, kernels="cosine,dot")
    for term in made.explain(np.ones((1, 4), np.float32), np.ones(1)):
        assert term.amounts.tolist() == [0.0]


@pytest.mark.parametrize("kernel", ["similarity:text", "similarity:vector", "same:site"])
def test_lists_that_come_again_have_the_sums_that_they_have_alone(
    kernel: str, rng: np.random.Generator
) -> None:
    """The same objects twice, one of them changed, the first again, and a shorter one."""
    _, _, fields = a_list(rng)
    name = kernel.partition(":")[2]
    first = fields[name]
    changed = [first[1], *first[1:]]
    several = [first, first, changed, first, first[:-1]]
    (made,) = ReorderingShape(kernel).parsed()

    def sums(lists: list[Any]) -> Any:
        offsets = np.cumsum([0, *map(len, lists)])
        features = np.zeros((int(offsets[-1]), 4), np.float32)
        joined = {name: [value for one in lists for value in one]}
        return made.sums(ListBatch(features, NAMES, offsets, joined))

    np.testing.assert_array_equal(sums(several), np.concatenate([sums([one]) for one in several]))
