"""`verify`: whether an uploaded model still scores as at its upload, by its deployment record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import text_table, wrapped_text
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.deployment.parity import (
    MAX_DRIFT,
    MIN_PROOF_COVERAGE,
    PARITY_TOLERANCE,
    FeatureDrift,
    Parity,
    ProofLimits,
    RankAgreement,
    drift_line,
    other_rankings,
)
from owpc_ltr.engine.options import MaxDrift, MinProofCoverage, Tolerance
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused, give_warning
from owpc_ltr.host.commands import ReportPage, write_report
from owpc_ltr.names import base_index, check_index
from owpc_ltr.signatures import Argument, Help, job
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord
    from owpc_ltr.engine.feature_log.job import Environment
    from owpc_ltr.engine.stores import Store
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.formats.stored_model import StoredModel

_MAPPING = "mapping_hash"


@dataclass(frozen=True, repr=False)
class Verification(ShortRepr):
    """The second proof of a model: `drift` has one text per change, and is empty without changes.

    `features` is the drift of each feature, the largest first, and `rankings` its effect on
    rankings. `parity` is None where nothing can be compared: the store has another feature set, or
    the index cannot compute it any more. `notes` are changes that are no drift: an index that was
    created again, or that an alias was switched to, with the same mapping. `switch` is what the
    alias was switched on: the evidence, or why without; empty where no model was replaced.
    """

    model: str
    index: str
    drift: tuple[str, ...]
    parity: Parity | None
    features: tuple[FeatureDrift, ...]
    rankings: RankAgreement | None = None
    notes: tuple[str, ...] = ()
    switch: str = ""

    @property
    def refusal(self) -> OwpcLtrError | None:
        """The error of a model that has drifted."""
        if not self.drift:
            return None
        return Refused(f"'{self.model}' has drifted since it was uploaded: {'; '.join(self.drift)}")

    def as_dict(self) -> dict[str, Any]:
        """What was found, as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = []
        if self.parity is None:
            lines.append("scores were not compared: the features have changed")
        else:
            rows = [(it.feature, it.by, it.mean_before, it.mean_now) for it in self.features]
            lines.append(text_table(["FEATURE", "DRIFT", "MEAN THEN", "MEAN NOW"], rows))
            lines.append(str(self.parity))
            lines.append(drift_line(self.features, self.rankings, "upload"))
        if not self.drift:
            lines += [*self.notes, f"'{self.model}' has not changed since it was uploaded"]
        lines += [wrapped_text(self.switch)] if self.switch else []
        return "\n".join(lines)


@job
def verify(
    cluster: Cluster,
    name: Annotated[
        str | None,
        Help("The name that applications use, or NAME-HASH.", project="alias"),
        Argument.NAME,
    ] = None,
    *,
    index: Annotated[
        str | None, Help("The index (or alias); default: that of its upload."), Argument.NAME
    ] = None,
    tolerance: Tolerance = PARITY_TOLERANCE,
    max_drift: MaxDrift = MAX_DRIFT,
    min_proof_coverage: MinProofCoverage = MIN_PROOF_COVERAGE,
    report: ReportPage = None,
) -> Verification:
    """Check an uploaded model again, and look for drift.

    Compares the feature set, the engine's version, the index, its mapping, the features of the
    model's judged documents, their scores and the search template with what the upload stored in
    the cluster, and sends the request of applications. The exit code is 5 if something drifted.

    Python: `drift` and `refusal` of the result say what drifted. External features are those of
    the upload, with a warning.

    Raises Refused where less than `min_proof_coverage` of the documents or queries are in the
    index.
    """
    from owpc_ltr.engine.deployment.alias import Aliases, switch_line, the_name
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
    from owpc_ltr.engine.deployment.search_template import SearchTemplates

    called = the_name(cluster.engine, cluster.stores, name)
    store = cluster.holding(called).store
    model = cluster.models.resolve(called)
    limits = ProofLimits(
        tolerance=tolerance, max_drift=max_drift, min_proof_coverage=min_proof_coverage
    )
    verification = verify_model(cluster.engine, store, model, index, limits=limits)
    if ":" not in called and (alias := Aliases(cluster.engine, store).find(called)):
        drift = SearchTemplates(cluster.engine, store).drift(called, alias.current)
        drifts = (*verification.drift, *filter(None, [drift]))
        verification = replace(verification, drift=drifts)
    deployment = DeploymentRecords(cluster.engine, store).find(model, whole=False)
    if deployment is not None and deployment.switch is not None:
        verification = replace(verification, switch=switch_line(deployment.switch))
    write_report(verification, report)
    return verification


def verify_model(
    engine: Engine,
    store: Store,
    model: str,
    index: str | None = None,
    *,
    limits: ProofLimits = ProofLimits(),  # noqa: B008 - it is frozen
) -> Verification:
    """Repeat the proof of a model by its immutable name, on the index that it was proved on.

    A feature has drifted if its values on the samples changed by more standard deviations in
    the mean than the limit. Raises BadInput where the model has no deployment record.
    """
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
    from owpc_ltr.engine.deployment.proof import prove, request_refusal
    from owpc_ltr.engine.feature_log.job import observe

    deployment = DeploymentRecords(engine, store).get(model)
    index = deployment.index if index is None else check_index(index)
    changed = _changed_set(store, deployment.featureset)
    if changed:
        return Verification(model, index, (changed,), None, ())
    now = observe(engine, store, deployment.featureset.name, index, purpose="verify on")
    drift, replaced = _changed_environment(deployment, now, index)
    notes = () if drift else tuple(replaced)
    stored = store.get_model(model)
    _warn_of_external_features(stored)
    try:
        proof = prove(
            engine,
            store,
            stored,
            deployment.ranker(),
            index=index,
            samples=deployment.samples,
            share=limits.min_proof_coverage,
        )
    except EngineRefusal:
        broken = _broken_features(engine, deployment, index)
        if not broken:
            raise
        return Verification(model, index, (*drift, *broken), None, (), notes=notes)
    parity = proof.parity
    far = [
        f"feature '{feature.feature}' drifted by {feature.by:.2g} standard deviations"
        for feature in proof.features
        if feature.by > limits.max_drift
    ]
    drift += far
    if parity.absent:
        drift.append(f"{parity.absent} of {parity.absent + parity.documents} documents are gone")
    refused = request_refusal(
        engine, store, stored, index=index, params=proof.params, interval=deployment.interval
    )
    drift += [str(refusal) for refusal in (parity.refusal(limits.tolerance), refused) if refusal]
    others = None if far else other_rankings(proof.rankings, limits.max_drift)
    drift += [others] if others else []
    return Verification(
        model,
        index,
        tuple(drift),
        parity,
        features=proof.features,
        rankings=proof.rankings,
        notes=notes,
    )


def _warn_of_external_features(stored: StoredModel) -> None:
    from owpc_ltr.formats.stored_model import joined_words

    if words := joined_words(stored):
        give_warning(f"{words}: values from outside the index, which were taken as at the upload")


def _changed_set(store: Store, before: FeatureSet) -> str | None:
    from owpc_ltr.engine.stores import changed_features

    try:
        now = store.get_featureset(before.name)
    except BadInput:
        return f"the feature set '{before.name}' is gone"
    if now.hash == before.hash:
        return None
    return f"{changed_features(before, now)} of the feature set '{before.name}' changed"


def _changed_environment(
    deployment: DeploymentRecord, now: Environment, index: str
) -> tuple[list[str], list[str]]:
    """Changes that affect scores, of engine, mapping and analysis; and replaced equal indices."""
    changes = [
        f"the engine's {name} changed from {value} to {now.engine.get(name)}"
        for name, value in deployment.engine.items()
        if now.engine.get(name) != value
    ]
    # An index that was loaded again has another name behind its alias, and is the same to users.
    before, after = (
        {base_index(name): facts for name, facts in indices.items()}
        for indices in (deployment.indices, now.indices)
    )
    if before.keys() == after.keys():
        changes += [
            f"the index '{name}' has another mapping or analysis"
            for name, facts in before.items()
            if facts.get(_MAPPING) != after[name].get(_MAPPING)
        ]
        return changes, [
            f"the index '{name}' was created again, with the same mapping and analysis"
            for name, facts in before.items()
            if facts.get("uuid") != after[name].get("uuid")
        ]
    names, names_then = ", ".join(now.indices), ", ".join(deployment.indices)
    switched = f"'{index}' is now {names} (at the upload {names_then})"
    mappings = [{facts.get(_MAPPING) for facts in indices.values()} for indices in (before, after)]
    if mappings[0] != mappings[1]:
        changes.append(f"{switched}, with another mapping or analysis")
    return changes, [f"{switched}, with the same mapping and analysis"]


def _broken_features(engine: Engine, deployment: DeploymentRecord, index: str) -> list[str]:
    """The features whose queries the index rejects, each searched by itself."""
    from owpc_ltr.engine.stores.feature_queries import compile_featureset
    from owpc_ltr.features.feature_set import DOC_IDS
    from owpc_ltr.features.query_analysis import named_fields

    params = {DOC_IDS: [], **(deployment.samples[0]["params"] if deployment.samples else {})}
    features = {feature.name: feature for feature in deployment.featureset.features}
    broken = []
    for part in compile_featureset(deployment.featureset).queries:
        body = {"query": part.query(params), "size": 1, "_source": False}
        try:
            engine.request("POST", f"/{index}/_search", body=body)
        except EngineRefusal as refusal:
            fields = {field.name for field in named_fields(features[part.name], params)}
            reads = f" (fields: {', '.join(sorted(fields))})" if fields else ""
            broken.append(
                f"feature '{part.name}'{reads} cannot be computed on '{index}': {refusal.reason}"
            )
    return broken
