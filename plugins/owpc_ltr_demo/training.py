"""Training: OWPC, OWPC with fewer features, pairwise-interaction trees, and tuned BM25."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import Refused
from owpc_ltr.formats.model_conversion import export_linear
from owpc_ltr.host.registry import load
from owpc_ltr.inspection.columns import constant_in_training
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.options import DEFAULT_C
from owpc_ltr_demo.baselines import MultiMatch, engine_scores, field_columns, tune
from owpc_ltr_demo.session import INDEX, SELECT, WINDOW, DemoSession, LoggedFeatures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from owpc_ltr.engine.search.latency import FeatureCost, Subject
    from owpc_ltr.training.candidates import TrainingResult
    from owpc_ltr.training.feature_selection import Selected
    from owpc_ltr.training.plan import Plan
    from owpc_ltr_demo.session import Splits


PARITY = 1e-5
GENERATORS = ("constant", "logarithmic", "inverse", "exponential", "top")


def train_owpc(session: DemoSession, splits: Splits) -> LinearModel:
    """OWPC solved by LaRank, weights and C selected on validation queries, as a file."""
    title = "train OWPC by LaRank, weights and C selected on validation queries"
    with session.step("train", title):
        grid = {"loss.generator": GENERATORS, "optimizer.C": DEFAULT_C}
        plan = plan_of("owpc", "larank", {}, grid)
        trained = fit(session, plan, splits)
        model = trained.model
        assert isinstance(model, LinearModel)  # noqa: S101 - for the type checker
        save_model(model, session.file("-owpc.json"))
        certificate = trained.fit.certificate
        session.line(
            f"{len(trained.table)} candidates on {splits.training.n_queries} queries; the best on "
            f"{splits.validation.n_queries} validation queries: "
            f"{trained.settings['loss.generator']} weights, C = {trained.settings['optimizer.C']:g}"
        )
        session.line(
            f"certificate: duality gap {certificate.relative_gap:.1e} of the gain of training, "
            f"{certificate.passes} passes, {certificate.nonzero_duals} non-zero duals"
        )
        session.warn(warnings_of(trained))
        session.figures["owpc"] = {
            "settings": dict(trained.settings),
            "validation": model.record["validation"],
            "certificate": certificate.as_dict(),
            "candidates": len(trained.table),
        }
    return model


def plan_of(
    loss: str, optimizer: str, settings: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]
) -> Plan:
    """A loss solved by an optimizer, the best of the grid by the metric of the selection."""
    from owpc_ltr.training.plan import Plan

    registry = load([])
    return Plan(
        registry.find("loss", loss), registry.find("optimizer", optimizer), settings, grid, SELECT
    )


def fit(session: DemoSession, plan: Plan, splits: Splits) -> TrainingResult:
    """The best candidate of a plan on the validation queries."""
    from owpc_ltr.training.candidates import train_plan

    with _running(session) as run:
        return train_plan(splits.training, plan, run, splits.validation, splits.source)


def warnings_of(trained: TrainingResult) -> list[str]:
    """The warnings of a training."""
    return [*trained.warnings, *constant_in_training(trained.constant_features)]


@contextmanager
def _running(session: DemoSession) -> Iterator[Run]:
    """A run by the demo's options, whose progress is on the terminal."""
    with session.working() as show:
        yield Run(seed=session.options.seed, threads=session.options.threads, progress=show)


SETTINGS: dict[str, Any] = {
    "optimizer.depth": 2,
    "optimizer.interactions": 20,
    "optimizer.bins": 64,
    "optimizer.trees": 400,
}


def train_interaction_trees(session: DemoSession, splits: Splits) -> Model:
    """Boosted pairwise-interaction trees, as many as validation queries select, as a file."""
    from owpc_ltr.formats.plugin_free import plugin_free_trees

    title = "train trees that run in an engine without the LTR plugin"
    with session.step("trees", title):
        plan = plan_of("lambdarank", "boosting", SETTINGS, {})
        trained = fit(session, plan, splits)
        model = trained.model
        save_model(model, session.file("-trees.json"))
        form = plugin_free_trees(model, model.feature_names)
        session.line(
            f"LambdaRank, boosted: {trained.fit.certificate.passes} pairwise-interaction trees "
            f"(depth 2, 20 pairs of features), as a sum of {form.in_words()}"
        )
        session.figures["trees"] = {
            "settings": dict(trained.settings),
            "trees": trained.fit.certificate.passes,
            "validation": model.record["validation"],
            "form": form.in_words(),
        }
    return model


FEWER_FEATURES = 10
_SEARCHES, _TIMED = 20, 40


def train_with_fewer_features(
    session: DemoSession, logged: LoggedFeatures, model: LinearModel, baseline: MultiMatch
) -> LinearModel:
    """A linear model of at most ten features, by what they gain and cost, as a file.

    Features are timed in the live query and left out one by one, by validation queries.
    """
    title = f"leave out features that gain little for what they cost, down to {FEWER_FEATURES}"
    with session.step("fewer", title):
        params = [json.loads(text) for text in _query_params(logged.splits.validation)]
        with _timed_model(logged, baseline, model) as subject:
            costs = _costs(session, logged, subject, params)
        selected = _select_features(session, logged.splits, costs)
        fewer = selected.trained.model
        assert isinstance(fewer, LinearModel)  # noqa: S101 - for the type checker
        save_model(fewer, session.file("-owpc-fewer.json"))
        with (
            _timed_model(logged, baseline, model) as whole,
            _timed_model(logged, baseline, fewer) as cheap,
        ):
            added = _search_times(session, logged, {"all": whole, "fewer": cheap}, params)
        first, last = selected.path[0], selected.path[-1]
        session.line(
            f"{last.features} of {first.features} features: validation {SELECT} "
            f"{last.validation:.4f}, {first.validation:.4f} with all: {', '.join(selected.kept)}"
        )
        session.line(
            f"a search takes {added['none']:.1f} ms, {added['all']:+.1f} ms with all features, "
            f"{added['fewer']:+.1f} ms with these (medians of {_TIMED})"
        )
        session.figures["fewer"] = {
            "kept": list(selected.kept),
            "milliseconds": added,
            "path": fewer.record["feature_selection"]["path"],
        }
    return fewer


@contextmanager
def _timed_model(
    logged: LoggedFeatures, baseline: MultiMatch, model: LinearModel
) -> Iterator[Subject]:
    """A model in the tuned query, stored in the engine while it is timed."""
    from owpc_ltr.engine.deployment.serving_mode import searchable
    from owpc_ltr.engine.search.latency import Subject

    with searchable(logged.store, export_linear(model, logged.featureset, "timed")) as stored:
        yield Subject(INDEX, baseline.query(), logged.featureset, stored)


def _query_params(data: RankingDataset) -> list[str]:
    """The parameters of some queries, as JSON."""
    assert data.query_params is not None  # noqa: S101 - logged a moment ago
    return [text for text in data.query_params[:_SEARCHES].to_pylist() if text]


def _costs(
    session: DemoSession, logged: LoggedFeatures, subject: Subject, params: list[dict[str, Any]]
) -> list[FeatureCost]:
    from owpc_ltr.engine.search.latency import feature_costs

    with session.working() as show:
        costs, _ = feature_costs(
            logged.engine, logged.store, subject, params,
            repeat=_SEARCHES, window=WINDOW, seed=session.options.seed,
            progress=lambda share: show("timing each feature in the live query", share),
        )  # fmt: skip
    return costs


def _select_features(session: DemoSession, splits: Splits, costs: list[FeatureCost]) -> Selected:
    from owpc_ltr.training.feature_selection import Costs, train_on_few_features

    plan = plan_of("owpc", "larank", session.figures["owpc"]["settings"], {})
    measured = Costs({cost.feature: cost.milliseconds for cost in costs})
    with _running(session) as run:
        return train_on_few_features(
            splits.training, plan, run, splits.validation,
            max_features=FEWER_FEATURES, costs=measured, source=splits.source,
        )  # fmt: skip


def _search_times(
    session: DemoSession,
    logged: LoggedFeatures,
    subjects: dict[str, Subject],
    params: list[dict[str, Any]],
) -> dict[str, float]:
    """The median search without a model, and what each of these adds to it."""
    from owpc_ltr.engine.search.latency import model_latencies

    samples = model_latencies(
        logged.engine, logged.store, subjects, params,
        window=WINDOW, repeat=_TIMED, seed=session.options.seed,
    )  # fmt: skip
    alone = samples["none"].wall
    added = {name: float(np.median(samples[name].wall - alone)) for name in subjects}
    return {"none": float(np.median(alone)), **added}


def tune_baseline(session: DemoSession, logged: LoggedFeatures) -> MultiMatch:
    """The full-text query whose boosts rank the training queries best."""
    with session.step("bm25", "tune BM25 on the training queries, as a strong baseline"):
        columns = field_columns(logged.featureset)
        with session.working() as show:
            show("tuning BM25 on the training queries", None)
            tuning = tune(logged.splits.training, columns, SELECT)
        baseline = tuning.best
        difference = _check_baseline(logged, baseline, columns)
        session.line(
            f"the best of {tuning.tried} settings of boosts and tie_breaker, by training {SELECT}; "
            f"engine and local scores agree to {difference:.0e}"
        )
        session.figures["bm25"] = {
            **baseline.as_dict(), "training": tuning.value, "tried": tuning.tried
        }  # fmt: skip
    return baseline


def _check_baseline(
    logged: LoggedFeatures, baseline: MultiMatch, columns: Mapping[str, int]
) -> float:
    """The largest relative difference to the engine's own scores of the tuned query."""
    data = logged.splits.test
    if data.doc_ids is None or data.query_params is None:
        raise Refused("the dataset was not logged from an engine: run the demo from its start")
    largest = 0.0
    for number in range(min(5, data.n_queries)):
        rows = slice(int(data.offsets[number]), int(data.offsets[number + 1]))
        text = json.loads(data.query_params[number].as_py())["keywords"]
        remote = engine_scores(
            logged.engine, INDEX, baseline.query(text), data.doc_ids[rows].to_pylist()
        )
        local = baseline.score(data.features[rows], columns)
        largest = max(largest, float((abs(remote - local) / np.maximum(1.0, abs(local))).max()))
    if largest > PARITY:
        raise Refused(
            f"the tuned full-text query scores differently in the engine (by {largest:.1g}): the "
            "baseline would not be the tuned one"
        )
    return largest
