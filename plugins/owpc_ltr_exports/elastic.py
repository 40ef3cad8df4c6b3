"""Elasticsearch's own learning to rank: a trained model as the body of PUT _ml/trained_models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import (
    a_json,
    parse_json,
    shown,
    take,
    take_integers,
    take_list,
    take_numbers,
    take_object,
    take_strings,
)
from owpc_ltr.interop.engine_versions import parse_version, version_text
from owpc_ltr.interop.formats.columns import positions
from owpc_ltr.interop.formats.tree_builder import GrowingForest, Node, node_table, rounded_up
from owpc_ltr.interop.request_body import body_text
from owpc_ltr.models.forest import LEAF
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.names import check_name
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model

_LINKS = {"weighted_sum": "identity", "logistic_regression": "logistic"}
"""What Elasticsearch calls what is done to the sum of the trees."""


@dataclass(frozen=True)
class Elastic:
    """Elasticsearch's own learning to rank, which takes trees alone."""

    name: ClassVar[str] = "elastic"
    versions: ClassVar[tuple[str, ...]] = ("8.12",)

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        """The body of PUT _ml/trained_models/NAME, with the feature set's templates."""
        numbers = parse_version(version)
        check_name("model", name)
        if featureset is None:
            raise UsageError(
                "Elasticsearch's own learning to rank keeps the queries of features with the "
                "model: give --featureset FILE"
            )
        text = body_text(to_elastic_body(model, featureset))
        request = f"PUT /_ml/trained_models/{name}"
        return ExportedFile(text, self.name, request, version_text(numbers))

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """In float64, a missing value by each node's `default_left`."""
        where = "the request's body"
        body = parse_json(exported.text, where)
        trained = take_object(take_object(body, "definition", where), "trained_model", where)
        return read_ensemble(trained, feature_names).score(features)


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for elastic`."""
    return [Elastic]


def to_elastic(model: Model, featureset_names: Sequence[str]) -> dict[str, Any]:
    """The `definition` of a trained model that scores as the model does, in float64.

    Raises Refused: this engine takes trees alone.
    """
    positions(model.feature_names, featureset_names)
    if not isinstance(model, TreeModel):
        raise Refused(
            f"Elasticsearch's own learning to rank has no model of kind '{model.kind}': serve it "
            "as a rescore chain, or train trees"
        )
    names = list(model.feature_names)
    whole = model.with_base_as_tree()
    output = "weighted_sum" if model.link == "identity" else "logistic_regression"
    ensemble = {
        "feature_names": names,
        "trained_models": _trees(whole),
        "aggregate_output": {output: {}},
        "target_type": "regression",
    }
    return {"trained_model": {"ensemble": ensemble}}


def to_elastic_body(model: Model, featureset: FeatureSet) -> dict[str, Any]:
    """The whole body of PUT _ml/trained_models/NAME, with the feature set's templates.

    Raises Refused for a template that is not a mustache query.
    """
    extractors = []
    for feature in featureset.features:
        if feature.template_language != "mustache" or not isinstance(feature.template, dict):
            raise Refused(
                f"the feature '{feature.name}' is not a mustache query as an object, which alone "
                "Elasticsearch's own learning to rank extracts"
            )
        extractors.append(
            {"query_extractor": {"feature_name": feature.name, "query": feature.template}}
        )
    return {
        "input": {"field_names": list(featureset.feature_names)},
        "inference_config": {"learning_to_rank": {"feature_extractors": extractors}},
        "definition": to_elastic(model, featureset.feature_names),
    }


def _trees(model: TreeModel) -> list[dict[str, Any]]:
    forest = model.forest
    thresholds = forest.threshold.astype(float).tolist()  # compared in float64
    left, leaves = forest.left.tolist(), forest.is_leaf.tolist()
    default_left, outputs = forest.default_left.tolist(), forest.value.tolist()
    trees = []
    for nodes in forest.tree_nodes():
        structure: list[dict[str, Any]] = []
        for node in nodes:
            number = node - nodes.start
            if leaves[node]:
                structure.append({"node_index": number, "leaf_value": outputs[node]})
                continue
            structure.append(
                {
                    "node_index": number,
                    "decision_type": "lt",
                    "left_child": left[node] - nodes.start,
                    "right_child": left[node] + 1 - nodes.start,
                    "split_feature": int(forest.feature[node]),
                    "threshold": thresholds[node],
                    "default_left": default_left[node],
                }
            )
        tree = {"feature_names": list(model.feature_names), "tree_structure": structure}
        trees.append({"tree": {**tree, "target_type": "regression"}})
    return trees


def read_ensemble(trained: dict[str, Any], feature_names: Sequence[str]) -> TreeModel:
    """The model that an ensemble of trees is. Raises BadInput for any other trained model."""
    where = "the ensemble"
    ensemble = take_object(trained, "ensemble", "the trained model")
    output = "".join(take_object(ensemble, "aggregate_output", where))
    if output not in _LINKS:
        raise BadInput(f"{where} aggregates by '{shown(output)}', not {' or '.join(_LINKS)}")
    names = take_strings(ensemble, "feature_names", where)
    columns = positions(names, feature_names)
    growing = GrowingForest()
    for part in take_list(ensemble, "trained_models", where):
        tree = take_object(part, "tree", where)
        if take_strings(tree, "feature_names", where) != names:
            raise BadInput(f"a tree of {where} has other features than it")
        nodes = take_list(tree, "tree_structure", where)
        growing.add(node_table([_read_node(node, columns) for node in nodes]), where)
    return TreeModel(tuple(feature_names), growing.forest(where), link=_LINKS[output])


def _read_node(node: Any, columns: list[int]) -> Node:
    where = "a node of the ensemble"
    if isinstance(node, dict) and "leaf_value" in node:
        return (
            LEAF,
            0.0,
            0,
            0,
            False,
            float(take_numbers({"v": [node["leaf_value"]]}, "v", where)[0]),
        )
    if take(node, "decision_type", where) != "lt":
        raise BadInput(f"{where} decides by {a_json(node['decision_type'])}, not lt")
    split, left, right, default = (
        take(node, key, where)
        for key in ("split_feature", "left_child", "right_child", "default_left")
    )
    threshold = take_numbers({"threshold": [take(node, "threshold", where)]}, "threshold", where)
    whole = take_integers({"split": [split, left, right]}, "split", where).tolist()
    if not 0 <= whole[0] < len(columns) or type(default) is not bool:
        raise BadInput(f"{where} is not a split: {a_json(node)}")
    # Float32 values are below a float64 threshold where they are below the next float32 upwards.
    return columns[whole[0]], float(rounded_up(threshold)[0]), whole[1], whole[2], default, 0.0
