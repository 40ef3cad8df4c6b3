"""The contract of a reranker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.protocols import DescendingReranker, Loss, Reordering, Reranker, Run
from owpc_ltr.testing.promises import require
from owpc_ltr.testing.rerank_objectives import check_slopes, check_zero, random_weights
from owpc_ltr.testing.rerank_terms import check_terms
from owpc_ltr.testing.samples import sample_dataset


def check_reranker(reranker: Reranker, loss: Loss, seed: int = 0) -> tuple[str, ...]:
    """Check that a reranker learns an exchangeable function, and the same one every time.

    One finite score a document; permuting the documents of a query permutes their scores, to the
    last bit; all queries at once score as one by one; a query of one document works; no argument
    is changed; the same seed gives the same function whatever the number of threads; `as_dict`
    and `load` give back the same scores. Where its reordering explains lists, the terms add up to
    what it did to the scores. Where it has an objective: weights of zero give the
    base scores, the gradient is that of finite differences, and any weights are exchangeable.

    Raises AssertionError. Returns a sentence for each promise that the reranker declares not to
    make, and that was skipped: none where it has an objective.
    """
    skipped = _declared(reranker)
    data = sample_dataset(grades=2, seed=seed)
    rng = np.random.default_rng(seed)
    base = data.features @ np.array([0.7, -0.5, 0.0, 0.3]) + 0.1 * rng.normal(size=data.n_documents)
    run = Run(seed=seed, validation=sample_dataset(grades=2, seed=seed + 1))
    given = base.copy()
    reordering = reranker.fit(loss, data, given, run)
    require(np.array_equal(base, given), f"reranker '{reranker.name}' changed the base scores")
    require(
        reordering.feature_names == data.feature_names,
        f"reranker '{reranker.name}' learned from {data.feature_names} and expects "
        f"{reordering.feature_names}",
    )
    _check_exchangeable(reranker.name, reordering, data, base, rng)
    check_terms(reranker.name, reordering, data, base)
    content = json.dumps(reordering.as_dict(), allow_nan=False)
    for how, other in (
        ("loaded from its own JSON", reranker.load(json.loads(content))),
        ("fitted again with the same seed", reranker.fit(loss, data, base, run)),
        ("fitted with 2 threads", reranker.fit(loss, data, base, replace(run, threads=2))),
    ):
        one = reordering.rerank(data.features, base, data.offsets)
        two = other.rerank(data.features, base, data.offsets)
        require(
            np.array_equal(one, two),
            f"reranker '{reranker.name}', {how}, scores {two[:5]} … where it scored {one[:5]} …",
        )
    if not skipped:
        descending = cast("DescendingReranker", reranker)
        objective = descending.objective(loss, data, base.copy(), run)
        check_zero(reranker.name, objective, data, base)
        check_slopes(reranker.name, objective, seed)
        moved = objective.reordering(random_weights(objective, rng))
        _check_exchangeable(reranker.name, moved, data, base, rng)
        check_terms(reranker.name, moved, data, base)
    return skipped


def _declared(reranker: Reranker) -> tuple[str, ...]:
    """What is skipped because the reranker says that it has no objective."""
    declared = getattr(reranker, "has_objective", None)
    require(
        isinstance(declared, bool),
        f"reranker '{reranker.name}' does not say whether it has an objective: declare "
        "has_objective: ClassVar[bool]",
    )
    require(
        declared == hasattr(reranker, "objective"),
        f"reranker '{reranker.name}' declares has_objective = {declared}, and "
        + (
            "has no method objective"
            if declared
            else "has a method objective, which goes unchecked"
        ),
    )
    if declared:
        return ()
    return (
        f"reranker '{reranker.name}' declares that it has no objective: its gradient and its "
        "weights of zero are not checked",
    )


def _rerank(name: str, reordering: Reordering, features: Matrix, base: Vector) -> Vector:
    given = features.copy(), base.copy()
    scores = reordering.rerank(*given)
    require(
        np.shape(scores) == base.shape,
        f"reranker '{name}' gave scores of shape {np.shape(scores)} for {len(base)} documents",
    )
    require(np.isfinite(scores).all(), f"reranker '{name}' gave the scores {scores}")
    require(
        np.array_equal(features, given[0], equal_nan=True),
        f"reranker '{name}' changed the features it read",
    )
    require(np.array_equal(base, given[1]), f"reranker '{name}' changed the base scores it read")
    return scores


def _check_exchangeable(
    name: str,
    reordering: Reordering,
    data: RankingDataset,
    base: Vector,
    rng: np.random.Generator,
) -> None:
    together = reordering.rerank(data.features, base, data.offsets)
    for index in range(data.n_queries):
        rows = slice(int(data.offsets[index]), int(data.offsets[index + 1]))
        features, own = data.features[rows], base[rows]
        scores = _rerank(name, reordering, features, own)
        require(
            np.allclose(scores, together[rows], rtol=1e-9, atol=1e-12),
            f"reranker '{name}' scores query {index} as {scores} alone and as {together[rows]} "
            "among others",
        )
        order = rng.permutation(len(own))
        moved = _rerank(name, reordering, features[order], own[order])
        require(
            np.array_equal(scores[order], moved),
            f"reranker '{name}' is not exchangeable: permuting the documents of query {index} "
            f"changed their scores from {scores[order]} to {moved}",
        )
    _rerank(name, reordering, data.features[:1], base[:1])
