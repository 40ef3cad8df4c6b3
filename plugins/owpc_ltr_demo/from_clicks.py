"""The demo's rankers from clicks: behaviour judged, OWPC trained on it, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.inspection.constant import silent_in_training
from owpc_ltr.training.defaults import DEFAULT_C
from owpc_ltr_demo.contest import verdict
from owpc_ltr_demo.judged import POOL_SIZE, Pool, pool_query
from owpc_ltr_demo.proving import fit_owpc, write_query
from owpc_ltr_demo.tuned_bm25 import KEYWORDS, MultiMatch
from owpc_ltr_demo.users import Clicked
from owpc_ltr_demo.walk import INDEX, SELECT, Cluster, Walk

if TYPE_CHECKING:
    import pyarrow as pa
    from owpc_ltr_clicks.judgments import ClickJudgments

    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.evaluation.comparison import RankerComparison
    from owpc_ltr.protocols import Model

FROM_CLICKS, FROM_RAW = "OWPC, from clicks", "OWPC, from raw clicks"
FROM_GRADES = "OWPC, true grades"
TUNED, APPLICATION = "BM25, tuned", "the application's query"
RAW, LOOKS = "dctr", "pbm"
"""Raw clicks: the share of a document's impressions that was clicked, wherever it stood. And the
model that has the demo's users right."""
SETTINGS = {"loss.generator": "inverse", "loss.grades": "thresholds"}
"""Of what was clicked, that counts which was clicked more."""


def judge_behaviour(walk: Walk, clicked: Clicked) -> dict[str, ClickJudgments]:
    """Judgments by the click model that predicts best, and by raw clicks; the first as a file."""
    from owpc_ltr_clicks.judge_clicks import count_clicks, judge_counts

    with walk.step("judge", "judge by clicks, with a model of how users look"):
        with walk.narrator.working() as show:
            show("counting events, fitting click models", None)
            counted = count_clicks(clicked.events)
            found = judge_counts(counted)
            raw = judge_counts(counted, model=RAW)
            looks = judge_counts(counted, model=LOOKS).chosen.fit.examination
        found.write(walk.options.file("-clicks.parquet"))
        told = found.as_dict()
        _tell_events(walk, told["events"])
        _tell_models(walk, told)
        _tell_looks(walk, told, looks, clicked.examination)
        for warning in found.warnings:
            walk.narrator.line(f"warning: {warning}")
        shares = ", ".join(f"{count:,} of {grade}" for grade, count in told["grades"].items())
        walk.narrator.line(
            f"{told['documents']:,} documents of {told['queries']:,} queries have grades: {shares}"
        )
        walk.figures["clicks"] = {
            **told,
            "raw_model": RAW,
            f"{LOOKS}_examination": looks.tolist(),
            "true_examination": clicked.examination.tolist(),
        }
    return {FROM_CLICKS: found, FROM_RAW: raw}


def train_on_clicks(
    walk: Walk,
    sides: DatasetSplits[RankingDataset],
    judged: Mapping[str, ClickJudgments],
) -> dict[str, Model]:
    """OWPC with the same settings on each judgment list and on the true grades.

    C is chosen on validation queries by the list that trains; weights of judgments count.
    """
    from owpc_ltr.models.model_file import save_model

    with walk.step("train", "train OWPC on clicks, on raw clicks, and on the true grades"):
        models, figures = {}, {}
        sources = {name: one.table for name, one in judged.items()} | {FROM_GRADES: None}
        for name, table in sources.items():
            training, not_logged = _regraded(sides.training, table)
            validation, _ = _regraded(sides.validation, table)
            grid = {"optimizer.C": DEFAULT_C}
            trained = fit_owpc(walk, training, validation, sides.source, SETTINGS, grid)
            models[name] = trained.model
            figures[name] = {
                "settings": dict(trained.settings),
                "queries": training.n_queries,
                "documents": training.n_documents,
                "not_logged": not_logged,
                "weights_sum": float(training.weights.sum()),
                "certificate": trained.fit.certificate.as_dict(),
            }
            walk.narrator.line(
                f"{name}: {training.n_documents:,} documents of {training.n_queries:,} queries, "
                f"C = {trained.settings['optimizer.C']:g}"
            )
            for warning in (*trained.warnings, *silent_in_training(trained.silent_features)):
                walk.narrator.line(f"warning: {warning}")
        walk.narrator.line(
            "raw clicks are click-through rates: what stood high is taken for good, as it was "
            "clicked more"
        )
        save_model(models[FROM_CLICKS], walk.options.file("-clicks.json"))
        walk.figures["trained"] = figures
    return models


def compare_live(
    walk: Walk,
    cluster: Cluster,
    sides: DatasetSplits[RankingDataset],
    found: Sequence[Pool],
    models: Mapping[str, Model],
    baseline: MultiMatch,
) -> None:
    """Held-out queries on the whole corpus, by their true grades; models rerank the candidates."""
    from owpc_ltr.api.comparing_live import compare_live
    from owpc_ltr.api.live_rankers import LiveSearch
    from owpc_ltr.engine.cluster import connect

    with walk.step("compare", "search the whole corpus live, by the true grades of new queries"):
        query = write_query(walk, "-query.json", pool_query(KEYWORDS))
        tuned = write_query(walk, "-bm25.json", baseline.query())
        rankers = {**models, TUNED: f"live:{tuned}", APPLICATION: f"live:{query}"}
        held_out = set(sides.test.query_ids.to_pylist())
        judgments = _true_judgments(p for p in found if p.query.query_id in held_out)
        with walk.narrator.working() as show:
            search = LiveSearch(
                connect(cluster.engine.settings.url), INDEX, query, POOL_SIZE,
                featureset=cluster.featureset.name,
            )  # fmt: skip
            compared = compare_live(
                rankers, data=judgments, metrics=SELECT,
                baseline=FROM_CLICKS, live=search, seed=walk.options.seed, progress=show,
            )  # fmt: skip
        _tell(walk, compared)
        walk.figures["compare"] = compared.as_dict()


def _regraded(data: RankingDataset, table: pa.Table | None) -> tuple[RankingDataset, int]:
    """The logged rows by other judgments, and how many of these were not logged; or as they are."""
    from owpc_ltr_clicks.relabelling import relabel_log

    if table is None:
        return data, 0
    found = relabel_log(data, table)
    return found.data, found.not_logged


def _true_judgments(pools: Iterable[Pool]) -> Judgments:
    """The true grades of what is relevant, wherever it is, and of all candidates."""
    from owpc_ltr.data.judgments import JudgedQuery, Judgments

    judged = []
    for pool in pools:
        query = pool.query
        names = sorted({*query.relevant, *pool.document_ids})
        grades = np.array([query.relevant.get(name, 0) for name in names], np.float32)
        params = {"keywords": query.text, "query": query.text}
        judged.append(JudgedQuery(query.query_id, params, names, grades))
    return Judgments(judged)


def _tell_events(walk: Walk, events: Mapping[str, Any]) -> None:
    walk.narrator.line(f"{events['read']:,} events read, {events['used']:,} used")
    for reason, count in events["unusable"].items():
        walk.narrator.line(f"  {count:,} not used: {reason}")


def _tell_models(walk: Walk, told: Mapping[str, Any]) -> None:
    by_model = ", ".join(
        f"{one['model']} {one['session_log_likelihood']:.4f}" for one in told["held_out"]
    )
    walk.narrator.line(
        f"sessions of people who were held out are predicted best by {told['model']} (mean log "
        f"likelihood: {by_model})"
    )


def _tell_looks(walk: Walk, told: Mapping[str, Any], looks: Vector, truth: Vector) -> None:
    """How far users look, as it was found by the model that judges and by PBM, and in truth."""
    rows = [
        (one["rank"], f"{one['shown']:,}", one["click_through"], one["examination"], *pair)
        for one, *pair in zip(told["ranks"], looks.tolist(), truth.tolist(), strict=False)
    ]
    heads = ["RANK", "SHOWN", "CLICKED", f"EXAMINED ({told['model']})", f"({LOOKS})", "IN TRUTH"]
    walk.narrator.table(heads, rows)


def _tell(walk: Walk, compared: RankerComparison) -> None:
    """Each ranker with its interval, and what each difference to the one from clicks may be."""
    rows = []
    for ranker in compared.rankers:
        mean = ranker.means[SELECT]
        rows.append((ranker.name, mean.mean, mean.low, mean.high))
    walk.narrator.table([f"{compared.n_queries} HELD-OUT QUERIES", SELECT, "LOW", "HIGH"], rows)
    walk.narrator.line(f"convention: {compared.metrics[0].convention}")
    for warning in compared.warnings:
        walk.narrator.line(f"warning: {warning}")
    for pair in compared.pairs:
        told = verdict(pair.a, pair.b, pair.metric, pair.comparison)
        if pair.verdict.outcome != pair.comparison.verdict().outcome:
            told += f"; corrected over {len(compared.pairs)} comparisons: {pair.verdict}"
        walk.narrator.line(told)
