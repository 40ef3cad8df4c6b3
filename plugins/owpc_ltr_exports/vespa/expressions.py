"""Models as Vespa's ranking expressions: a sum of weighted features, or of nested ifs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import Refused
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model


def expression_of(model: Model, functions: Sequence[str]) -> str:
    """The expression that scores as the model does, one function a feature of the model.

    Raises Refused for what is neither a linear model nor trees.
    """
    if isinstance(model, LinearModel):
        return _sum(_linear_terms(model, functions))
    if not isinstance(model, TreeModel):
        raise Refused(
            f"a model of kind '{model.kind}' has no form in Vespa here: train a linear model, or "
            "trees"
        )
    whole = _sum(_trees(model.with_base_as_tree(), functions))
    return whole if model.link == "identity" else f"sigmoid(\n{whole}\n)"


def single_thresholds(thresholds: NDArray[np.float32]) -> Vector:
    """Float64 numbers t' such that, for every float64 v, float32(v) < t exactly where v < t'.

    Rounded to float32, t' is t again. So it is one whether an engine compares in float64 or in
    float32, as Vespa does with forests: in both, values are compared as the model compares them.
    """
    with np.errstate(over="ignore", under="ignore"):
        below = np.nextafter(thresholds, np.float32(-np.inf)).astype(np.float64)
        # Halfway to the float32 below; what would be next to the lowest counts as 2^128.
        below = np.maximum(below, -(2.0**128))
        middle = (below + thresholds.astype(np.float64)) / 2
        ties_go_below = middle.astype(np.float32) < thresholds
    return np.where(ties_go_below, np.nextafter(middle, np.inf), middle)


def _linear_terms(model: LinearModel, functions: Sequence[str]) -> list[str]:
    """Normalisers are multiplied in; a missing feature counts 0 before them, as in the model."""
    weights, intercept = model.folded()
    terms = [
        f"{_number(weight)} * if (isNan({function}), 0.0, {function})"
        for weight, function in zip(weights.tolist(), functions, strict=True)
    ]
    return [*terms, _number(intercept)] if intercept else terms


def _trees(model: TreeModel, functions: Sequence[str]) -> list[str]:
    forest = model.forest
    thresholds = single_thresholds(forest.threshold).tolist()
    left, outputs, leaves = forest.left.tolist(), forest.value.tolist(), forest.is_leaf.tolist()
    trees = []
    for nodes in forest.tree_nodes():
        made: dict[int, str] = {}
        for node in reversed(nodes):
            if leaves[node]:
                made[node] = _number(outputs[node])
                continue
            function, threshold = functions[forest.feature[node]], _number(thresholds[node])
            # No comparison with NaN holds.
            low = f"{function} < {threshold}"
            condition = f"!({function} >= {threshold})" if forest.default_left[node] else low
            yes, no = made.pop(left[node]), made.pop(left[node] + 1)
            made[node] = f"if ({condition}, {yes}, {no})"
        trees.append(made[nodes.start])
    return trees


def _sum(terms: Sequence[str]) -> str:
    return " +\n".join(terms)


def _number(value: float) -> str:
    """The shortest decimal that reads back as the same float64."""
    return repr(float(value))
