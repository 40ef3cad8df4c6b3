"""The exchangeable reranker against double loops, tensors, permutations and finite differences."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_rerankers.exchangeable.exchangeable import Exchangeable
from owpc_ltr_rerankers.exchangeable.lists import ListBatch, chosen_columns
from owpc_ltr_rerankers.exchangeable.reordering import (
    ExchangeableReordering,
    ReorderingShape,
    log_factors,
    positive_base,
)

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.host.settings import configure
from owpc_ltr.plugin_checks.samples import sample_dataset
from tests.plugins.reranker_oracles import (
    ALL_KERNELS,
    cosine,
    double_loop,
    fields_of,
    offsets_of,
    product_terms,
    query_normalised,
    rbf,
    symmetric_tensor,
    word_vectors,
)


def sums_of(kernel: str, features: Any, **fields: Any) -> Vector:
    """The raw sums of one kernel over one list."""
    names = tuple(str(i + 1) for i in range(features.shape[1]))
    shape = ReorderingShape(kernel, kernel_sums="raw")
    return shape.sums(features.astype(np.float32), names, offsets_of(len(features)), fields)[:, 0]


def reordering_of(kernels: str, weights: Any, shares: Any = (1.0,), **shape: Any) -> Any:
    names = tuple("1234")
    weights = np.atleast_2d(np.array(weights, dtype=np.float64))
    return ExchangeableReordering(
        names, ReorderingShape(kernels, **shape), weights, np.array(shares)
    )


@pytest.mark.parametrize(
    ("kernel", "pair", "columns"),
    [
        ("cosine", cosine, slice(None)),
        ("cosine:2+3", cosine, slice(1, 3)),
        ("dot", np.dot, slice(None)),
        ("rbf", rbf, slice(None)),
    ],
)
def test_precomputed_sums_of_features_equal_the_double_loop(
    kernel: str, pair: Any, columns: slice, rng: np.random.Generator
) -> None:
    features = rng.normal(size=(30, 5)).astype(np.float32)
    features[3] = features[7]
    features[4, 2] = np.nan
    expected = double_loop(query_normalised(features)[:, columns], pair)
    np.testing.assert_allclose(sums_of(kernel, features), expected, rtol=1e-12)


def test_precomputed_sums_of_fields_equal_the_double_loop(rng: np.random.Generator) -> None:
    fields = fields_of(12, rng)
    features = np.zeros((12, 1))
    texts = word_vectors([text or "" for text in fields["text"]])
    vectors = np.array([vector or [0.0] * 3 for vector in fields["vector"]])
    targets = [set(several or ()) for several in fields["links"]]
    links = list(zip(fields["_id"], targets, strict=True))
    for kernel, documents, pair in (
        ("similarity:text", texts, cosine),
        ("similarity:vector", vectors, cosine),
        ("same:site", fields["site"], lambda x, z: float(x is not None and x == z)),
        ("link:links", links, lambda x, z: float((z[0] in x[1]) + (x[0] in z[1]))),
    ):
        expected = double_loop(documents, pair)
        np.testing.assert_allclose(
            sums_of(kernel, features, **fields), expected, rtol=1e-12, err_msg=kernel
        )


def test_a_mean_is_the_sum_over_one_less_than_the_list_also_among_other_queries(
    rng: np.random.Generator,
) -> None:
    features = rng.normal(size=(10, 4)).astype(np.float32)
    offsets = offsets_of(1, 6, 3)
    raw = ReorderingShape("cosine", "raw").sums(features, tuple("1234"), offsets)
    mean = ReorderingShape("cosine", "mean").sums(features, tuple("1234"), offsets)
    np.testing.assert_array_equal(mean[:, 0], raw[:, 0] / np.repeat([1, 5, 2], [1, 6, 3]))
    np.testing.assert_array_equal(raw[1:7, 0], sums_of("cosine", features[1:7]))
    assert raw[0] == 0


def test_a_long_list_is_compared_with_a_sample_that_does_not_depend_on_its_order(
    rng: np.random.Generator,
) -> None:
    features = rng.normal(size=(400, 3)).astype(np.float32)
    lists = ListBatch(features, tuple("123"), offsets_of(400))
    exact = Exchangeable("rbf").parsed()[0].sums(lists)
    kernel = Exchangeable("rbf", rbf_documents=100).parsed()[0]
    sampled = kernel.sums(lists)
    assert np.corrcoef(exact, sampled)[0, 1] > 0.95
    assert sampled.mean() == pytest.approx(exact.mean(), rel=0.1)
    order = rng.permutation(400)
    np.testing.assert_array_equal(
        kernel.sums(replace(lists, features=features[order])), sampled[order]
    )


@pytest.mark.parametrize("documents", [-1, 1, 10**9 + 1, 10**30])
def test_a_sample_that_compiled_code_cannot_count_is_refused(documents: int) -> None:
    with pytest.raises(ValueError, match=f"2 to 1000000000, not {documents}"):
        ReorderingShape("rbf", rbf_documents=documents)


@given(seed=st.integers(0, 10**6), m=st.integers(1, 40), copies=st.booleans())
@pytest.mark.parametrize("positive", ["exp", "softplus"])
def test_permuting_the_documents_permutes_the_scores_to_the_last_bit(
    positive: Any, seed: int, m: int, copies: bool
) -> None:
    rng = np.random.default_rng(seed)
    features = (10.0 ** rng.integers(-3, 6) * rng.normal(size=(m, 4))).astype(np.float32)
    base = rng.normal(size=m)
    fields = fields_of(m, rng)
    if copies:
        features[m // 2] = features[0]
        base[m // 2] = base[0]
    weights = rng.normal(size=(2, 8))
    reordering = reordering_of(ALL_KERNELS, weights, [0.3, 0.7], positive=positive)
    scores = reordering.rerank(features, base, fields=fields)
    order = rng.permutation(m)
    moved = {name: [values[i] for i in order] for name, values in fields.items()}
    again = reordering.rerank(features[order], base[order], fields=moved)
    np.testing.assert_array_equal(again, scores[order])


def test_the_check_of_permutations_has_something_to_catch(rng: np.random.Generator) -> None:
    """Plain sums do depend on the order, in the last bits."""
    rows = rng.normal(size=(40, 4))
    orders = [rng.permutation(40) for _ in range(20)]
    assert len({float(rows[order].sum(axis=0)[0]) for order in orders}) > 1


@pytest.mark.parametrize("positive", ["exp", "softplus", "as-is"])
def test_weights_of_zero_give_the_base_scores_bit_for_bit(
    positive: Any, rng: np.random.Generator
) -> None:
    data = sample_dataset(2)
    base = np.exp(3 * rng.normal(size=data.n_documents))
    if positive != "as-is":
        base = np.concatenate((-base[:20], [-0.0, 0.0, 1e-300], base[23:]))
    reordering = reordering_of("cosine,rbf", np.zeros((3, 2)), [0.2, 0.3, 0.5], positive=positive)
    scores = reordering.rerank(data.features, base, data.offsets)
    assert scores.tobytes() == base.tobytes()


@pytest.mark.parametrize("positive", ["exp", "softplus", "as-is"])
def test_scores_order_lists_as_equation_14_does(positive: Any, rng: np.random.Generator) -> None:
    """f = b(x_i) Π_{j≠i} exp(w S(x_i, x_j)), computed as it is written."""
    features = rng.normal(size=(15, 4)).astype(np.float32)
    base = np.exp(rng.normal(size=15))
    reordering = reordering_of("cosine,dot", [[0.2, -0.1]], kernel_sums="raw", positive=positive)
    z = (base - base.mean()) / base.std()
    b = {"exp": np.exp(z), "softplus": np.log1p(np.exp(z)), "as-is": base.copy()}[positive]
    x = query_normalised(features)
    for i in range(15):
        for j in range(15):
            if j != i:
                b[i] *= np.exp(0.2 * cosine(x[i], x[j]) - 0.1 * float(x[i] @ x[j]))
    scores = reordering.rerank(features, base)
    np.testing.assert_array_equal(np.argsort(scores), np.argsort(b))
    if positive == "as-is":
        np.testing.assert_allclose(scores, b, rtol=1e-10)
    if positive == "exp":
        np.testing.assert_allclose(scores, base.mean() + base.std() * np.log(b), rtol=1e-10)
    if positive == "softplus":
        expected = base.mean() + base.std() * np.log(np.expm1(b))
        np.testing.assert_allclose(scores, expected, rtol=1e-8)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_sum_of_products_reproduces_any_symmetric_tensor(
    order: int, rng: np.random.Generator
) -> None:
    """Theorems 3.7 and 3.8: h(x_1, {x_2 … x_m}) = Σ_t Π_j g_t(x_1, x_j) on a discrete X.

    With S_b(x_i, x_j) = [x_j = b] the sums count the others of each value, and the terms of the
    reranker are the products; the coefficients, of either sign, are b(x_1; v_t).
    """
    values = 3
    for _ in range(values):  # one symmetric tensor for each value of x_1
        tensor = symmetric_tensor(values, order, rng)
        coefficients, factors = product_terms(tensor, rng)
        weights = np.log(factors)
        for index in np.ndindex(tensor.shape):
            counts = np.bincount(index, minlength=values).astype(np.float64)[None, :]
            terms = [
                c * np.exp(log_factors(counts, w[None, :], np.ones(1))[0])
                for c, w in zip(coefficients, weights, strict=True)
            ]
            assert sum(terms) == pytest.approx(tensor[index], rel=1e-6, abs=1e-6)


def test_a_mixture_of_terms_is_their_weighted_sum(rng: np.random.Generator) -> None:
    sums, weights, shares = rng.normal(size=(9, 2)), rng.normal(size=(3, 2)), rng.random(3)
    expected = np.log(np.exp(sums @ weights.T) @ shares / shares.sum())
    np.testing.assert_allclose(log_factors(sums, weights, shares), expected, rtol=1e-10)


def test_a_query_of_one_document_keeps_its_score() -> None:
    reordering = reordering_of("cosine,dot,rbf", [[5.0, 3.0, -2.0]])
    assert reordering.rerank(np.ones((1, 4), np.float32), np.array([0.7])).tolist() == [0.7]


def test_constant_features_zero_vectors_and_equal_scores_give_finite_scores(
    rng: np.random.Generator,
) -> None:
    reordering = reordering_of("cosine,dot,rbf", [[5.0, 3.0, -2.0]])
    for features in (np.ones((6, 4)), np.zeros((6, 4)), np.full((6, 4), np.nan)):
        base = rng.normal(size=6)
        scores = reordering.rerank(features.astype(np.float32), base)
        np.testing.assert_array_equal(np.argsort(scores), np.argsort(base))
        equal = reordering.rerank(features.astype(np.float32), np.full(6, 0.1))
        assert np.isfinite(equal).all()
        assert np.ptp(equal) == 0


def test_huge_features_and_scores_are_right(rng: np.random.Generator) -> None:
    features = rng.normal(size=(8, 4)).astype(np.float32)
    base = rng.normal(size=8)
    reordering = reordering_of("cosine,rbf", [[1.0, -1.0]])
    scores = reordering.rerank(features, base)
    huge = reordering.rerank(features * np.float32(1e38), base)
    np.testing.assert_allclose(huge, scores, rtol=1e-6)
    large = reordering.rerank(features, base * 1e200)
    np.testing.assert_allclose(large, scores * 1e200, rtol=1e-9)


@pytest.mark.parametrize("positive", ["softplus", "as-is"])
def test_a_score_that_overflows_is_refused(positive: Any, rng: np.random.Generator) -> None:
    reordering = reordering_of("dot", [[1e6]], positive=positive, kernel_sums="raw")
    with pytest.raises(Refused, match="overflows"):
        reordering.rerank(rng.random((8, 4)).astype(np.float32), rng.random(8) + 1)


@pytest.mark.parametrize(
    ("features", "base", "positive", "message"),
    [
        (np.full((2, 4), np.inf), [1.0, 2.0], "exp", "infinite"),
        (np.ones((2, 4)), [1.0, np.nan], "exp", "a base score is nan"),
        (np.ones((2, 4)), [1.0, -2.0], "as-is", "-2.0 is not positive"),
        (np.ones((2, 3)), [1.0, 2.0], "exp", "4 features, the data has 3"),
        (np.ones((2, 4)), [1.0], "exp", "2 documents came with 1 base scores"),
    ],
)
def test_what_cannot_be_reranked_is_refused(
    features: Vector, base: list[float], positive: Any, message: str
) -> None:
    reordering = reordering_of("cosine", [[1.0]], positive=positive)
    with pytest.raises(BadInput, match=message):
        reordering.rerank(features.astype(np.float32), np.array(base))


def test_a_missing_field_and_vectors_of_two_lengths_are_refused() -> None:
    with pytest.raises(BadInput, match="needs the document field 'site'"):
        reordering_of("same:site", [[1.0]]).rerank(np.ones((2, 4), np.float32), np.ones(2))
    with pytest.raises(BadInput, match="have 2 and 3 parts"):
        sums_of("similarity:v", np.ones((2, 4)), v=[[1.0, 2.0], [1.0, 2.0, 3.0]])
    with pytest.raises(BadInput, match="a text or numbers"):
        sums_of("similarity:v", np.ones((2, 4)), v=[["a"], ["b"]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernels": "cosin"}, "'cosin' is no kernel"),
        ({"kernels": "similarity"}, "similarity:FIELD"),
        ({"kernels": "cosine,cosine"}, "twice"),
        ({"penalty": "-1"}, "penalty"),
        ({"positive": "square"}, "positive=square"),
        ({"terms": "0"}, "terms"),
        ({"gamma": "0"}, "gamma"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        configure(Exchangeable, settings)


def test_columns_are_chosen_by_name_before_patterns() -> None:
    names = ("title+body", "title", "body", "body_raw")
    assert chosen_columns("title+body", names).tolist() == [0]
    assert chosen_columns("title+body*", names[1:]).tolist() == [0, 1, 2]
    with pytest.raises(BadInput, match="no feature fits 'anchor'"):
        chosen_columns("title+anchor", names[1:])


def test_a_damaged_reordering_is_refused() -> None:
    content = json.loads(json.dumps(reordering_of("cosine", [[1.0]]).as_dict()))
    for change in (
        {"weights": [[1.0, 2.0]]},
        {"weights": [[float("inf")]]},
        {"shares": [-1.0]},
        {"kernels": "nothing"},
        {"positive": None},
    ):
        with pytest.raises(BadInput):
            Exchangeable().load({**content, **change})
    with pytest.raises(BadInput, match="weights"):
        Exchangeable().load({key: content[key] for key in content if key != "weights"})


def test_positive_functions_increase_and_standardise(rng: np.random.Generator) -> None:
    scores = np.sort(1e3 * rng.normal(size=50))
    for kind in ("exp", "softplus"):
        base = positive_base(kind, scores, offsets_of(50))
        assert (np.diff(base.logarithms) > 0).all()
    z = positive_base("exp", scores, offsets_of(50)).logarithms
    assert z.mean() == pytest.approx(0, abs=1e-12)
    assert z.std() == pytest.approx(1)
