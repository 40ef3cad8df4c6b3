"""What Solr scores by a model file alone, in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import a_json, parse_json, shown, take, take_list, take_object
from owpc_ltr.formats.columns import positions
from owpc_ltr.formats.tree_builder import GrowingForest, Node, below, node_table
from owpc_ltr.models.forest import LEAF

PACKAGE = "org.apache.solr.ltr"
SLACK = np.float32(1e-6)
"""What Solr adds to every threshold."""


def file_scores(text: str, feature_names: Sequence[str], features: Matrix) -> Vector:
    """Each feature is filled with 0 and normalised, then weighed or compared with slack.

    Raises BadInput for a text that is not such a model.
    """
    where = "the request's body"
    body = parse_json(text, where)
    described = take_list(body, "features", where)
    names = [take(feature, "name", "a feature") for feature in described]
    seen = features[:, positions(names, feature_names)].astype(np.float32)
    seen[np.isnan(seen)] = 0
    for column, feature in enumerate(described):
        seen[:, column] = _normalised(seen[:, column], feature.get("norm"))
    kind, parameters = take(body, "class", where), take_object(body, "params", where)
    if kind == f"{PACKAGE}.model.LinearModel":
        return _linear_scores(take_object(parameters, "weights", where), names, seen)
    if kind == f"{PACKAGE}.model.MultipleAdditiveTreesModel":
        return _tree_scores(take_list(parameters, "trees", where), names, seen)
    raise BadInput(f"{where} has a model of class {a_json(kind)}, which is not known")


def _normalised(values: NDArray[np.float32], norm: Any) -> NDArray[np.float32]:
    """What a feature's normaliser makes of its values: (value − first) / range, in float32."""
    if norm is None:
        return values
    kind, settings = take(norm, "class", "a normaliser"), take(norm, "params", "a normaliser")
    if kind == f"{PACKAGE}.norm.StandardNormalizer":
        shift, scale = _single(settings, "avg"), _single(settings, "std")
    elif kind == f"{PACKAGE}.norm.MinMaxNormalizer":
        shift = _single(settings, "min")
        scale = _single(settings, "max") - shift
    else:
        raise BadInput(f"Solr has no normaliser of class {a_json(kind)} here")
    if not scale > 0:
        raise BadInput(f"the normaliser {a_json(norm)} has no range in float32")
    return np.asarray((values - shift) / scale, dtype=np.float32)


def _linear_scores(weights: dict[str, Any], names: list[str], seen: NDArray[np.float32]) -> Vector:
    if set(weights) != set(names):
        raise BadInput("the model's weights are not those of its features")
    total = np.zeros(len(seen), dtype=np.float32)
    for column, name in enumerate(names):
        total += _single(weights, name) * seen[:, column]
    return total.astype(np.float64)


def _tree_scores(trees: list[Any], names: list[str], seen: NDArray[np.float32]) -> Vector:
    growing = GrowingForest()
    for tree in trees:
        nodes: list[Node] = []
        _read_node(take(tree, "root", "a tree"), _single(tree, "weight"), names, nodes)
        growing.add(node_table(nodes), "the model's trees")
    return growing.forest("the model's trees").score_single(seen).astype(np.float64)


def _read_node(node: Any, weight: np.float32, names: list[str], nodes: list[Node]) -> int:
    """Append the subtree of a node; its number."""
    number = len(nodes)
    if isinstance(node, dict) and "value" in node:
        nodes.append((LEAF, 0.0, 0, 0, False, float(weight * _single(node, "value"))))
        return number
    feature = take(node, "feature", "a split")
    if feature not in names:
        raise BadInput(f"a split is on '{shown(feature)}', which is no feature of the model")
    threshold = float(_single(node, "threshold") + SLACK)
    nodes.append((LEAF, 0.0, 0, 0, False, 0.0))
    left = _read_node(take(node, "left", "a split"), weight, names, nodes)
    right = _read_node(take(node, "right", "a split"), weight, names, nodes)
    # What equals the threshold goes left; nothing is missing any more.
    least = float(below(np.array([threshold]))[0])
    nodes[number] = (names.index(feature), least, left, right, False, 0.0)
    return number


def _single(content: Any, key: str) -> np.float32:
    """A number that Solr reads from a text, in float32."""
    text = take(content, key, "the model")
    try:
        return np.float32(text)
    except (TypeError, ValueError):
        raise BadInput(f"'{key}' of the model is {a_json(text)}, not a number") from None
