"""Evaluation: held-out queries, the upload, and live searches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.engine.evidence import QUERY_ALONE
from owpc_ltr.engine.live_results.comparison import LiveResults
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.search import move
from owpc_ltr.engine.search.serving import Served, query_alone, serve_all, with_stored
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.measurement import Measured, measure, results_of_scores
from owpc_ltr.evaluation.query_choice import ChosenQueries, compared_queries
from owpc_ltr.evaluation.results import ComparisonPlan, Resampling
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.protocols import Model
from owpc_ltr.signatures import Progress
from owpc_ltr_demo.baselines import MultiMatch, field_columns, fit_lambdamart
from owpc_ltr_demo.queries import MODULE, OBJECT, DemoQuery
from owpc_ltr_demo.session import (
    INDEX,
    MODEL,
    SELECT,
    TREES_MODEL,
    WINDOW,
    DemoSession,
    LoggedFeatures,
)

if TYPE_CHECKING:
    from pathlib import Path


METRICS = ("map", "mrr", SELECT)
OWPC, TREES = "OWPC (linear)", "pairwise-interaction trees"
TUNED, LAMBDAMART = "BM25, tuned", "LambdaMART"
ENGINE, CLIENT = "engine", "client"
_SHOWN = 5


def runs_in(store_kind: str) -> dict[str, str]:
    """Where each ranker runs in a cluster whose store is of this kind."""
    in_any = dict.fromkeys((OWPC, TREES, TUNED), ENGINE)
    return {**in_any, LAMBDAMART: ENGINE if store_kind == "ltr-plugin" else CLIENT}


def compare_on_held_out(
    scores: Mapping[str, Vector], data: RankingDataset, seed: int = 0
) -> RankerComparison:
    """Every ranker by its scores of `data`, each compared with the others; the ideal one last.

    A query whose answer is not among its candidates counts 0 for every ranker.
    """
    metrics = tuple(_metrics())
    of = compared_queries(data, ChosenQueries(np.arange(data.n_queries), "test"))
    # Nothing is chosen by a demo's results, so that they are no attempts.
    how = ComparisonPlan(metrics, drawing=Resampling(seed), attempts=None)
    return compare_results(results_of_scores(scores, data, of, how))


def best_possible(data: RankingDataset) -> tuple[Measured, ...]:
    """The values of the ideal ranking of the candidates."""
    return measure(data.labels.astype(np.float64), data, _metrics())


def by_kind(result: RankerComparison, data: RankingDataset) -> list[dict[str, Any]]:
    """The last metric's mean of each ranker on the queries of each kind."""
    kinds = np.array([name.partition(":")[0] for name in data.query_ids.to_pylist()])
    values = {ranker.name: ranker.measured[-1].per_query for ranker in result.rankers}
    return [
        {
            "kind": kind,
            "queries": int((kinds == kind).sum()),
            METRICS[-1]: {name: float(part[kinds == kind].mean()) for name, part in values.items()},
        }
        for kind in (OBJECT, MODULE)
        if kind in kinds
    ]


def verdict(pair: ComparedPair, first: str, other: str) -> str:
    """The result of a comparison in one sentence."""
    one = pair.comparison
    figures = (
        f"{one.mean_difference:+.4f} {pair.metric}, 95 % interval [{one.low:+.4f}, "
        f"{one.high:+.4f}], p = {pair.p_holm:.4f}, {one.n_queries} queries"
    )
    if pair.verdict.outcome is Outcome.NO_DIFFERENCE:
        figures += f"; minimum detectable difference (80 % power): {one.detectable:.3f}"
    return f"{first} against {other}: {pair.verdict} ({figures})"


def rows_of(result: RankerComparison, data: RankingDataset) -> Sequence[Sequence[object]]:
    """One row a ranker: its name and its metrics."""
    rows = {ranker.name: ranker.measured for ranker in result.rankers}
    rows["(ideal ranking)"] = best_possible(data)
    return [(name, *(one.mean for one in measured)) for name, measured in rows.items()]


def _metrics() -> list[Metric]:
    return [parse_metric(name) for name in METRICS]


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
            float(np.median([one.took for one in served])) for served in (self.before, self.after)
        )
        return before, after


def gains(live: LiveSearches) -> tuple[Vector, Vector]:
    """Each query's value without and with the model."""
    after, before = (one.measured[0].per_query for one in live.comparison.rankers)
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


def live_figures(live: LiveSearches) -> dict[str, Any]:
    """The figures as JSON."""
    before, after = live.median_ms
    return {
        "metric": SELECT,
        "window": WINDOW,
        **live.comparison.pairs[0].comparison.as_dict(),
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
        with_stored(logged.engine, logged.store, model), query_alone(logged.engine, logged.store)
    )  # fmt: skip
    shared = SearchRequest(INDEX, query, {}, WINDOW, WINDOW)
    # One search at a time: the times are those of a node without other work.
    after, before = serve_all(ways, judged, shared, 1, progress)
    ranked = [[answer.doc_ids for answer in answers] for answers in (after, before)]
    found = LiveResults(
        dict(zip(("the model", QUERY_ALONE), ranked, strict=True)), judged,
        ChosenQueries(np.arange(len(judged)), "all"),
        ComparisonPlan((parse_metric(SELECT),), baseline=QUERY_ALONE, attempts=None), query,
        depth=WINDOW, alone=ranked[1],
    )  # fmt: skip
    return LiveSearches(found.compared(), before, after)


def compare_rankers(
    session: DemoSession, logged: LoggedFeatures, models: Mapping[str, Model], baseline: MultiMatch
) -> None:
    """The models by their names, BM25 and LambdaMART on held-out queries."""
    splits = logged.splits
    with session.step("compare", "compare on held-out queries"):
        with session.working() as show:
            show("training LambdaMART", None)
            rival = fit_lambdamart(
                splits.training, splits.validation, SELECT,
                seed=session.options.seed, threads=session.options.threads,
            )  # fmt: skip
        columns, features = field_columns(logged.featureset), splits.test.features
        scores = {
            **{name: model.score(features) for name, model in models.items()},
            TUNED: baseline.score(features, columns),
            LAMBDAMART: rival.score(features),
        }
        result = compare_on_held_out(scores, splits.test, session.options.seed)
        places = runs_in(logged.store.kind)
        session.line(
            f"LambdaMART: XGBoost rank:ndcg, depth {rival.settings['max_depth']}, {rival.trees} "
            f"trees, by validation {SELECT}"
        )
        session.table(
            [f"{result.n_queries} HELD-OUT QUERIES", *METRICS, "RUNS IN"],
            [(*row, places.get(str(row[0]), "–")) for row in rows_of(result, splits.test)],
        )
        kinds = by_kind(result, splits.test)
        for row in kinds:
            means = ", ".join(f"{name} {value:.4f}" for name, value in row[SELECT].items())
            session.line(f"{SELECT} of the {row['queries']} {row['kind']} queries: {means}")
        _verdict_lines(session, result)
        session.figures["comparison"] = {
            **result.as_dict(),
            "best_possible": {str(best.metric): best.mean for best in best_possible(splits.test)},
            "runs_in": places,
            "by_kind": kinds,
            "lambdamart": {
                "settings": rival.settings,
                "trees": rival.trees,
                "validation": rival.validation,
            },
        }


def _verdict_lines(session: DemoSession, result: RankerComparison) -> None:
    """The verdicts on pairs of rankers, by the metric of the selection."""
    for ranker in (OWPC, TREES):
        for other in (TUNED, LAMBDAMART):
            session.line(verdict(result.pair(ranker, other, SELECT), ranker, other))
    session.figures["comparison_trees"] = {
        other: result.pair(TREES, other, SELECT).comparison.as_dict()
        for other in (TUNED, LAMBDAMART)
    }


def upload_models(
    session: DemoSession, logged: LoggedFeatures, model: Model, trees: Model
) -> dict[str, str]:
    """Each model's immutable name in the engine, after the parity proof."""
    with session.step("upload", "upload both models, and compare engine and local scores"):
        models = {("upload", MODEL): model, ("upload_trees", TREES_MODEL): trees}
        return {
            name: uploaded_name(session, logged, ranker, name, key)
            for (key, name), ranker in models.items()
        }


def uploaded_name(
    session: DemoSession, logged: LoggedFeatures, ranker: Model, name: str, key: str
) -> str:
    """The immutable name of one model, after the parity proof; figures go to `key`."""
    from owpc_ltr.engine.deployment.model_upload import upload_model
    from owpc_ltr.engine.deployment.switch import SwitchGrounds

    # A node may have the models of a demo before.
    uploaded = upload_model(
        logged.engine, logged.store, ranker, logged.featureset, index=INDEX, name=name,
        grounds=SwitchGrounds(unproven="the demo was run again"),
    )  # fmt: skip
    parity, mode = uploaded.parity, uploaded.serving_mode
    session.line(
        f"alias '{name}' switched to {uploaded.model}; {parity.documents} documents of "
        f"{parity.queries} queries: {parity.difference}"
    )
    session.figures[key] = {"model": uploaded.model, "parity": parity.as_dict()}
    if mode is not None and mode.words:
        session.line(mode.words)
        session.figures[key]["form"] = mode.as_dict()
    return uploaded.model


def search_held_out(
    session: DemoSession, logged: LoggedFeatures, names: Mapping[str, str], baseline: MultiMatch
) -> None:
    """Every held-out query on the whole corpus, without and with each model; three are shown."""
    with session.step("search", "search the whole corpus live, without and with the models"):
        queries = [pool.query for pool in logged.candidates(held_out=True)]
        write_query(session, "-bm25.json", baseline.query())
        results = {}
        for name, what in ((MODEL, "the model"), (TREES_MODEL, "the tree model")):
            with session.working() as show:
                model = logged.store.get_model(names[name])
                live = search_live(logged, model, baseline.query(), queries, show)
            _live_lines(session, live, what)
            results[name] = live
        for why, number in examples(results[MODEL]).items():
            _show(session, results[MODEL], queries[number], why, number)
        session.figures["live"] = live_figures(results[MODEL])
        session.figures["live_trees"] = live_figures(results[TREES_MODEL])


def write_query(session: DemoSession, ending: str, query: Mapping[str, Any]) -> Path:
    """A query with {{keywords}} as a file of the demo."""
    return session.write(ending, json.dumps(query, indent=2))


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
    session.line()
    session.line(
        f"{why}: “{query.text}” (relevant, marked *: {_relevant(query)}; {SELECT} "
        f"{before[number]:.2f} → {after[number]:.2f})"
    )
    ranks = {document: rank for rank, document in enumerate(old, 1)}
    rows: list[Sequence[Any]] = [
        (rank, _marked(one, query), move(rank, ranks.get(other)), _marked(other, query))
        for rank, (one, other) in enumerate(zip(old, new, strict=False), 1)
    ]
    session.table(["#", "TUNED BM25", "CHANGE", "WITH THE MODEL"], rows[:_SHOWN])


def _relevant(query: DemoQuery) -> str:
    best = max(query.relevant, key=lambda name: query.relevant[name])
    others = len(query.relevant) - 1
    return f"{best} and its {others} members" if others else best


def _marked(document: str, query: DemoQuery) -> str:
    return f"* {document}" if document in query.relevant else f"  {document}"
