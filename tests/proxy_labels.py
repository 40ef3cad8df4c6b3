"""Proxy labels of all queries, human labels of a sample, and rankers to compare on them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr import RankerComparison, RankingDataset, make_dataset, save_dataset, save_model
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run

QUERIES, DOCUMENTS, JUDGED = 240, 6, 60
NAMES = ("bm25", "likes")
RANKERS = {"a": "feature:bm25", "b": "feature:likes"}


def both(seed: int = 5, wrong: float = 0.1) -> tuple[RankingDataset, RankingDataset]:
    """What people would say of all queries, and what a proxy judge says who errs so often."""
    rng = np.random.default_rng(seed)
    rows = QUERIES * DOCUMENTS
    labels = (rng.random(rows) < 0.4).astype(np.float32)
    people = make_dataset(
        rng.normal(size=(rows, 2)) + labels[:, None] * [1.0, 0.6],
        labels,
        np.repeat([f"q{n}" for n in range(QUERIES)], DOCUMENTS),
        NAMES,
        doc_ids=[f"d{n}" for n in range(rows)],
    )
    proxy = np.where(rng.random(rows) < wrong, 1 - labels, labels).astype(np.float32)
    return people, replace(people, labels=proxy)


def listed(data: RankingDataset, queries: Any) -> Judgments:
    """A judgment list of these queries, as people write one."""
    assert data.doc_ids is not None
    judged_queries = []
    for number in queries:
        rows = slice(int(data.offsets[number]), int(data.offsets[number + 1]))
        name = data.query_ids[int(number)].as_py()
        ids = data.doc_ids[rows].to_pylist()
        judged_queries.append(JudgedQuery(name, {"query": name}, ids, data.labels[rows]))
    return Judgments(judged_queries)


PEOPLE, PROXY = both()
SAMPLE = np.random.default_rng(1).permutation(QUERIES)[:JUDGED]


def compared(human: Any, proxy: Any = PROXY, **how: Any) -> RankerComparison:
    options = {"metrics": "ndcg@5", "resamples": 200, **how}
    return ltr.compare(options.pop("rankers", RANKERS), data=human, proxy_labels=proxy, **options)


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "80")
    save_dataset(PROXY, "clicks.parquet")
    save_model(LinearModel(NAMES, np.array([1.0, 0.5])), Path("linear.json"))
    with Path("sample.tsv").open("w", newline="") as file:
        rows = csv.writer(file, delimiter="\t")
        rows.writerow(["query_id", "query", "doc_id", "grade"])
        for query in listed(PEOPLE, SAMPLE).queries:
            for name, grade in zip(query.doc_ids, query.grades, strict=True):
                rows.writerow([query.query_id, query.query_id, name, int(grade)])
    return run


def told_apart() -> RankingDataset:
    """The same documents, of which one feature tells the relevant ones better than the other."""
    bm25 = PEOPLE.features[:, 0] + 3 * PEOPLE.labels
    return replace(PEOPLE, features=np.column_stack([bm25, PEOPLE.features[:, 1]]))


CLEAR = told_apart()


def comparison(data: RankingDataset = CLEAR, sample: Any = SAMPLE, **how: Any) -> RankerComparison:
    proxy = how.pop("proxy", replace(data, labels=PROXY.labels))
    return compared(listed(data, sample), proxy, **how)
