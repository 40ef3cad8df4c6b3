"""Small datasets: generated ones and plain arrays."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from owpc_ltr.data.dataset import RankingDataset, make_dataset

finite_or_missing = st.floats(width=32, allow_infinity=False)
texts = st.text(max_size=5)
names = texts | st.sampled_from(["label", "query_id", "feature label", "a.b", "a", "field label"])


def same(one: RankingDataset, other: RankingDataset) -> bool:
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
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
        document_ids=strings(rows),
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
