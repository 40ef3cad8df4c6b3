"""Evaluation: held-out queries, the upload, and live searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.engine.deployment.alias import SwitchGrounds
from owpc_ltr.engine.deployment.model_upload import UploadRequest, upload_model
from owpc_ltr.engine.evidence import QUERY_ALONE
from owpc_ltr.engine.live_results.comparison import LiveResults
from owpc_ltr.engine.search.client_scoring import Served, query_alone, serve_all, with_stored
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.search import move
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.judged_data import ChosenQueries, compared_queries
from owpc_ltr.evaluation.measurement import ComparisonPlan, Resampling, results_of_scores
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.metrics import parse_metric
from owpc_ltr_demo.preparation import LoggedFeatures, engine_scores
from owpc_ltr_demo.session import (
    INDEX,
    MODEL,
    SELECT,
    TREES_MODEL,
    WINDOW,
    DemoSession,
)
from owpc_ltr_demo.training import train_lambdamart

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.evaluation.compared_pair import ComparedPair
    from owpc_ltr.evaluation.comparison_result import RankerComparison
    from owpc_ltr.formats.stored_model import StoredModel
    from owpc_ltr.protocols import Model
    from owpc_ltr.signatures import Progress
    from owpc_ltr_demo.corpus import DemoQuery


METRICS = ("map", "mrr", SELECT)
OWPC, TREES = "OWPC (linear)", "pairwise-interaction trees"
TUNED, LAMBDAMART = "BM25, tuned", "LambdaMART"
_SHOWN = 5


def runs_in(store_kind: str) -> dict[str, str]:
    """Where each ranker runs in a cluster whose store is of this kind."""
    in_any = dict.fromkeys((OWPC, TREES, TUNED), "engine")
    return {**in_any, LAMBDAMART: "engine" if store_kind == "ltr-plugin" else "client"}


def compare_on_held_out(
    scores: Mapping[str, Vector], data: RankingDataset, seed: int = 0
) -> RankerComparison:
    """Every ranker by its scores of `data`, each compared with the others.

    A query whose answer is not among its candidates counts 0 for every ranker.
    """
    metrics = tuple(map(parse_metric, METRICS))
    of = compared_queries(data, ChosenQueries(np.arange(data.n_queries), "test"))
    # Nothing is chosen by a demo's results, so that they are no attempts.
    how = ComparisonPlan(metrics, drawing=Resampling(seed), attempts=None)
    return compare_results(results_of_scores(scores, data, of, how))


def verdict(pair: ComparedPair, first: str, other: str) -> str:
    """The result of a comparison in one sentence."""
    comparison = pair.comparison
    figures = (
        f"{comparison.mean_difference:+.4f} {pair.metric}, 95 % interval [{comparison.low:+.4f}, "
        f"{comparison.high:+.4f}], p = {pair.p_holm:.4f}, {comparison.n_queries} queries"
    )
    if pair.verdict.outcome is Outcome.NO_DIFFERENCE:
        figures += f"; minimum detectable difference (80 % power): {comparison.detectable:.3f}"
    return f"{first} against {other}: {pair.verdict} ({figures})"


def compare_rankers(
    session: DemoSession,
    logged: LoggedFeatures,
    models: Mapping[str, Model],
    baseline: dict[str, Any],
) -> None:
    """The models by their names, BM25 and LambdaMART on held-out queries."""
    splits, features = logged.splits, logged.splits.test.features
    with session.step("compare", "compare on held-out queries"):
        rival = train_lambdamart(session, splits)
        scores = {
            **{name: model.score(features) for name, model in models.items()},
            TUNED: engine_scores(logged.engine, baseline, splits.test),
            LAMBDAMART: rival.model.score(features),
        }
        result = compare_on_held_out(scores, splits.test, session.options.seed)
        places = runs_in(logged.store.kind)
        session.line(
            f"LambdaMART: XGBoost rank:ndcg, depth {rival.settings['optimizer.depth']}, "
            f"{rival.fit.certificate.passes} trees, by validation {SELECT}"
        )
        session.table(
            [f"{result.n_queries} HELD-OUT QUERIES", *METRICS, "RUNS IN"],
            [
                (ranker.name, *(measure.mean for measure in ranker.measured), places[ranker.name])
                for ranker in result.rankers
            ],
        )
        for ranker in models:
            for other in (TUNED, LAMBDAMART):
                session.line(verdict(result.pair(ranker, other, SELECT), ranker, other))
        session.figures["comparison"] = {**result.as_dict(), "runs_in": places}


def upload_models(
    session: DemoSession, logged: LoggedFeatures, models: Mapping[str, Model]
) -> dict[str, str]:
    """By alias, each model's immutable name in the engine, after the parity proof."""
    # A node may have the models of a demo before.
    grounds = SwitchGrounds(unproven="the demo was run again")
    names = {}
    with session.step("upload", "upload both models, and compare engine and local scores"):
        for alias, ranker in models.items():
            request = UploadRequest(
                ranker, logged.featureset, name=alias, index=INDEX, grounds=grounds
            )
            uploaded = upload_model(logged.engine, logged.store, request)
            parity, mode = uploaded.parity, uploaded.serving_mode
            session.line(
                f"alias '{alias}' switched to {uploaded.model}; {parity.documents} documents of "
                f"{parity.queries} queries: {parity.difference}"
            )
            if mode is not None and mode.words:
                session.line(mode.words)
            names[alias] = uploaded.model
            figures = session.figures.setdefault("upload", {})
            figures[alias] = {"model": uploaded.model, "parity": parity.as_dict()}
    return names


@dataclass(frozen=True)
class LiveSearches:
    """What is served for each query without and with a model, and how the two compare."""

    comparison: RankerComparison
    before: Sequence[Served]
    after: Sequence[Served]

    @property
    def median_ms(self) -> tuple[float, float]:
        """The median time of a search by the engine's clock, without and with the model."""
        before, after = (
            float(np.median([answer.took for answer in served]))
            for served in (self.before, self.after)
        )
        return before, after

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        before, after = self.median_ms
        return {
            **self.comparison.as_dict(),
            "window": WINDOW,
            "median_ms_before": before,
            "median_ms_after": after,
        }


def search_live(
    logged: LoggedFeatures,
    model: StoredModel,
    query: dict[str, Any],
    queries: Sequence[DemoQuery],
    progress: Progress,
) -> LiveSearches:
    """Search the whole corpus for each query, without and with the model.

    Unjudged documents count as irrelevant, and no query is left out.
    """
    judged = [demo_query.judged(demo_query.relevant) for demo_query in queries]
    ways = (
        with_stored(logged.engine, logged.store, model),
        query_alone(logged.engine, logged.store),
    )
    shared = SearchRequest(INDEX, query, {}, WINDOW, WINDOW)
    # One search at a time: the times are those of a node without other work.
    after, before = serve_all(ways, judged, shared, 1, progress)
    ranked = [[answer.doc_ids for answer in answers] for answers in (after, before)]
    results = LiveResults(
        dict(zip(("the model", QUERY_ALONE), ranked, strict=True)),
        judged,
        ChosenQueries(np.arange(len(judged)), "all"),
        ComparisonPlan((parse_metric(SELECT),), baseline=QUERY_ALONE, attempts=None),
        query,
        depth=WINDOW,
        alone=ranked[1],
    )
    return LiveSearches(results.compared(), before, after)


def search_held_out(
    session: DemoSession, logged: LoggedFeatures, names: Mapping[str, str], baseline: dict[str, Any]
) -> None:
    """Every held-out query on the whole corpus, without and with each model; three are shown."""
    with session.step("search", "search the whole corpus live, without and with the models"):
        held_out = set(logged.splits.test.query_ids.to_pylist())
        queries = [pool.query for pool in logged.pools if pool.query.query_id in held_out]
        results = {}
        for alias, what in ((MODEL, "the model"), (TREES_MODEL, "the tree model")):
            with session.working() as show:
                model = logged.store.get_model(names[alias])
                results[alias] = search_live(logged, model, baseline, queries, show)
            _live_lines(session, results[alias], what)
        for why, number in examples(results[MODEL]).items():
            _show(session, results[MODEL], queries[number], why, number)
        session.figures["live"] = {alias: live.as_dict() for alias, live in results.items()}


def gains(live: LiveSearches) -> tuple[Vector, Vector]:
    """Each query's value without and with the model."""
    after, before = (ranker.measured[0].per_query for ranker in live.comparison.rankers)
    return before, after


def examples(live: LiveSearches) -> dict[str, int]:
    """The queries to show, by the reason."""
    before, after = gains(live)
    order = np.argsort(after - before, kind="stable")
    changed = order[(after - before)[order] != 0]
    if not len(changed):
        return {"nothing changed": 0}
    return {
        "the largest gain": int(order[-1]),
        "the median of the queries that changed": int(changed[len(changed) // 2]),
        "the largest loss": int(order[0]),
    }


def _live_lines(session: DemoSession, live: LiveSearches, what: str) -> None:
    (pair,), (before, after) = live.comparison.pairs, live.median_ms
    session.line(
        f"{SELECT} over all documents: {pair.comparison.mean_b:.4f} by tuned BM25, "
        f"{pair.comparison.mean_a:.4f} with its best {WINDOW} reranked by {what}"
    )
    session.line(verdict(pair, what, "tuned BM25 alone"))
    session.line(f"median time in the engine: {before:g} ms without, {after:g} ms with {what}")


def _show(
    session: DemoSession, live: LiveSearches, query: DemoQuery, why: str, number: int
) -> None:
    old, new = (answers[number].doc_ids for answers in (live.before, live.after))
    before, after = gains(live)
    best = max(query.relevant, key=lambda name: query.relevant[name])
    others = len(query.relevant) - 1
    session.line()
    session.line(
        f"{why}: “{query.text}” (relevant, marked *: {best}"
        f"{f' and its {others} members' if others else ''}; {SELECT} "
        f"{before[number]:.2f} → {after[number]:.2f})"
    )
    ranks = {document: rank for rank, document in enumerate(old, 1)}

    def marked(document: str) -> str:
        return f"{'*' if document in query.relevant else ' '} {document}"

    rows: list[Sequence[Any]] = [
        (rank, marked(old_id), move(rank, ranks.get(other)), marked(other))
        for rank, (old_id, other) in enumerate(zip(old, new, strict=False), 1)
    ]
    session.table(["#", "TUNED BM25", "CHANGE", "WITH THE MODEL"], rows[:_SHOWN])
