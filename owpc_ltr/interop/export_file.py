"""A model as the file that an engine takes by itself: what to send, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from owpc_ltr.errors import UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.value_bounds import always_matches
from owpc_ltr.interop.engine_versions import ELASTIC, SOLR, ServingProfile
from owpc_ltr.interop.export import check_features, export_checked
from owpc_ltr.interop.formats.elastic import to_elastic_body
from owpc_ltr.interop.formats.solr import to_solr
from owpc_ltr.interop.stored_model import ranker_source
from owpc_ltr.names import check_name
from owpc_ltr.protocols import Model


@dataclass(frozen=True)
class Exported:
    """The body of the request that makes the model: its type in the engine, and the request."""

    content: dict[str, Any]
    type: str
    request: str


def export_file(
    model: Model, profile: ServingProfile, name: str, featureset: FeatureSet | None = None
) -> Exported:
    """The model for one version of an engine, scored there as here.

    Without the feature set it is not known which features match every document. Raises Refused
    where the engine cannot score the model so, UsageError where it needs the set's queries.
    """
    check_name("model", name)
    if featureset is not None:
        check_features(model, featureset)
    known = featureset or _unknown(model.feature_names)
    if ELASTIC in profile.missing:
        if featureset is None:
            raise UsageError(
                "Elasticsearch's own learning to rank keeps the queries of features with the "
                "model: give --featureset FILE"
            )
        body = to_elastic_body(model, known, profile)
        return Exported(body, ELASTIC, f"PUT /_ml/trained_models/{name}")
    if SOLR in profile.missing:
        always = {feature.name for feature in known.features if always_matches(feature)}
        body = to_solr(model, known.feature_names, profile, always, name=name)
        return Exported(body, body["class"], "PUT /solr/COLLECTION/schema/model-store")
    stored = export_checked(model, known, name, profile)
    body = {"model": {"name": name, "model": ranker_source(stored)}}
    where = featureset.name if featureset is not None else "FEATURESET"
    return Exported(body, stored.type, f"POST /_ltr/_featureset/{where}/_createmodel")


def _unknown(names: tuple[str, ...]) -> FeatureSet:
    """Features of these names, of which nothing else is known."""
    return FeatureSet("unknown", tuple(Feature(name, (), "") for name in names))
