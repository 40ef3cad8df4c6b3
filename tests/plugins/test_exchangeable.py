"""The exchangeable reranker against loops and tensors; its fit and its explanations."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_rerankers._exchangeable_kernels import ListBatch, chosen_columns
from owpc_ltr_rerankers.exchangeable import (
    Exchangeable,
    ExchangeableReordering,
    Objective,
    ReorderingShape,
    log_factors,
    positive_base,
    slopes_of,
)

from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.host import registry
from owpc_ltr.host.settings import configure
from owpc_ltr.plugin_checks import check_reranker
from owpc_ltr.plugin_checks.promises import sample_dataset
from owpc_ltr.protocols import ExplainingReordering, Loss, Reranker, Run
from tests.plugins.oracles import (
    ALL_KERNELS,
    SoftMax,
    cosine,
    double_loop,
    fields_of,
    offsets_of,
    product_terms,
    query_normalised,
    rbf,
    slope_error,
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
        ({"kernels": "cosin"}, "'cosin' is not a kernel"),
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


LOSSES = [plugin.cls() for plugin in registry.load().all("loss") if plugin.cls().conservative] + [
    SoftMax()
]


def objective_of(loss: Loss, kernels: str, data: RankingDataset, **settings: Any) -> Objective:
    base = data.features @ np.array([0.7, -0.5, 0.0, 0.3])
    return Exchangeable(kernels, **settings).objective(loss, data, base, Run())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_gradient_of_a_later_term_is_that_of_finite_differences(
    loss: Loss, rng: np.random.Generator
) -> None:
    objective = objective_of(loss, "cosine,rbf", sample_dataset(2), penalty=0.3)
    objective = objective.after(rng.normal(size=4)).after(rng.normal(size=5))
    start = objective.start()
    errors = [
        slope_error(objective.value_and_gradient, start + 0.3 * rng.normal(size=len(start)))
        for _ in range(5)
    ]
    # Where a loss has kinks, a few points lie on one.
    assert np.median(errors) < 1e-5


def test_a_planted_weight_is_found_and_a_large_penalty_takes_it_back(
    rng: np.random.Generator,
) -> None:
    """Labels follow how alone a document is in its list, which no pointwise score tells."""
    features = rng.normal(size=(600, 4)).astype(np.float32)
    offsets = np.arange(0, 601, 20)
    alone = -ReorderingShape("rbf").sums(features, tuple("1234"), offsets)[:, 0]
    cuts = np.array([np.quantile(part, 0.8) for part in alone.reshape(30, 20)])
    labels = (alone > np.repeat(cuts, 20)).astype(np.float32)
    data = make_dataset(features, labels, np.repeat(np.arange(30), 20))
    base = rng.normal(size=600)
    reranker = Exchangeable("rbf")
    learned = reranker.fit(SoftMax(), data, base, Run())
    assert isinstance(learned, ExchangeableReordering)
    assert learned.weights[0, 0] < -1
    held = replace(reranker, penalty=1e6).fit(SoftMax(), data, base, Run())
    assert isinstance(held, ExchangeableReordering)
    assert abs(held.weights[0, 0]) < 1e-4
    scores = learned.rerank(features, base, offsets)
    top = np.array([labels[20 * q + np.argmax(scores[20 * q : 20 * q + 20])] for q in range(30)])
    assert top.mean() > 0.6


def test_a_further_term_never_prices_higher(rng: np.random.Generator) -> None:
    data = sample_dataset(2)
    objective = objective_of(SoftMax(), "cosine,rbf", data)
    first = objective.descend(100)
    assert objective.after(first.weights).descend(100).value <= first.value + 1e-9


def test_the_scale_of_the_base_does_not_matter() -> None:
    data = sample_dataset(2)
    base = data.features @ np.array([0.7, -0.5, 0.0, 0.3])
    reranker = Exchangeable()
    model = reranker.fit(SoftMax(), data, base, Run())
    other_model = reranker.fit(SoftMax(), data, 1e6 * base - 3e5, Run())
    np.testing.assert_allclose(
        model.as_dict()["weights"], other_model.as_dict()["weights"], rtol=1e-4
    )


@pytest.mark.parametrize(
    "reranker",
    [
        Exchangeable(),
        pytest.param(
            Exchangeable("cosine,rbf,dot:1+2", kernel_sums="raw", normalise="none"),
            marks=pytest.mark.thorough,
        ),
        Exchangeable("rbf", positive="softplus", terms=2, penalty=0.1),
    ],
    ids=["default", "raw", "two-terms"],
)
def test_the_contract_holds(reranker: Reranker) -> None:
    check_reranker(reranker, SoftMax())


def test_a_smooth_loss_of_the_library_is_descended() -> None:
    data = sample_dataset(2)
    objective = objective_of(Pairwise(inner="logistic"), "cosine", data)
    start = objective.value_and_gradient(objective.start())[0]
    descent = objective.descend(100)
    assert descent.value < start
    assert descent.steps < 60


def test_a_loss_that_is_no_cost_is_refused() -> None:
    data = sample_dataset(2)
    with pytest.raises(UsageError, match="lambdarank"):
        Exchangeable().fit(LambdaRank(), data, np.arange(data.n_documents, dtype=float), Run())


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
    list_terms = made.explain(features, base, fields)
    assert [term.name for term in list_terms] == [
        f"the list by {k}" for k in ALL_KERNELS.split(",")
    ]
    largest = np.abs(moved).max()
    assert np.abs(sum(term.amounts for term in list_terms) - moved).max() <= 1e-9 * largest
    for term in list_terms:
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
    (first, other) = made.explain(features, base)
    assert first.by_document is not None
    assert other.by_document is not None
    scores = made.rerank(features, base)
    left = made.rerank(features[:-1], base[:-1])
    logarithms = sum(  # what the last document added to the log of each factor
        term.by_document[:-1, -1] * (term.logarithms / term.amounts)[:-1]
        for term in (first, other)
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
        joined = {name: [value for query_list in lists for value in query_list]}
        return made.sums(ListBatch(features, NAMES, offsets, joined))

    np.testing.assert_array_equal(
        sums(several), np.concatenate([sums([query_list]) for query_list in several])
    )
