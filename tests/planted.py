"""Clean judged data, and faults to plant into any data: what an inspection must find."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.data.construction import join_datasets
from owpc_ltr.data.splits import HashSplit

NAMES = ("title", "body", "votes", "price", "age", "exact")
Fault = Callable[[RankingDataset], RankingDataset]


def clean(queries: int = 200, seed: int = 0) -> RankingDataset:
    """Text scores that lack a match now and then, heavy tails, a rare yes, and grades 0 to 3."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 20, queries)
    rows = int(sizes.sum())
    query = np.repeat(np.arange(queries), sizes)
    worth = rng.normal(size=rows)
    # A query's words are rare or frequent, which moves all its scores.
    title = rng.gamma(3.0, 2.0, rows) * rng.uniform(0.6, 1.6, queries)[query] + 2 * worth.clip(0)
    body = rng.gamma(4.0, 1.0, rows) + worth.clip(0)
    votes = np.exp(4 + 1.5 * rng.normal(size=rows) + 0.3 * worth)
    price = np.exp(3 + 0.5 * rng.normal(size=rows))
    age = 100 * rng.random(rows)
    exact = (rng.random(rows) < 0.02).astype(float)
    title[rng.random(rows) < 0.3] = np.nan
    grades = np.digitize(worth + 0.7 * rng.normal(size=rows), (0.3, 1.2, 2.1))
    columns = np.column_stack([title, body, votes, price, age, exact]).astype(np.float32)
    data = make_dataset(columns, grades, [f"q{q}" for q in query.tolist()], NAMES)
    texts = [json.dumps({"keywords": f"word{n} thing{n % 7}"}) for n in range(queries)]
    return replace(data, query_params=pa.array(texts, pa.string()))


def telling(data: RankingDataset) -> NDArray[np.int64]:
    """Columns with many values that are absent least, the most varied first."""
    present = (np.abs(data.features) > 0).mean(axis=0)
    here = present > min(0.95, present.max() - 0.15)
    values = np.array([len(np.unique(column)) for column in data.features.T])
    return np.flatnonzero(here)[np.argsort(-values[here], kind="stable")]


def without(data: RankingDataset, column: int, values: NDArray[np.float32]) -> RankingDataset:
    """The data with other values in a column."""
    features = data.features.copy()
    features[:, column] = values
    return replace(data, features=features)


def with_column(data: RankingDataset, name: str, values: NDArray[np.float32]) -> RankingDataset:
    """The data with a column more."""
    features = np.ascontiguousarray(np.column_stack([data.features, values]), np.float32)
    return replace(data, features=features, feature_names=(*data.feature_names, name))


def last_rows(data: RankingDataset, share: float) -> NDArray[np.bool_]:
    """The documents of the last queries."""
    rows = np.zeros(data.n_documents, bool)
    rows[data.offsets[int((1 - share) * data.n_queries)] :] = True
    return rows


def constant(data: RankingDataset) -> RankingDataset:
    """A field that is misspelt."""
    return with_column(data, "titel", np.full(data.n_documents, 1.0, np.float32))


def leak(data: RankingDataset) -> RankingDataset:
    """The grade, a little noisy, as a feature."""
    noise = np.random.default_rng(3).normal(size=data.n_documents)
    return with_column(data, "clicks", (data.labels + 0.1 * noise).astype(np.float32))


def split_query(data: RankingDataset) -> RankingDataset:
    """A tenth of the queries once more, under ids that fall on another side of the split."""
    count = max(2, data.n_queries // 10)
    sides = HashSplit().sides(data)
    chosen = np.flatnonzero(sides == "train")[:count]
    ids = [_on_test(f"{data.query_ids[int(q)].as_py()}-again") for q in chosen]
    again = replace(data.select(chosen), query_ids=pa.array(ids, pa.string()))
    return _beside(data, _renamed(again))


def missing_spike(data: RankingDataset) -> RankingDataset:
    """A field that the engine lacked while every seventh query was logged."""
    column = telling(data)[0]
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    values = np.where(query % 7 == 3, np.float32(np.nan), data.features[:, column])
    return without(data, column, values)


def stands_twice(data: RankingDataset) -> RankingDataset:
    """The first document of every fifth query once more, as an irrelevant one, or the reverse."""
    rows = data.offsets[np.arange(0, data.n_queries, 5)]
    return with_copies(data, rows, np.where(data.labels[rows] > 0, 0, data.labels.max()))


def with_copies(
    data: RankingDataset, rows: NDArray[np.int64], grades: NDArray[np.float32]
) -> RankingDataset:
    """These documents once more, at the end of their queries, with other grades."""
    queries = np.searchsorted(data.offsets, rows, side="right") - 1
    ends = data.offsets[queries + 1]
    order = np.insert(np.arange(data.n_documents), ends, rows)
    sizes = np.diff(data.offsets) + np.bincount(queries, minlength=data.n_queries)
    return replace(
        data,
        features=data.features[order],
        labels=np.insert(data.labels, ends, grades).astype(np.float32),
        offsets=np.concatenate(([0], np.cumsum(sizes))),
        comments=None,
        doc_ids=None if data.doc_ids is None else data.doc_ids.take(pa.array(order)),
    )


def coded(data: RankingDataset) -> RankingDataset:
    """The grade as a code that neither rises nor falls with it, a little noisy."""
    noise = np.random.default_rng(5).normal(size=data.n_documents)
    levels = np.unique(data.labels)
    codes = (np.arange(len(levels)) * 2 + 1) % (len(levels) + 1 - len(levels) % 2)
    code = codes[np.searchsorted(levels, data.labels)]
    return with_column(data, "bucket", (code + 0.05 * noise).astype(np.float32))


def reversed_tail(data: RankingDataset) -> RankingDataset:
    """The best grade is the lowest in the last third of the queries: another rater's scale."""
    turned = data.labels.max() - data.labels
    labels = np.where(last_rows(data, 0.35), turned, data.labels)
    return replace(data, labels=labels.astype(np.float32))


def shuffled_tail(data: RankingDataset) -> RankingDataset:
    """Labels joined to the wrong rows of their query in the last two fifths."""
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    order = np.lexsort((np.random.default_rng(6).random(len(query)), query))
    labels = np.where(last_rows(data, 0.4), data.labels[order], data.labels)
    return replace(data, labels=labels.astype(np.float32))


def scattered(data: RankingDataset, share: float, *, reverse: bool) -> RankingDataset:
    """The same in so many queries, in no order."""
    rng = np.random.default_rng(7)
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    order = np.lexsort((rng.random(len(query)), query))
    other = data.labels.max() - data.labels if reverse else data.labels[order]
    chosen = (rng.random(data.n_queries) < share)[query]
    return replace(data, labels=np.where(chosen, other, data.labels).astype(np.float32))


def from_one(data: RankingDataset) -> RankingDataset:
    """Labels from 1, of which none is irrelevant."""
    return replace(data, labels=data.labels + 1)


FAULTS: dict[str, tuple[Fault, str]] = {
    "constant": (constant, "constant-column"),
    "leak": (leak, "leak"),
    "split query text": (split_query, "split-leak"),
    "reversed grades": (reversed_tail, "inverted-labels"),
    "partly shuffled": (shuffled_tail, "partly-shuffled-labels"),
    "no irrelevant grade": (from_one, "no-irrelevant-grade"),
    "missing spike": (missing_spike, "missing-spike"),
    "coded grade": (coded, "leak"),
    "document twice": (stands_twice, "contradicting-grades"),
}
"""Each fault by name, and the check that must find it."""


def _on_test(name: str) -> str:
    """A name like this one that the usual split puts on the test side."""
    tries = (f"{name}{number}" for number in range(1000))
    return next(query_id for query_id in tries if HashSplit().sides_of([query_id])[0] == "test")


def _renamed(data: RankingDataset) -> RankingDataset:
    """The texts of the queries in capitals, with other punctuation."""
    if data.query_params is None:
        return data
    texts = [
        json.dumps({k: f"{v.upper().replace(' ', '-')}!" for k, v in json.loads(text).items()})
        for text in data.query_params.to_pylist()
    ]
    return replace(data, query_params=pa.array(texts, pa.string()))


def _beside(first: RankingDataset, other: RankingDataset) -> RankingDataset:
    return join_datasets([first, other], ["one", "other"])
