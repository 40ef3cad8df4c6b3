"""The form in which a store keeps a model, and a version of an engine runs it.

Without the plugin an engine runs linear models, and others by scripts where they fit. Whether a
model is small enough for that is decided by the number of its feature queries and tables, so that
the same model is served alike whenever it is uploaded; or, where a budget is given, by the time
that it adds on the user's index. What is left the client scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.immutable import immutable_name
from owpc_ltr.engine.search.latency import Subject, added_milliseconds, ask_with
from owpc_ltr.engine.search.request import default_query
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.engine_versions import serving_profile
from owpc_ltr.formats.export import export_checked, export_model, is_client_scored, store_for_client
from owpc_ltr.formats.plugin_free.form import plugin_free_model, store_plugin_free
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.additive import AdditiveModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.parity_samples import unpacked
from owpc_ltr.protocols import Model

_QUERIES = 20
MOST_QUERIES, MOST_TABLES = 64, 64
"""What an engine runs without a measurement: some 10 ms at a window of 100, 30 on a busy node."""


@dataclass(frozen=True)
class Budget:
    """How many milliseconds scripts may add to a search of the window; 0 for no scripts at all.

    None for no measurement: a limit on feature queries and tables decides. `query` is an
    application's own, with {{keywords}}; left out, all text fields are searched.
    """

    milliseconds: float | None = None
    query: Mapping[str, Any] | None = None
    window: int = 100
    repeat: int = 20


@dataclass(frozen=True)
class Form:
    """A model as a store keeps it, where that was chosen: `words` say what and why."""

    stored: StoredModel
    words: str = ""
    added_ms: float | None = None
    budget_ms: float | None = None

    def as_dict(self) -> dict[str, Any] | None:
        """What was chosen as JSON; None where there was no choice."""
        if not self.words:
            return None
        runs_in = "client" if is_client_scored(self.stored) else "engine"
        measured = {"added_ms": self.added_ms, "budget_ms": self.budget_ms}
        return {"runs_in": runs_in, "why": self.words, **measured}


@dataclass(frozen=True)
class _Case:
    """A model that a plain engine may run."""

    engine: Engine
    store: Store
    model: Model
    featureset: FeatureSet
    name: str
    index: str
    samples: Sequence[Mapping[str, Any]] = field(repr=False)


def export_for(
    engine: Engine, store: Store, model: Model, featureset: FeatureSet, name: str
) -> StoredModel:
    """The model as this store keeps it, in the form that this version of the engine runs.

    What it costs there is not looked at. Raises Refused, before anything is sent, where the engine
    would not take it.
    """
    if store.kind == "ltr-plugin":
        if isinstance(model, AdditiveModel):
            raise Refused(
                "the LTR plugin has no additive models, and any engine runs them by scripts: push "
                "its feature set (featureset push), and upload it, both with --store-kind "
                "plugin-free"
            )
        identity = engine.identity()
        profile = serving_profile(identity.distribution, identity.version)
        return export_checked(model, featureset, name, profile)
    if isinstance(model, LinearModel):
        return export_model(model, featureset, name, store.kind)
    try:
        return store_plugin_free(model, featureset, name)
    except Refused:
        return store_for_client(model, featureset, name)


def form_for(
    engine: Engine,
    store: Store,
    model: Model,
    featureset: FeatureSet,
    name: str,
    index: str,
    samples: Sequence[Mapping[str, Any]],
    budget: Budget,
    tolerance: float,
    *,
    client_scored: bool = False,
) -> Form:
    """The same, but the client's where scripts do not fit, are not exact enough, or cost too much.

    With `client_scored` the client's, whatever the engine could run.

    `samples` are queries to measure with, as a model remembers them. Raises Refused where nobody
    can score the model.
    """
    if not client_scored and (store.kind == "ltr-plugin" or isinstance(model, LinearModel)):
        return Form(export_for(engine, store, model, featureset, name))
    case = _Case(engine, store, model, featureset, name, index, samples)
    if client_scored:
        return _by_client(case, "it was asked for")
    if budget.milliseconds is not None and budget.milliseconds <= 0:
        return _by_client(case, "the budget for scripts is 0")
    try:
        stored = store_plugin_free(model, featureset, name)
        _check_precision(case, stored, tolerance)
        decide = _small if budget.milliseconds is None else _measured
        return decide(case, stored, budget)
    except Refused as refusal:
        return _by_client(case, str(refusal))


def _by_client(case: _Case, why: str) -> Form:
    stored = store_for_client(case.model, case.featureset, case.name)
    return Form(stored, f"the client scores it: {why}")


def _small(case: _Case, stored: StoredModel, budget: Budget) -> Form:
    """The form, unless it is larger than what an engine runs without a measurement.

    One search is asked with it: an engine that allows no scripts refuses it.
    """
    form = plugin_free_model(stored)
    assert form is not None  # noqa: S101 - told to the type checker
    queries, tables = form.size
    most = f"at most {MOST_QUERIES} feature queries and {MOST_TABLES} tables run there unmeasured"
    if queries > MOST_QUERIES or tables > MOST_TABLES:
        why = f"inside the engine it is {form.in_words()}, and {most}; --budget 10ms measures it"
        return _by_client(case, why)
    subject = Subject(case.index, _query(case, budget), case.featureset, stored)
    asked = ask_with(case.store, subject, budget.window)(_typed(case.samples[0]["params"]))
    path = f"/{case.index}/_search"
    case.engine.request("POST", path, params=asked.params, body=asked.body)
    shifted = f"scores there are the model's plus {form.shift:.6g}"
    return Form(stored, f"it runs inside the engine: {form.in_words()} ({most}); {shifted}")


def _measured(case: _Case, stored: StoredModel, budget: Budget) -> Form:
    """The form, unless it costs more than the budget; of a model that is there, without timing."""
    form = plugin_free_model(stored)
    assert form is not None  # noqa: S101 - told to the type checker
    runs = f"it runs inside the engine: {form.in_words()}"
    shifted = f"scores there are the model's plus {form.shift:.6g}"
    if immutable_name(case.name, stored) in case.store.list_models():
        return Form(stored, f"{runs}; {shifted}")
    typed = [_typed(sample["params"]) for sample in case.samples[:_QUERIES]]
    subject = Subject(case.index, _query(case, budget), case.featureset, stored)
    added = added_milliseconds(
        case.engine, case.store, subject, typed, window=budget.window, repeat=budget.repeat
    )
    allowed = budget.milliseconds or 0.0
    most = f"the budget is {allowed:g} ms"
    cost = f"{added:+.1f} ms (median of {budget.repeat} searches of '{case.index}', {most})"
    if added > allowed:
        why = f"inside the engine it costs {cost}: raise --budget, or train a smaller one"
        return replace(_by_client(case, why), added_ms=added, budget_ms=budget.milliseconds)
    return Form(stored, f"{runs}, {cost}; {shifted}", added, budget.milliseconds)


def _check_precision(case: _Case, stored: StoredModel, tolerance: float) -> None:
    """Refuse scores that spread so far that float32 sums lose more than is allowed."""
    form = plugin_free_model(stored)
    assert form is not None  # noqa: S101 - told to the type checker
    names = case.featureset.feature_names
    for sample in case.samples:
        if "features" not in sample:
            continue
        rows = unpacked(sample["features"], len(sample["document_ids"]), len(names))
        local = case.model.score(rows)
        lost = np.abs(form.score(names, rows) - form.shift - local) / np.maximum(1, np.abs(local))
        if lost.max(initial=0.0) > tolerance:
            raise Refused(
                f"its scores spread so far that an engine's 32 bits lose {lost.max():.1g} of them, "
                f"and {tolerance:g} is allowed"
            )


def _query(case: _Case, budget: Budget) -> dict[str, Any]:
    if budget.query is not None:
        return dict(budget.query)
    try:
        return default_query(case.engine, case.index)
    except UsageError:
        # Without a text field there is nothing that could be typed.
        return {"match_all": {}}


def _typed(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with what a query may call the words that are typed."""
    text = next((value for value in params.values() if isinstance(value, str)), "")
    return {"keywords": text, "query": text, **params}
