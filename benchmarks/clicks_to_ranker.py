"""Rankers from clicks beside one from true grades, live: what clicks and debiasing are worth.

    python benchmarks/clicks_to_ranker.py URL movies movies.parquet movies-judgments.tsv.gz
        --served best_fields cross_fields title_bm25

The features `--served` take turns in ordering the logged documents of the training and validation
queries; where a feature has no match, a document is not shown. Simulated users click, who look by
position, or read from the top (cascade). OWPC is trained on judgments by several click models, and
on the true grades: all with the same settings, C chosen on validation queries by the same kind of
judgments. Held-out queries are ranked by the laptop (the judged documents) and live by the engine
(the whole index, unjudged documents count as irrelevant), and measured by the true grades: means
with 95 % intervals, and each difference to the ranker of the true grades with a paired test,
corrected over all (Holm).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import simulated_users as simulate
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.encoding import normalised
from owpc_ltr_clicks.judge_clicks import count_clicks, judge_counts

import owpc_ltr as ltr
from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import join_datasets
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import DatasetSplits
from owpc_ltr.evaluation.judged_data import texts_of
from owpc_ltr.protocols import Model

METRIC = "ndcg@10"
TRUE, SERVED = "true grades", "the query alone"
RAW = "dctr"
SETTINGS = {"generator": "inverse", "grades": "thresholds"}


def main() -> None:
    """One table for each kind of users."""
    asked = arguments()
    sides = ltr.read_dataset(asked.data).split()
    data = join_datasets([sides.training, sides.validation], ["training", "validation"])
    cluster = ltr.connect(asked.url)
    featureset = cluster.store.get_featureset(asked.featureset or asked.index)
    with tempfile.TemporaryDirectory() as folder:
        query = Path(asked.query or Path(folder) / "query.json")
        if not asked.query:
            templates = {one.name: one.template for one in featureset.features}
            query.write_text(json.dumps(templates[asked.served[0]]))
        true = trained(sides, None)
        for kind in ("position", "cascade"):
            users = simulate.Users(kind)
            events = events_of(data, users, asked.served, asked.events, asked.seed)
            behaviour = count_clicks(events, max_sessions_per_client=0)
            print(f"\n{kind}: {told_of(behaviour)}")
            models = {TRUE: true}
            for name, judged in judgments_of(behaviour).items():
                models[name] = trained(sides, judged)
            laptop = ltr.compare(
                models, data=ltr.read_dataset(asked.data), metrics=METRIC, baseline=TRUE
            )
            live = cluster.compare_live(
                {**models, SERVED: f"live:{query}"}, judgments=asked.judgments, metrics=METRIC,
                baseline=TRUE, index=asked.index, query_template=query,
                window=asked.window, featureset=featureset.name,
            )  # fmt: skip
            print_table(laptop, live)


def served_scores(data: RankingDataset, feature: str, rng: np.random.Generator) -> Vector:
    """The order in which a feature shows documents, ties drawn; −∞ where it does not match."""
    values = data.features[:, data.feature_names.index(feature)].astype(np.float64)
    matches = np.nan_to_num(values, nan=0.0) > 0
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    order = np.lexsort((rng.random(len(values)), -np.where(matches, values, -np.inf), query))
    scores = np.empty(len(values))
    scores[order] = -np.arange(len(values), dtype=np.float64)
    return np.where(matches, scores, -np.inf)


def events_of(
    data: RankingDataset, users: simulate.Users, served: Sequence[str], events: int, seed: int
) -> pa.Table:
    """About so many events of users who were shown these rankers in turn."""
    rng = np.random.default_rng(seed)
    rankers = [served_scores(data, feature, rng) for feature in served]
    few = simulate.clicks(data, users, rankers, 2000, seed=seed)
    return simulate.clicks(data, users, rankers, round(2000 * events / len(few)), seed=seed)


def judgments_of(behaviour: Behaviour) -> dict[str, pa.Table]:
    """The same clicks, judged in every way."""
    found = {name: judge_counts(behaviour, model=name)
             for name in ("auto", "pbm", "sdbn", "coec", RAW)}  # fmt: skip
    chosen = found.pop("auto")
    tables = {f"auto ({chosen.chosen.name})": chosen.table}
    tables |= {name: one.table for name, one in found.items()}
    return tables


def trained(sides: DatasetSplits[RankingDataset], judged: pa.Table | None) -> Model:
    """OWPC on these judgments, or on the true grades; C by judgments of the same kind."""
    parts = [
        part if judged is None else relabelled(part, judged)
        for part in (sides.training, sides.validation)
    ]
    with warnings.catch_warnings():
        # That metrics do not weigh documents is known here.
        warnings.simplefilter("ignore", ltr.OwpcLtrWarning)
        return ltr.train(
            parts[0],
            validation=parts[1],
            settings=SETTINGS,
            metric=METRIC,
            source=sides.source,
        )


def relabelled(data: RankingDataset, judged: pa.Table) -> RankingDataset:
    """The judged rows of a feature log, with these grades and weights."""
    assert data.doc_ids is not None
    texts = texts_of(data)
    ids = data.query_ids if texts is None else texts
    names = [normalised(text) for text in ids.to_pylist()]
    owner = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    columns = (judged[name].to_pylist() for name in ("query", "doc_id", "grade", "weight"))
    graded = {
        (query, doc): (grade, weight) for query, doc, grade, weight in zip(*columns, strict=True)
    }
    documents = data.doc_ids.to_pylist()
    found = [graded.get((names[query], doc)) for query, doc in zip(owner, documents, strict=True)]
    rows = np.flatnonzero([one is not None for one in found])
    labels, weights = np.array(np.array([found[row] for row in rows], np.float32).T, order="C")
    owners, sizes = np.unique(owner[rows], return_counts=True)
    return replace(
        data.select(owners), features=data.features[rows], labels=labels,
        offsets=np.append(0, np.cumsum(sizes)).astype(np.int64),
        doc_ids=data.doc_ids.take(pa.array(rows)), document_weights=weights,
        document_fields=None, comments=None,
    )  # fmt: skip


def told_of(behaviour: Behaviour) -> str:
    account, counts = behaviour.event_counts, behaviour.counts
    looks = judge_counts(behaviour, model="pbm").chosen.fit.examination
    return (
        f"{account.read:,} events read, {account.used:,} used, "
        f"{int(counts.clicked.sum()):,} clicks; {counts.n_pairs:,} documents of "
        f"{len(counts.queries):,} queries; looked at, by pbm: "
        + " ".join(f"{one:.3f}" for one in looks[:10])
    )


def print_table(laptop: Any, live: Any) -> None:
    """Means and the differences to the ranker of the true grades, by the laptop and live."""
    print(f"{live.n_queries:,} held-out queries; {live.metrics[0].convention}")
    for where, found in (("laptop, judged documents", laptop), ("live, whole index", live)):
        print(f"{where:24}  {METRIC}                     less that of the {TRUE}")
        for ranker in found.rankers:
            mean = ranker.means[METRIC]
            print(
                f"{ranker.name:24}  {mean.mean:.4f} [{mean.low:.4f}, {mean.high:.4f}]"
                f"{difference(found, ranker.name)}",
                flush=True,
            )
        for warning in found.warnings:
            print(f"warning: {warning}")


def difference(found: Any, name: str) -> str:
    """A ranker less that of the true grades; nothing of that itself."""
    pair = next((one for one in found.pairs if one.a == name), None)
    if pair is None:
        return ""
    one = pair.comparison
    return f"   {one.mean_difference:+.4f} [{one.low:+.4f}, {one.high:+.4f}] p = {pair.p_holm:.4f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Rankers from clicks, live.")
    parser.add_argument("url")
    parser.add_argument("index")
    parser.add_argument("data", help="the feature log of the judged documents")
    parser.add_argument("judgments", help="the true grades")
    parser.add_argument("--served", nargs="+", required=True, help="features that took turns")
    parser.add_argument("--query", help="what models rerank; default: the first feature served")
    parser.add_argument("--featureset", help="default: that of the index's name")
    parser.add_argument("--window", type=int, default=100)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
