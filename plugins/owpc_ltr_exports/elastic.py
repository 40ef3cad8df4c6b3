"""Elasticsearch's own learning to rank: a trained model as the body of PUT _ml/trained_models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import parse_json, take_object
from owpc_ltr.formats.elastic_trees import WEIGHTED_SUM, read_ensemble
from owpc_ltr.formats.stored_model import body_text, positions
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.names import check_name
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model
from owpc_ltr.version import parse_version, version_text

_FIRST, _WITHOUT_INPUT = (8, 13), (8, 15)
"""The first version with learning to rank, and the first that refuses the names it asked for."""
_ID = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,62}[a-z0-9])?")
_LICENCE = "Elasticsearch takes it under an Enterprise licence (or a trial) only"
_SHIFT = "its scores there are the model's up to a constant, which newer versions add to be above 0"
_LOG_ODDS = "the model gives probabilities, and Elasticsearch their log-odds: the order is the same"


@dataclass(frozen=True)
class Elastic:
    """Elasticsearch's own learning to rank, which takes trees alone."""

    name: ClassVar[str] = "elastic"
    versions: ClassVar[tuple[str, ...]] = ("8.13", "8.15")

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        """The body of PUT _ml/trained_models/NAME, with the feature set's templates."""
        numbers = parse_version(version)
        if numbers < _FIRST:
            raise UsageError(
                f"Elasticsearch {version_text(numbers)} has no learning to rank of its own: that "
                "came with 8.13; use `target='elasticsearch'` with the LTR plugin, or a rescore "
                "chain"
            )
        _check_id(name)
        if featureset is None:
            raise UsageError(
                "Elasticsearch's own learning to rank keeps the queries of features with the "
                "model: give `featureset`"
            )
        body = to_elastic_body(model, featureset)
        if numbers < _WITHOUT_INPUT:
            body = {"input": {"field_names": list(featureset.feature_names)}, **body}
        request = f"PUT /_ml/trained_models/{name}"
        log_odds = isinstance(model, TreeModel) and model.link == "logistic"
        notes = (_LICENCE, _SHIFT, _LOG_ODDS)[: 3 if log_odds else 2]
        return ExportedFile(
            text=body_text(body),
            type=self.name,
            request=request,
            version=version_text(numbers),
            log_odds=log_odds,
            notes=notes,
        )

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """In float64, a missing value by each node's `default_left`."""
        where = "the request's body"
        body = parse_json(exported.text, where)
        named = isinstance(body, dict) and "input" in body
        if named != (parse_version(exported.version) < _WITHOUT_INPUT):
            raise BadInput(
                f"{where} {'names' if named else 'lacks'} input.field_names, which Elasticsearch "
                "needs up to 8.14 and refuses from 8.15"
            )
        trained = take_object(take_object(body, "definition", where), "trained_model", where)
        return read_ensemble(trained, feature_names).score(features)


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for elastic`."""
    return [Elastic]


def to_elastic(model: Model, featureset_names: Sequence[str]) -> dict[str, Any]:
    """The `definition` of a trained model that orders as the model does, in float64.

    Of a logistic model it is the log-odds: Elasticsearch's `logistic_regression` gives a class, 0
    or 1, by which nothing can be ranked.

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
    ensemble = {
        "feature_names": names,
        "trained_models": _trees(whole),
        "aggregate_output": {WEIGHTED_SUM: {}},
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
        "inference_config": {"learning_to_rank": {"feature_extractors": extractors}},
        "definition": to_elastic(model, featureset.feature_names),
    }


def _check_id(name: str) -> None:
    """As Elasticsearch checks it."""
    check_name("model", name)
    if not _ID.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a model of Elasticsearch: use up to 64 lower-case letters, "
            "digits, '_', '-' and dots, a letter or digit first and last"
        )


def _trees(model: TreeModel) -> list[dict[str, Any]]:
    forest = model.forest
    # Compared in float64, and by an order in which -0.0 is below 0.0: at -0.0 nothing changes.
    thresholds = np.where(forest.threshold == 0, -0.0, forest.threshold.astype(float)).tolist()
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
