"""Elasticsearch's own learning to rank: a trained model as the body of PUT _ml/trained_models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.interop.engine_versions import ELASTIC, ServingProfile
from owpc_ltr.interop.formats.columns import positions
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model


def to_elastic(
    model: Model,
    featureset_names: Sequence[str],
    profile: ServingProfile,
    never_missing: Collection[str] = (),  # noqa: ARG001 - missing features follow the model
) -> dict[str, Any]:
    """The `definition` of a trained model that scores as the model does, in float64.

    Raises Refused: this engine takes trees alone.
    """
    if ELASTIC not in profile.missing:
        raise Refused(f"{profile} does not take Elasticsearch's own trained models")
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


def to_elastic_body(
    model: Model, featureset: FeatureSet, profile: ServingProfile
) -> dict[str, Any]:
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
        "definition": to_elastic(model, featureset.feature_names, profile),
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
