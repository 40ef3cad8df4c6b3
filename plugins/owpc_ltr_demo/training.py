"""Training: OWPC, trees and LambdaMART, selected on validation queries; tuned BM25."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from owpc_ltr.errors import Refused
from owpc_ltr.formats.plugin_free import plugin_free_trees
from owpc_ltr.models.model_file import save_model
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.fitting import TrainingResult, train_plan
from owpc_ltr.training.options import DEFAULT_C
from owpc_ltr.training.plan import model_plan
from owpc_ltr_demo.preparation import (
    LoggedFeatures,
    MultiMatch,
    Splits,
    engine_scores,
    field_columns,
    tune,
)
from owpc_ltr_demo.session import INDEX, SELECT, DemoSession

PARITY = 1e-5
GENERATORS = ("constant", "logarithmic", "inverse", "exponential", "top")


def train(
    session: DemoSession,
    splits: Splits,
    plugins: tuple[str, str],
    settings: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
) -> TrainingResult:
    """A loss solved by an optimizer: the candidate that ranks validation queries best."""
    plan = model_plan(*plugins, settings, grid, SELECT)
    options = session.options
    with session.working() as show:
        run = Run(seed=options.seed, threads=options.threads, progress=show)
        return train_plan(splits.training, plan, run, splits.validation, splits.source)


def train_owpc(session: DemoSession, splits: Splits) -> Model:
    """OWPC solved by LaRank, weights and C selected on validation queries, as a file."""
    title = "train OWPC by LaRank, weights and C selected on validation queries"
    with session.step("train", title):
        grid = {"loss.generator": GENERATORS, "optimizer.C": DEFAULT_C}
        trained = train(session, splits, ("owpc", "larank"), {}, grid)
        save_model(trained.model, session.file("-owpc.json"))
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
        for warning in trained.all_warnings:
            session.line(f"warning: {warning}")
        session.figures["owpc"] = dict(trained.model.record)
    return trained.model


_TREES = {
    "optimizer.depth": 2,
    "optimizer.interactions": 20,
    "optimizer.bins": 64,
    "optimizer.trees": 400,
}


def train_interaction_trees(session: DemoSession, splits: Splits) -> Model:
    """Boosted pairwise-interaction trees, as many as validation queries select, as a file."""
    title = "train trees that run in an engine without the LTR plugin"
    with session.step("trees", title):
        trained = train(session, splits, ("lambdarank", "boosting"), _TREES, {})
        model = trained.model
        save_model(model, session.file("-trees.json"))
        form = plugin_free_trees(model, model.feature_names)
        session.line(
            f"LambdaRank, boosted: {trained.fit.certificate.passes} pairwise-interaction trees "
            f"(depth 2, 20 pairs of features), as a sum of {form.in_words()}"
        )
        session.figures["trees"] = dict(model.record)
    return model


_LAMBDAMART = {
    "optimizer.objective": "rank:ndcg",
    "optimizer.leaf": 1.0,
    "optimizer.patience": 30,
}


def train_lambdamart(session: DemoSession, splits: Splits) -> TrainingResult:
    """XGBoost's own LambdaMART, its depth and number of trees selected on validation queries."""
    grid = {"optimizer.depth": (3, 4, 6)}
    return train(session, splits, ("lambdarank", "boosting"), _LAMBDAMART, grid)


def tune_baseline(session: DemoSession, logged: LoggedFeatures) -> MultiMatch:
    """The full-text query whose boosts rank the training queries best, as a file."""
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
        session.write("-bm25.json", json.dumps(baseline.query(), indent=2))
        session.figures["bm25"] = {**vars(baseline), "training": tuning.value}
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
