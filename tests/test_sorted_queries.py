"""Compiled orders of whole datasets are NumPy's, document for document."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.metrics import parse_metric, ranking
from owpc_ltr.metrics.ranking import best_first, ordered_down, sorted_down

KINDS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "spread": lambda rng, n: rng.normal(size=n),
    "tied": lambda rng, n: np.round(rng.normal(size=n)),
    "all alike": lambda _rng, n: np.zeros(n),
    "an outlier": lambda rng, n: np.where(np.arange(n) == n // 2, 1e300, rng.normal(size=n)),
    "infinite": lambda rng, n: rng.choice([-np.inf, 0.0, -0.0, 1.0, np.inf], size=n),
    "float32": lambda rng, n: rng.normal(size=n).astype(np.float32),
}


@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.integers(0, 150), max_size=20),
    st.integers(0, 2**32),
)
def test_the_compiled_order_is_that_of_numpy(kind: str, lengths: list[int], seed: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)
    scores = KINDS[kind](np.random.default_rng(seed), int(offsets[-1]))
    expected = [
        start + np.argsort(-scores[start:end], kind="stable") for start, end in pairwise(offsets)
    ]
    wanted = np.concatenate([np.empty(0, np.int64), *expected])
    assert (ordered_down(np.asarray(scores, np.float64), offsets) == wanted).all()
    assert (best_first(scores, offsets) == wanted).all()
    assert (sorted_down(scores, offsets) == scores[wanted]).all()


@pytest.mark.parametrize("metric", ["ndcg@10", "map", "err", "ndcg@10,ties=pessimistic"])
def test_a_metric_is_the_same_to_the_last_bit_either_way(
    metric: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 90, size=200))))
    scores = np.round(rng.normal(size=offsets[-1]), 1)
    labels = rng.integers(0, 4, size=offsets[-1]).astype(np.float32)
    values = []
    for small in (True, False):
        monkeypatch.setattr(ranking, "is_small", lambda _cells, small=small: small)
        values.append(parse_metric(metric).per_query(scores, labels, offsets))
    assert (values[0] == values[1]).all()
