"""Training: OWPC, trees and LambdaMART, selected on validation queries; tuned BM25."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.evaluation.significance import difference_words
from owpc_ltr.formats.plugin_free import plugin_free_trees
from owpc_ltr.host.commands import run_plugin_job
from owpc_ltr.models.model_file import save_model
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.fitting import TrainingResult, train_plan
from owpc_ltr.training.options import DEFAULT_C
from owpc_ltr.training.plan import model_plan
from owpc_ltr_demo.corpus import judgments_of
from owpc_ltr_demo.preparation import KEYWORDS, LoggedFeatures, Splits, text_fields
from owpc_ltr_demo.session import INDEX, SELECT, DemoSession

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


def tune_baseline(session: DemoSession, logged: LoggedFeatures) -> dict[str, Any]:
    """The full-text query whose boosts rank the training queries best, also as a file."""
    untuned = {
        "multi_match": {
            "query": KEYWORDS,
            "type": "best_fields",
            "fields": text_fields(logged.featureset),
            "tie_breaker": 0.0,
        }
    }
    with session.step("bm25", "tune BM25 on queries that are not held out, as a strong baseline"):
        with session.working() as show:
            tuned = run_plugin_job(
                "tune",
                cluster=Cluster(logged.engine),
                query_template=untuned,
                judgments=judgments_of(logged.pools),
                judged_by="people",
                out=session.file("-bm25.json"),
                metric=SELECT,
                index=INDEX,
                progress=show,
            )
        figures = tuned.comparison.pair(*tuned.comparison.headline).comparison
        session.line(
            f"the best of {len(tuned.values)} settings of boosts and tie_breaker on "
            f"{tuned.n_queries} queries, by {SELECT}; engine and local scores agree to "
            f"{tuned.difference:.0e}"
        )
        session.line(
            f"tuned against untuned, live: {tuned.comparison.verdict()} "
            f"({difference_words(figures)} {SELECT}, {figures.n_queries} queries)"
        )
        session.figures["bm25"] = {"query": tuned.query, "training": tuned.value}
    query: dict[str, Any] = tuned.query
    return query
