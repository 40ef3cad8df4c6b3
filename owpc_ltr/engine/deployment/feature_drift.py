"""How far the features of judged documents moved, and what that does to rankings.

Statistics of an index change with every document, and with them all text scores, though nothing
is wrong. How far a feature moved is told in standard deviations of what it was, so that one limit
serves them all.

Drift: whether a model in a cluster still meets there what it met when it was uploaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.external_features.columns import ExternalColumns, columns_for, refuse_unused
from owpc_ltr.data.external_features.source import external_names, in_words
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.deployment.deployment_record import Certificate, Certificates
from owpc_ltr.engine.deployment.parity import (
    Answered,
    Orders,
    Parity,
    check_parity,
    orders_of,
)
from owpc_ltr.engine.feature_log.environment import Environment, observe
from owpc_ltr.engine.options import MAX_DRIFT, MIN_PROOF_COVERAGE
from owpc_ltr.engine.stores.feature_queries import compile_featureset
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import BadInput, give_warnings
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.named_fields import named_fields
from owpc_ltr.formats.model_conversion import joined_in
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.names import base_index, check_index

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable

_MAPPING = "mapping_hash"


@dataclass(frozen=True)
class Moved:
    """One feature over the samples: how far it moved, in standard deviations of what it was.

    `mean_before` and `mean_now` count a missing value as 0; `newly_missing` is the share of values
    that are missing in one of the two only.
    """

    feature: str
    by: float
    mean_before: float
    mean_now: float
    newly_missing: float


def drift_refusal(
    features: Sequence[Moved], rankings: Orders | None, max_drift: float
) -> str | None:
    """Why a model must not be used on features that moved so far, in words; None if it may."""
    if not features or rankings is None or features[0].by <= max_drift:
        return None
    furthest = features[0]
    return (
        f"feature '{furthest.feature}' is not what it was when the model was trained: it moved by "
        f"{furthest.by:.3g} standard deviations in the mean ({max_drift:g} is allowed), which does "
        f"to rankings: {rankings.words}; log features again and train on them, or allow more with "
        "--max-drift"
    )


def moved_features(names: tuple[str, ...], answered: Sequence[Answered]) -> tuple[Moved, ...]:
    """How far each feature moved between what the samples remember and now, the furthest first.

    `names` are those of the first columns: what stands after them was not asked for now.
    """
    pairs = [(one.before, one.features) for one in answered if one.before is not None]
    if not pairs:
        return ()
    before, now = (
        np.concatenate([pair[side] for pair in pairs])[:, : len(names)].astype(np.float64)
        for side in (0, 1)
    )
    missing = np.isnan(before) != np.isnan(now)
    before, now = np.nan_to_num(before), np.nan_to_num(now)
    spread = before.std(axis=0)
    # A feature that was constant is measured by its own size.
    scale = np.where(spread > 0, spread, np.maximum(np.abs(before).max(axis=0), 1e-9))
    by = np.abs(now - before).mean(axis=0) / scale
    return tuple(
        Moved(
            names[column],
            float(by[column]),
            float(before[:, column].mean()),
            float(now[:, column].mean()),
            float(missing[:, column].mean()),
        )
        for column in np.argsort(-by, kind="stable")
    )


def moved_rankings(answered: Sequence[Answered]) -> Orders | None:
    """The rankings by the features of now against those that are remembered, if any are."""
    known = [(one.labels, one.earlier, one.local) for one in answered if one.earlier is not None]
    return orders_of(known) if known else None


@dataclass(frozen=True)
class Verified:
    """What was found of a model: `drift` in words, nothing if all is as it was.

    `features` are all of them, those that moved most first, and `rankings` what that does to
    rankings; `parity` is None where nothing can be compared: the feature set in the store is
    another, or the index cannot compute it any more. `notes` tell what changed without being drift:
    an index that was made again, or that an alias was switched to, with the same mapping.
    """

    model: str
    index: str
    drift: tuple[str, ...]
    parity: Parity | None
    features: tuple[Moved, ...]
    rankings: Orders | None = None
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What was found, as JSON."""
        return asdict(self)


def verify(
    engine: Engine,
    store: Store,
    model: str,
    index: str | None = None,
    *,
    tolerance: float,
    max_drift: float = MAX_DRIFT,
    min_proof_coverage: float = MIN_PROOF_COVERAGE,
    tables: Sequence[ExternalTable] = (),
) -> Verified:
    """Repeat the proof of an uploaded model, from what the cluster itself remembers of it.

    The index is the one that it was proved on, unless another is given. A feature has drifted where
    its values on the samples moved by more than `max_drift` standard deviations in the mean.
    Values that are in no index are looked up in the `tables`; without them they are those of the
    upload, of which is warned.
    Raises BadInput where the model has no certificate, and Refused where less than
    `min_proof_coverage` of its documents or queries are in the index.
    """
    certificate = Certificates(engine, store).get(model)
    index = certificate.index if index is None else check_index(index)
    drift = _changed_set(store, certificate.featureset)
    if drift:
        return Verified(model, index, tuple(drift), None, ())
    now = _observed(engine, store, certificate.featureset.name, index)
    drift += _changed_environment(certificate, now, index)
    notes = () if drift else tuple(_replaced_indices(certificate, now, index))
    stored = store.get_model(model)
    joined = _joined(stored, tables)
    try:
        parity, answered = check_parity(
            engine,
            store,
            stored,
            certificate.ranker(),
            index,
            list(certificate.samples),
            share=min_proof_coverage,
            joined=joined,
        )
    except EngineRefusal:
        broken = _broken_features(engine, certificate, index)
        if not broken:
            raise
        return Verified(model, index, (*drift, *broken), None, (), notes=notes)
    asked = certificate.featureset.feature_names + (joined.feature_names if joined else ())
    features = moved_features(asked, answered)
    far = [one for one in features if one.by > max_drift]
    drift += [f"feature '{one.feature}' moved by {one.by:.2g} standard deviations" for one in far]
    if parity.absent:
        drift.append(f"{parity.absent} of {parity.absent + parity.documents} documents are gone")
    refusal = parity.refusal(tolerance)
    if refusal:
        drift.append(refusal)
    rankings = moved_rankings(answered)
    return Verified(model, index, tuple(drift), parity, features, rankings, notes)


def _joined(stored: StoredModel, tables: Sequence[ExternalTable]) -> ExternalColumns | None:
    sources, whose = joined_in(stored), f"the model '{stored.name}'"
    refuse_unused(sources, tables, whose)
    if sources and not tables:
        give_warnings([
            f"{in_words(external_names(sources), sources)}: values of no index, which were taken "
            "as at the upload; to prove that they are found, give the table with --extra-features "
            "FILE"
        ])  # fmt: skip
        return None
    return columns_for(sources, tables, whose)


def _changed_set(store: Store, known: FeatureSet) -> list[str]:
    try:
        now = store.get_featureset(known.name)
    except BadInput:
        return [f"the feature set '{known.name}' is gone"]
    if now.hash == known.hash:
        return []
    old, new = ({f.name: f for f in each.features} for each in (known, now))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    what = ", ".join(f"'{name}'" for name in changed) or "the order of features"
    return [f"{what} of the feature set '{known.name}' changed"]


def _observed(engine: Engine, store: Store, featureset: str, index: str) -> Environment:
    try:
        return observe(engine, store, featureset, index)
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise
        raise BadInput(f"there is no index '{index}' to verify on: check its name") from refusal


def _changed_environment(certificate: Certificate, now: Environment, index: str) -> list[str]:
    """What scores may depend on: the engine, and the mapping and analysis of each index."""
    changes = [
        f"the engine's {name} changed from {value} to {now.engine.get(name)}"
        for name, value in certificate.engine.items()
        if now.engine.get(name) != value
    ]
    # What was made anew has another name behind its alias, and is the same index to people.
    then = {base_index(index): known for index, known in certificate.indices.items()}
    there = {base_index(index): known for index, known in now.indices.items()}
    if then.keys() == there.keys():
        return changes + [
            f"the index '{index}' has another mapping or analysis"
            for index, known in then.items()
            if known.get(_MAPPING) != there[index].get(_MAPPING)
        ]
    if {known.get(_MAPPING) for known in then.values()} != {
        known.get(_MAPPING) for known in there.values()
    }:
        changes.append(f"{_switched(certificate, now, index)}, with another mapping or analysis")
    return changes


def _replaced_indices(certificate: Certificate, now: Environment, index: str) -> list[str]:
    """Indices that are others than at the upload, with the same mapping and analysis."""
    then, there = (
        {base_index(name): known.get("uuid") for name, known in indices.items()}
        for indices in (certificate.indices, now.indices)
    )
    if then.keys() != there.keys():
        return [f"{_switched(certificate, now, index)}, with the same mapping and analysis"]
    return [
        f"the index '{name}' was made again, with the same mapping and analysis"
        for name, uuid in then.items()
        if uuid != there[name]
    ]


def _switched(certificate: Certificate, now: Environment, index: str) -> str:
    before, after = ", ".join(certificate.indices), ", ".join(now.indices)
    return f"'{index}' is now {after} (at the upload {before})"


def _broken_features(engine: Engine, certificate: Certificate, index: str) -> list[str]:
    """The features whose queries the index refuses, each asked by itself."""
    params = certificate.samples[0]["params"] if certificate.samples else {}
    features = {feature.name: feature for feature in certificate.featureset.features}
    broken = []
    for part in compile_featureset(certificate.featureset).queries:
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
