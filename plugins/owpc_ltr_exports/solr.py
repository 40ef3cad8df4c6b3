"""Solr's learning to rank: a model as the JSON of its model store, linear or additive trees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.query_analysis import always_matches
from owpc_ltr.files.strict_json import a_json, parse_json, shown, take, take_list, take_object
from owpc_ltr.formats.engine_versions import LEGACY_BM25, ServingProfile, needs_zero_flag, positions
from owpc_ltr.formats.stored_model import body_text
from owpc_ltr.formats.tree_builder import GrowingForest, Node, below, node_table, up_to
from owpc_ltr.host.settings import check_settings
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.trees import HIGHEST, LEAF, TreeModel, shortest_floats, written_trees
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model
from owpc_ltr.text import Version, check_name, parse_version, version_text

PACKAGE = "org.apache.solr.ltr"
SLACK = np.float32(1e-6)
"""What Solr adds to every threshold."""


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


_FORMAT = "solr"


@dataclass(frozen=True)
class Solr:
    """Solr's own learning to rank, where a feature without a value counts 0.

    `store` is the feature store whose features the model reads.
    """

    name: ClassVar[str] = "solr"
    versions: ClassVar[tuple[str, ...]] = ("6.4", "8.0")

    store: str = "_DEFAULT_"

    def __post_init__(self) -> None:
        check_settings(self)

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        """The body of a request to the model store."""
        profile = solr_profile(parse_version(version))
        check_name("model", name)
        features = () if featureset is None else featureset.features
        always = {feature.name for feature in features if always_matches(feature)}
        body = to_solr(model, profile, always, name=name, store=self.store)
        request = "PUT /solr/COLLECTION/schema/model-store"
        return ExportedFile(body_text(body), body["class"], request, version_text(profile.version))

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """In float32: each feature filled with 0 and normalised, then weighed or compared.

        Raises BadInput for a text that is not such a model.
        """
        where = "the request's body"
        body = parse_json(exported.text, where)
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


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for solr`."""
    return [Solr]


def solr_profile(version: Version) -> ServingProfile:
    """What Solr of a version does with models."""
    return ServingProfile(
        "solr",
        version,
        {_FORMAT: "zero"},
        {},
        missing_as_zero=False,
        bm25_factor=1.0 if version >= (8,) else LEGACY_BM25,
    )


def to_solr(
    model: Model,
    profile: ServingProfile,
    never_missing: Collection[str] = (),
    *,
    name: str = "owpc",
    store: str = "_DEFAULT_",
) -> dict[str, Any]:
    """The body for Solr's model store, which scores as the model does.

    A feature without a value counts 0. Raises Refused where Solr cannot score it so.
    """
    if isinstance(model, LinearModel):
        kind, parameters = "LinearModel", _linear(model)
        normalisers = model.normalisers
    elif isinstance(model, TreeModel):
        if model.link != "identity":
            raise Refused("Solr has no logistic output: train with rank:ndcg")
        needs_zero_flag(model, _FORMAT, profile, never_missing)
        kind, parameters = "MultipleAdditiveTreesModel", _trees(model.with_base_as_tree())
        normalisers = {}
    else:
        raise Refused(f"a model of kind '{model.kind}' has no form in Solr here")
    return {
        "class": f"{PACKAGE}.model.{kind}",
        "store": store,
        "name": name,
        "features": [_feature(feature, normalisers) for feature in model.feature_names],
        "params": parameters,
    }


def _feature(name: str, normalisers: dict[str, Normaliser]) -> dict[str, Any]:
    if name not in normalisers:
        return {"name": name}
    n = normalisers[name]
    if n.kind == "standard":
        norm, parameters = "StandardNormalizer", {"avg": str(n.shift), "std": str(n.scale)}
    else:
        norm = "MinMaxNormalizer"
        parameters = {"min": str(n.shift), "max": str(n.shift + n.scale)}
    return {"name": name, "norm": {"class": f"{PACKAGE}.norm.{norm}", "params": parameters}}


def _linear(model: LinearModel) -> dict[str, Any]:
    weights = shortest_floats(model.weights.astype(np.float32))
    return {"weights": dict(zip(model.feature_names, weights, strict=True))}


def _trees(model: TreeModel) -> dict[str, Any]:
    forest = model.forest
    thresholds = shortest_floats(_before_slack(up_to(forest.threshold)))
    outputs = shortest_floats(forest.value.astype(np.float32))

    def leaf(node: int) -> dict[str, Any]:
        return {"value": str(outputs[node])}

    def split(node: int, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        name = model.feature_names[forest.feature[node]]
        return {"feature": name, "threshold": str(thresholds[node]), "left": left, "right": right}

    return {"trees": [{"weight": "1", "root": root} for root in written_trees(forest, leaf, split)]}


def _before_slack(thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Numbers that become the wanted thresholds when Solr adds its slack in float32.

    Where no float32 number does, the next lower threshold that one can reach: 1.2e-13 or one
    float32 step away, and never across a value that was trained on.
    """
    with np.errstate(over="ignore"):
        thresholds = np.maximum(thresholds, np.float32(-HIGHEST))
        start = thresholds - SLACK
        low, high = (np.nextafter(start, np.float32(end)) for end in (-np.inf, np.inf))
        best = np.where(start + SLACK <= thresholds, start, low)
        return np.where(high + SLACK <= thresholds, high, best)
