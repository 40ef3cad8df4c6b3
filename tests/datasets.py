"""Small datasets: arrays, folders of parts, LETOR's layouts, tables of external features."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from owpc_ltr import PartitionedDataset, read_external_features, train
from owpc_ltr.data import partitioned
from owpc_ltr.data.construction import join_datasets, make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.external_features import ExternalTable
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.letor import write_letor
from owpc_ltr.data.partitioned import open_partitioned, write_partitioned
from owpc_ltr.data.splits import HashSplit, digests_of
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.training.plan import with_scales

finite_or_missing = st.floats(width=32, allow_infinity=False)
texts = st.text(max_size=5)
names = texts | st.sampled_from(["label", "query_id", "feature label", "a.b", "a", "field label"])


def same(first: RankingDataset, other: RankingDataset) -> bool:
    for field in fields(first):
        a, b = getattr(first, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
                return False
        elif a != b:
            return False
    return True


@st.composite
def datasets(draw: st.DrawFn) -> RankingDataset:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    queries, rows = len(sizes), sum(sizes)
    columns = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    ids = draw(st.lists(texts, min_size=queries, max_size=queries, unique=True))

    def strings(count: int) -> Any:
        values = st.lists(texts, min_size=count, max_size=count)
        return draw(st.none() | values.map(lambda v: pa.array(v, pa.string())))

    def weights(kind: type, count: int) -> Any:
        values = hnp.arrays(kind, count, elements=st.sampled_from([0.0, 0.1, 1.0, 1e-9]))
        return draw(st.none() | values)

    sites = st.lists(st.none() | texts, min_size=rows, max_size=rows)
    return make_dataset(
        draw(hnp.arrays(np.float32, (rows, len(columns)), elements=finite_or_missing)),
        np.abs(draw(hnp.arrays(np.float32, rows, elements=st.sampled_from([0.0, 1.0, 2.5])))),
        np.repeat(np.array(ids, object), sizes),
        feature_names=tuple(columns),
        doc_ids=strings(rows),
        comments=strings(rows),
        query_params=strings(queries),
        query_weights=weights(np.float64, queries),
        document_weights=weights(np.float32, rows),
        feature_scales=weights(np.float64, len(columns)),
        featureset_hash=draw(st.none() | texts),
        document_fields=draw(
            st.none() | st.dictionaries(names, sites.map(lambda v: pa.array(v, pa.string())))
        ),
        manifest=draw(st.none() | st.dictionaries(texts, st.integers() | texts | st.none())),
    )


def arrays(seed: int = 0, queries: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten documents a query; grades follow the first of three features, with noise."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(queries * 10, 3))
    y = np.digitize(X[:, 0] + 0.3 * random.normal(size=len(X)), [0.5, 1.2])
    return X, y, np.repeat([f"q{n}" for n in range(queries)], 10)


def dataset(queries: int = 60, seed: int = 0, first: int = 0, width: int = 5) -> RankingDataset:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, queries)
    rows = int(sizes.sum())
    features = rng.normal(size=(rows, width)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    return make_dataset(
        features,
        rng.integers(0, 3, rows),
        np.repeat([f"query {first + i}" for i in range(queries)], sizes),
        doc_ids=pa.array([f"d{first}-{i}" for i in range(rows)]),
        query_params=pa.array([json.dumps({"keywords": f"q{i}"}) for i in range(queries)]),
        query_weights=rng.choice([0.5, 1.0, 2.0], queries),
        featureset_hash="a" * 64,
        manifest={"judged": rows},
    )


def in_parts(data: RankingDataset, folder: Path, memory: int = 1 << 20) -> PartitionedDataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioned, "PART_BYTES", 32 * 40)
        write_partitioned([replace(data, feature_scales=None)], folder)
    return replace(open_partitioned(folder, memory), feature_scales=data.feature_scales)


def learnable(queries: int = 60, seed: int = 0) -> RankingDataset:
    """Queries whose labels have to do with their features."""
    data = dataset(queries, seed)
    noise = np.random.default_rng(seed + 100).normal(size=data.n_documents)
    utility = np.nan_to_num(data.features) @ [1, -0.5, 0.5, 0, 0] + noise
    graded = np.clip(np.floor(utility + 1), 0, 2).astype(np.float32)
    return with_scales(replace(data, labels=graded), "scale")


def train_on_all(data: Any, **how: Any) -> Any:
    """The model of `train`, of which no query is held out."""
    return train(data, **how, validation_share=0, test_share=0)


def by_query(data: RankingDataset) -> dict[str, tuple[Any, ...]]:
    """What each query has, whatever the order of the queries."""
    assert data.doc_ids is not None
    assert data.query_params is not None
    return {
        query.query_id: (
            query.features.tobytes(),
            query.labels.tobytes(),
            query.weights.tobytes(),
            float(data.query_importance[number]),
            data.query_params[number].as_py(),
            data.doc_ids[int(data.offsets[number]) : int(data.offsets[number + 1])].to_pylist(),
        )
        for number, (query, start, end) in enumerate(
            zip(data, data.offsets, data.offsets[1:], strict=False)
        )
    }


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


PARTS = range(1, 6)
_ENDINGS = ("txt", "txt.gz", "txt.xz")


def part(number: int, queries: int = 4, documents: int = 8, features: int = 4) -> RankingDataset:
    """One fifth of a data set: queries that no other part has."""
    rng = np.random.default_rng(number)
    rows = queries * documents
    matrix = rng.uniform(size=(rows, features)).astype(np.float32)
    noise = rng.normal(scale=0.3, size=rows)
    labels = np.digitize(matrix[:, 0] + noise, [0.6, 0.9])
    # A query without two different labels is of no use to anybody.
    labels[::documents], labels[1::documents] = 2, 0
    ids = np.repeat([f"q{number}{k}" for k in range(queries)], documents)
    return make_dataset(matrix, labels, ids)


def write_parts(folder: Path, numbers: Sequence[int] = PARTS, ending: str = "txt") -> Path:
    """`S1.txt` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        write_letor(part(number), folder / f"S{number}.{ending}")
    return folder


def letor_folds() -> Iterator[tuple[str, list[int], list[int], list[int]]]:
    """LETOR's folds: their names, and the parts to train on, to choose on and to test on."""
    for first in range(len(PARTS)):
        numbers = [PARTS[(first + place) % len(PARTS)] for place in range(len(PARTS))]
        yield f"Fold{first + 1}", numbers[:3], numbers[3:4], numbers[4:]


def write_folds(folder: Path, ending: str = "txt", names: Sequence[str] = ()) -> Path:
    """`Fold1/train.txt` and so on, of the same parts, by other names where these are given."""
    train, vali, test = names or ("train", "vali", "test")
    for fold, *sides in letor_folds():
        own = folder / fold
        own.mkdir(parents=True, exist_ok=True)
        for name, numbers in zip((train, vali, test), sides, strict=True):
            joined = join_datasets([part(k) for k in numbers], [str(k) for k in numbers])
            write_letor(joined, own / f"{name}.{ending}")
    return folder


def crowded(queries: int = 30, seed: int = 3) -> RankingDataset:
    """Queries whose relevant documents are those unlike the others: no pointwise score tells."""
    rng = np.random.default_rng(seed)
    features = []
    for _ in range(queries):
        crowd = rng.normal(size=3) + 0.3 * rng.normal(size=(12, 3))
        features.append(np.vstack((crowd, rng.normal(scale=3, size=(4, 3)))))
    labels = np.tile(np.repeat([0, 1], [12, 4]), queries)
    order = np.concatenate([16 * q + rng.permutation(16) for q in range(queries)])
    data = make_dataset(
        np.vstack(features)[order],
        labels[order],
        np.repeat([f"q{q}" for q in range(queries)], 16),
        doc_ids=pa.array([f"d{i}" for i in range(16 * queries)]),
    )
    assert data.n_queries == queries
    return data


def weights(*values: float) -> LinearModel:
    return LinearModel(("1", "2", "3"), np.array(values))


def frame(columns: Mapping[str, Any]) -> pa.Table:
    return pa.table(dict(columns))


def written(path: Path, columns: Mapping[str, Any] | pa.Table, **how: Any) -> Path:
    table = columns if isinstance(columns, pa.Table) else frame(columns)
    pq.write_table(table, path, **how)
    return path


def table_of(columns: Mapping[str, Any]) -> ExternalTable:
    (table,) = read_external_features(frame(columns))
    return table


def seen_sides(query_ids: Iterable[str], split: HashSplit) -> dict[str, Any]:
    """The source in the record of a model that was trained and chosen on sides of these queries."""
    queries = [JudgedQuery(each, {}, [], np.zeros(0, np.float32)) for each in query_ids]
    sides = split.sides_of(each.query_id for each in queries)
    digests = {
        side: digests_of([each for each, on in zip(queries, sides, strict=True) if on == side])
        for side in ("train", "validation")
    }
    return {"queries": {side: {"ids": seen.as_dict()["ids"]} for side, seen in digests.items()}}
