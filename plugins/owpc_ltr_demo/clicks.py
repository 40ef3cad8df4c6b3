"""Rankers from clicks: simulated users, judgments from their clicks, and OWPC trained on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from owpc_ltr_clicks.judgments import ClickJudgments, write_columns

from owpc_ltr.arrays import Vector
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, Served, serve_all
from owpc_ltr.engine.stores import rescorer
from owpc_ltr.engine.stores.feature_queries import render
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.models.model_file import save_model
from owpc_ltr.protocols import Model
from owpc_ltr.training.options import DEFAULT_C
from owpc_ltr_demo.baselines import KEYWORDS, MultiMatch, field_columns, untuned
from owpc_ltr_demo.evaluation import verdict, write_query
from owpc_ltr_demo.queries import POOL_SIZE, DemoQuery, judgments_of, pool_query
from owpc_ltr_demo.session import INDEX, SELECT, DemoSession, LoggedFeatures
from owpc_ltr_demo.training import fit, plan_of, warnings_of

if TYPE_CHECKING:
    import pyarrow as pa
    from owpc_ltr_clicks.simulation import Users, World

    from owpc_ltr_demo.session import Splits


RESULTS = 10
SESSIONS = 50
"""Mean number of searches per query: popular queries have three times, rare ones half as many."""
_POPULARITY = 0.3
_HEAVY = 4.0


@dataclass(frozen=True, eq=False)
class SimulatedClicks:
    """The events of users, and the true examination probability of each rank."""

    events: pa.Table
    examination: Vector


def simulate_clicks(session: DemoSession, logged: LoggedFeatures) -> SimulatedClicks:
    """Clicks on live results of the queries that are not held out, as a file."""
    from owpc_ltr_clicks.simulation import Users, clicks

    with session.step("users", "simulate users who search, and click on live results"):
        queries = [pool.query for pool in logged.candidates(held_out=False)]
        weightings = rankers(field_columns(logged.featureset))
        with session.working() as show:
            ways = [_serving(logged.engine, weighting) for weighting in weightings.values()]
            lists = serve_all(ways, list(map(_request, queries)), progress=show)
        users = Users()
        world, scores = world_of(queries, lists, users)
        events = clicks(
            world, users, scores, SESSIONS * len(queries),
            shown=RESULTS, popularity=_POPULARITY, seed=session.options.seed,
        )  # fmt: skip
        path = session.file("-events.parquet")
        write_columns(events, path)
        session.line(
            f"{SESSIONS * len(queries):,} searches of {len(queries):,} queries, {RESULTS} results "
            f"each; {logged.splits.test.n_queries} other queries are held out"
        )
        session.line(f"rankers in turn: {', '.join(weightings)}")
        session.line(
            f"simulated users examine rank r with probability 1/r, and click an examined document "
            f"with probability {users.noise:g} if it is irrelevant, {_chance(users, 1):.2g} if it "
            f"is relevant, {users.most:g} if it has the best grade"
        )
        session.line(f"wrote {path}: {len(events):,} events")
        session.figures["users"] = {
            "events": len(events),
            "sessions": SESSIONS * len(queries),
            "queries": len(queries),
            "rankers": list(weightings),
        }
    return SimulatedClicks(events, users.examination(RESULTS))


def rankers(columns: Mapping[str, int]) -> dict[str, MultiMatch | None]:
    """The rankers that have served: None is the application's query as it is."""

    def heavier(*names: str) -> MultiMatch:
        boosts = {field: _HEAVY if field.startswith(names) else 1.0 for field in columns}
        return MultiMatch(boosts, 0.3)

    return {
        "the application's query": None,
        "BM25, untuned": untuned(columns),
        "names first": heavier("name", "qualified_name"),
        "texts first": heavier("text", "doc", "context"),
    }


def world_of(
    queries: Sequence[DemoQuery], lists: Sequence[Sequence[Served]], users: Users
) -> tuple[World, list[Vector]]:
    """The documents in the results of any ranker, and each ranker's score of each of them.

    A document's attraction follows from its true grade; the score is −∞ where a ranker does not
    return it.
    """
    from owpc_ltr_clicks.simulation import World

    listed = [
        sorted({name for served in lists for name in served[number].doc_ids})
        for number in range(len(queries))
    ]
    grades = [
        query.relevant.get(name, 0)
        for query, names in zip(queries, listed, strict=True)
        for name in names
    ]
    offsets = np.cumsum([0, *map(len, listed)])
    scores = [np.full(len(grades), -np.inf) for _ in lists]
    for of_ranker, served in zip(scores, lists, strict=True):
        for number, names in enumerate(listed):
            ranks = {name: rank for rank, name in enumerate(served[number].doc_ids)}
            rows = slice(int(offsets[number]), int(offsets[number + 1]))
            of_ranker[rows] = [-float(ranks.get(name, np.inf)) for name in names]
    attraction = users.attraction(np.array(grades, np.float32))
    texts = tuple(query.text for query in queries)
    documents = tuple(name for names in listed for name in names)
    return World(texts, documents, offsets.astype(np.int64), attraction), scores


def _request(query: DemoQuery) -> SearchRequest:
    params = {"keywords": query.text, "query": query.text}
    return SearchRequest(INDEX, pool_query("{{keywords}}"), params, RESULTS, POOL_SIZE)


def _serving(engine: Engine, weighting: MultiMatch | None) -> Serve:
    """A search that shows the first candidates, in the order that a weighting of fields gives."""

    def serve(request: SearchRequest) -> Served:
        body: dict[str, Any] = {"query": request.filled, "size": request.size, "_source": False}
        if weighting is not None:
            query = render(weighting.query(), request.params)
            body["rescore"] = rescorer(query, request.window, own_weight=0.0, weight=1.0)
        hits = search_index(engine, request.index, body, "the results for users").hits
        return Served(tuple(hit["_id"] for hit in hits), 0)

    return serve


def _chance(users: Users, grade: int) -> float:
    """How often a document of this grade draws, where the best has 2."""
    return float(users.attraction(np.array([grade, 2], np.float32))[0])


FROM_CLICKS, FROM_RAW = "OWPC, from clicks", "OWPC, from raw clicks"
FROM_GRADES = "OWPC, true grades"
TUNED, APPLICATION = "BM25, tuned", "the application's query"
RAW, CLICK_MODEL = "dctr", "pbm"
"""Raw clicks (click-through rates), and the click model of the simulated users."""
SETTINGS = {"loss.generator": "inverse", "loss.grades": "thresholds"}
"""Grades from clicks are compared at every threshold."""


def judge_simulated_clicks(session: DemoSession, log: SimulatedClicks) -> dict[str, ClickJudgments]:
    """Judgments by the click model that predicts best, and by raw clicks; the first as a file."""
    from owpc_ltr_clicks.judge_clicks import count_clicks, judge_counts

    with session.step("judge", "judge by clicks, with a click model"):
        with session.working() as show:
            show("counting events, fitting click models", None)
            counted = count_clicks(log.events)
            judgments, raw = judge_counts(counted), judge_counts(counted, model=RAW)
            examination = judge_counts(counted, model=CLICK_MODEL).chosen.fit.examination
        judgments.write(session.file("-clicks.parquet"))
        summary = judgments.as_dict()
        events = summary["events"]
        session.line(f"{events['read']:,} events read, {events['used']:,} used")
        for reason, count in events["unusable"].items():
            session.line(f"  {count:,} not used: {reason}")
        likelihoods = ", ".join(
            f"{model['model']} {model['session_log_likelihood']:.4f}"
            for model in summary["held_out"]
        )
        session.line(
            f"{summary['model']} predicts the sessions of held-out people best (mean log "
            f"likelihood: {likelihoods})"
        )
        _examination_table(session, summary, examination, log.examination)
        session.warn(judgments.warnings)
        shares = ", ".join(f"{count:,} of {grade}" for grade, count in summary["grades"].items())
        session.line(
            f"{summary['documents']:,} documents of {summary['queries']:,} queries have grades: "
            f"{shares}"
        )
        session.figures["clicks"] = {
            **summary,
            "raw_model": RAW,
            f"{CLICK_MODEL}_examination": examination.tolist(),
            "true_examination": log.examination.tolist(),
        }
    return {FROM_CLICKS: judgments, FROM_RAW: raw}


def train_on_clicks(
    session: DemoSession, splits: Splits, judged: Mapping[str, ClickJudgments]
) -> dict[str, Model]:
    """OWPC with the same settings on each judgment list and on the true grades.

    C is selected on validation queries by the judgments that train; their weights count.
    """
    with session.step("train", "train OWPC on clicks, on raw clicks, and on the true grades"):
        models, figures = {}, {}
        sources = {name: part.table for name, part in judged.items()} | {FROM_GRADES: None}
        for name, table in sources.items():
            judged_splits, not_logged = _regraded(splits, table)
            training = judged_splits.training
            plan = plan_of("owpc", "larank", SETTINGS, {"optimizer.C": DEFAULT_C})
            trained = fit(session, plan, judged_splits)
            models[name] = trained.model
            figures[name] = {
                "settings": dict(trained.settings),
                "queries": training.n_queries,
                "documents": training.n_documents,
                "not_logged": not_logged,
                "weights_sum": float(training.weights.sum()),
                "certificate": trained.fit.certificate.as_dict(),
            }
            session.line(
                f"{name}: {training.n_documents:,} documents of {training.n_queries:,} queries, "
                f"C = {trained.settings['optimizer.C']:g}"
            )
            session.warn(warnings_of(trained))
        session.line("raw clicks are click-through rates, which favour documents at high ranks")
        save_model(models[FROM_CLICKS], session.file("-clicks.json"))
        session.figures["trained"] = figures
    return models


def compare_live(
    session: DemoSession, logged: LoggedFeatures, models: Mapping[str, Model], baseline: MultiMatch
) -> None:
    """Held-out queries on the whole corpus, by their true grades; models rerank the candidates."""
    from owpc_ltr.engine.connect import connect
    from owpc_ltr.engine.live_queries import SearchOptions

    title = "search the whole corpus live, by the true grades of held-out queries"
    with session.step("compare", title):
        query = write_query(session, "-query.json", pool_query(KEYWORDS))
        tuned = write_query(session, "-bm25.json", baseline.query())
        rankers = {**models, TUNED: f"live:{tuned}", APPLICATION: f"live:{query}"}
        judgments = judgments_of(logged.candidates(held_out=True), all_relevant=True)
        search = SearchOptions(window=POOL_SIZE, featureset=logged.featureset.name)
        with session.working() as show:
            compared = connect(logged.engine.settings.url).compare_live(
                rankers, judgments=judgments, metrics=SELECT, baseline=FROM_CLICKS, index=INDEX,
                query_template=query, search=search, seed=session.options.seed, progress=show,
            )  # fmt: skip
        _comparison_lines(session, compared)
        session.figures["compare"] = compared.as_dict()


def _regraded(splits: Splits, table: pa.Table | None) -> tuple[Splits, int]:
    """The splits with the grades of a judgment list, and how many of these were not logged."""
    from owpc_ltr_clicks.relabelling import relabel_log

    if table is None:
        return splits, 0
    training = relabel_log(splits.training, table)
    validation = relabel_log(splits.validation, table).data
    sides = {**splits.sides, "train": training.data, "validation": validation}
    return replace(splits, sides=sides), training.not_logged


def _examination_table(
    session: DemoSession, summary: Mapping[str, Any], examination: Vector, truth: Vector
) -> None:
    """How far users look, as it was found by the model that judges and by PBM, and in truth."""
    rows = [
        (rank["rank"], f"{rank['shown']:,}", rank["click_through"], rank["examination"], *pair)
        for rank, *pair in zip(summary["ranks"], examination.tolist(), truth.tolist(), strict=False)
    ]
    models = f"EXAMINATION ({summary['model']})", f"({CLICK_MODEL})"
    session.table(["RANK", "IMPRESSIONS", "CLICK RATE", *models, "TRUE"], rows)


def _comparison_lines(session: DemoSession, compared: RankerComparison) -> None:
    """Each ranker with its interval, and what each difference to the one from clicks may be."""
    means = {ranker.name: ranker.means[SELECT] for ranker in compared.rankers}
    rows = [(name, mean.mean, mean.low, mean.high) for name, mean in means.items()]
    session.table([f"{compared.n_queries} HELD-OUT QUERIES", SELECT, "LOW", "HIGH"], rows)
    session.line(f"convention: {compared.metrics[0].convention}")
    session.warn(compared.warnings)
    for pair in compared.pairs:
        session.line(verdict(pair, pair.a, pair.b))
