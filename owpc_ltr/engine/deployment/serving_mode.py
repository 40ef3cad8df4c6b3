"""Serving mode: whether the engine or the client scores a model, and how a store keeps it.

Without the plugin an engine runs linear models, and others by scripts where they fit. A linear
model takes a script where its scores have no known lower end. For others the number of feature
queries and tables decides, so that the same model is served alike whenever it is uploaded. The
client scores all other models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.feature_sources import external_names, in_words
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.proof import Proof, request_refusal
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import DERIVED, MUSTACHE, FeatureSet
from owpc_ltr.features.query_analysis import highest_value, never_negative
from owpc_ltr.formats.plugin_free import PluginFreeModel, plugin_free_model, store_plugin_free
from owpc_ltr.formats.stored_model import (
    StoredModel,
    for_engine,
    is_client_scored,
    joined_sources,
    joined_used,
    samples_of_columns,
    store_for_client,
)
from owpc_ltr.models.analysis import ScoreInterval, features_used, score_interval, with_features
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import unpacked, with_record
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model

MOST_QUERIES, MOST_TABLES = 64, 64
"""What an engine runs: some 10 ms at a window of 100, 30 on a busy node."""


@dataclass(frozen=True)
class ServingMode:
    """A model as a store keeps it; `words` say where it runs and why, if that was a choice."""

    stored: StoredModel
    words: str = ""

    def as_dict(self) -> dict[str, Any] | None:
        """The choice as JSON; None where there was none."""
        if not self.words:
            return None
        runs_in = "client" if is_client_scored(self.stored) else "engine"
        return {"runs_in": runs_in, "why": self.words}


@dataclass(frozen=True)
class ServingCase:
    """A model that a cluster is to serve; `samples` are queries, as a model remembers them.

    `warnings` are about its external features.
    """

    engine: Engine
    store: Store
    model: Model
    featureset: FeatureSet
    name: str
    index: str
    samples: Sequence[dict[str, Any]] = field(repr=False)
    warnings: tuple[str, ...] = ()

    def exported(self) -> StoredModel:
        """The model as the store keeps it and the engine runs it, whatever it costs."""
        return self.store.export(self.model, self.featureset, self.name)


def choose_serving_mode(
    case: ServingCase, window: int, tolerance: float, *, client_scored: bool = False
) -> ServingMode:
    """The model for the engine; for the client where scripts do not fit, or are not allowed.

    With `client_scored` always for the client. Raises Refused where neither can score the model.
    """
    if case.store.kind == "ltr-plugin" and not client_scored:
        return ServingMode(case.exported())
    needs_client = "as requested" if client_scored else case.featureset.why_by_client
    if needs_client:
        return _by_client(case, needs_client)
    if isinstance(case.model, LinearModel):
        interval = _known_interval(case)
        # Without a script nothing can be refused.
        mode = ServingMode(case.exported())
        return mode if interval.proven else _tried(case, mode, interval, window)
    try:
        stored = store_plugin_free(case.model, case.featureset, case.name)
        form = plugin_free_model(stored)
        assert form is not None  # noqa: S101 - told to the type checker
        _check_precision(case, form, tolerance)
        _check_size(case, form)
    except Refused as refusal:
        return _by_client(case, str(refusal))
    words = (
        f"it runs inside the engine: {form.in_words()}; scores there are the model's plus "
        f"{form.shift:.6g}"
    )
    return _tried(case, ServingMode(stored, words), _known_interval(case), window)


def _tried(
    case: ServingCase, mode: ServingMode, interval: ScoreInterval, window: int
) -> ServingMode:
    """In the engine, unless it refuses the request for the model: it may allow no scripts."""
    refusal = request_refusal(
        case.engine,
        case.store,
        mode.stored,
        index=case.index,
        params=case.samples[0]["params"],
        interval=interval,
        window=window,
    )
    if refusal is None:
        return mode
    return _by_client(case, f"the engine refuses the request for it ({refusal.reason})")


def _known_interval(case: ServingCase) -> ScoreInterval:
    """The interval of the model's scores, as far as the queries of its features bound them."""
    seen = np.zeros((2, len(case.model.feature_names)), np.float32)
    return _interval(case.model, case.featureset, seen)


def _interval(model: Model, featureset: FeatureSet, seen: Matrix) -> ScoreInterval:
    """The interval of a model's scores; `seen` (2, n_features) as `score_interval` has it."""
    scores = {feature.name for feature in featureset.features if never_negative(feature)}
    highest = {feature.name: highest_value(feature) for feature in featureset.features}
    return score_interval(model, scores, seen, highest)


def proved_interval(model: Model, featureset: FeatureSet, proof: Proof) -> ScoreInterval:
    """The interval of the model's scores, from the values that its features can have.

    An unbounded feature is assumed to stay within twice its values in training and now. Where that
    gives no interval, it is twice the scores that were seen.
    """
    seen = np.vstack([np.nan_to_num(scored.features) for scored in proof.answered])
    ranges: Matrix = np.vstack([seen.min(axis=0), seen.max(axis=0)])
    trained = model.record.get("feature_ranges")
    if trained is not None and np.shape(trained) == ranges.shape:
        ranges[0] = np.minimum(ranges[0], trained[0])
        ranges[1] = np.maximum(ranges[1], trained[1])
    with np.errstate(over="ignore"):
        interval = _interval(model, featureset, 2 * ranges)
    if math.isfinite(interval.low):
        return interval
    local = np.concatenate([[0.0], *(scored.local for scored in proof.answered)])
    return ScoreInterval(2 * float(local.min()), 2 * float(local.max()), proven=False)


def _by_client(case: ServingCase, why: str) -> ServingMode:
    stored = store_for_client(case.model, case.featureset, case.name)
    return ServingMode(stored, f"the client scores it: {why}")


def _check_size(case: ServingCase, form: PluginFreeModel) -> None:
    """Refuse a model that would slow every search down."""
    queries, tables = form.size
    if queries <= MOST_QUERIES and tables <= MOST_TABLES:
        return
    fewer = "fewer features"
    if isinstance(case.model, TreeModel):
        fewer = "optimizer.interactions=20, or fewer features"
    raise Refused(
        f"inside the engine it is {form.in_words()}, and at most {MOST_QUERIES} feature queries "
        f"and {MOST_TABLES} tables run there: train with {fewer}"
    )


def _check_precision(case: ServingCase, form: PluginFreeModel, tolerance: float) -> None:
    """Refuse scores of which float32 sums lose more than the tolerance."""
    names = case.featureset.feature_names
    for sample in case.samples:
        if "features" not in sample:
            continue
        rows = unpacked(sample["features"], len(sample["document_ids"]), len(names))
        local = case.model.score(rows)
        lost = np.abs(form.score(names, rows) - form.shift - local) / np.maximum(1, np.abs(local))
        if lost.max(initial=0.0) > tolerance:
            raise Refused(
                f"its scores in float32, as an engine sums them, are off by {lost.max():.1g}, and "
                f"{tolerance:g} is allowed"
            )


def with_external_features(case: ServingCase, *, client_scored: bool) -> ServingCase:
    """The model without external features, unless it uses them and the client is to score it.

    Raises Refused for a model that uses some and is to run in an engine, and for a store that keeps
    no models for the client.
    """
    model = case.model
    if client_scored and case.store.kind == "ltr-plugin":
        raise Refused(
            "the LTR plugin's store keeps no model that the client scores: push its feature set "
            "(featureset push), and upload it, both with `store_kind='plugin-free'`"
        )
    sources = joined_sources(model)
    if not sources:
        return case
    names = external_names(sources)
    if not (client_scored and joined_used(model)):
        small = for_engine(model)
        width = len(model.feature_names)
        samples = samples_of_columns(case.samples, width, range(width - len(names)))
        unused = f"the model does not use {in_words(names, sources)}: it was left out"
        return replace(case, model=small, samples=samples, warnings=(unused,))
    not_proved = (
        f"{in_words(names, sources)}: values from outside the index, which the proof took as the "
        "model remembers them; owpc-ltr serve looks them up"
    )
    return replace(case, warnings=(not_proved,))


def with_fewer_features(case: ServingCase) -> ServingCase:
    """The model with only the features that it uses, where the store computes whole sets.

    The LTR plugin computes every feature of a model's set in each search, whatever its weight.
    Names of features and parameters stay. The case is unchanged where nothing can be left out.
    """
    featureset, names = case.featureset, case.featureset.feature_names
    languages = {feature.template_language for feature in featureset.features}
    needed = set(features_used(case.model))
    if case.store.kind != "ltr-plugin" or not needed or not languages <= {MUSTACHE, DERIVED}:
        return case
    for feature in reversed(featureset.features):
        if feature.name in needed:
            needed |= set(featureset.derived_from.get(feature.name, ()))
    if needed >= set(names):
        return case
    places = [place for place, name in enumerate(names) if name in needed]
    small = with_features(case.model, [names[place] for place in places])
    record = dict(small.record)
    ranges = np.array(record.get("feature_ranges") or [], dtype=np.float64)
    if ranges.shape == (2, len(names)):
        record["feature_ranges"] = ranges[:, places].tolist()
    return replace(
        case,
        model=with_record(small, record),
        featureset=replace(
            featureset,
            features=tuple(featureset.features[place] for place in places),
            validation=None,
        ),
        samples=samples_of_columns(case.samples, len(names), places),
    )
