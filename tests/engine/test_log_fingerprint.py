"""The fingerprint of judgments: another one where anything that they say is another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.judgments.types import JudgedQuery, Judgments
from owpc_ltr.engine.feature_log.job import fingerprint

FIRST = JudgedQuery("q1", {"query": "a", "year": "1"}, ["d1", "d2"], np.array([1, 0], np.float32))
SECOND = JudgedQuery("q2", {"query": "b"}, ["d1"], np.array([2], np.float32))


@pytest.mark.parametrize(
    "change",
    [
        {"query_id": "q3"},
        {"params": {"query": "a", "year": "2"}},
        {"params": {"query": "a"}},
        {"document_ids": ["d2", "d1"]},
        {"document_ids": ["d1", "d3"]},
        {"grades": np.array([1, 1], np.float32)},
        {"grades": np.array([0, 1], np.float32)},
        {"weights": np.array([1, 2], np.float32)},
        {"weights": np.array([2, 1], np.float32)},
        {"importance": 2.0},
        {"importance": 0.0},
    ],
    ids=str,
)
def test_any_other_judgment_has_another_fingerprint(change: dict[str, Any]) -> None:
    changed = [replace(FIRST, **change), SECOND]
    assert fingerprint(Judgments(changed)) != fingerprint(Judgments([FIRST, SECOND]))


def test_the_order_of_queries_counts_and_that_of_parameters_does_not() -> None:
    turned = replace(FIRST, params=dict(reversed(FIRST.params.items())))
    assert fingerprint(Judgments([turned, SECOND])) == fingerprint(Judgments([FIRST, SECOND]))
    assert fingerprint(Judgments([SECOND, FIRST])) != fingerprint(Judgments([FIRST, SECOND]))
    noted = Judgments([FIRST, SECOND], notes=("read with care",))
    assert fingerprint(noted) == fingerprint(Judgments([FIRST, SECOND]))


def test_weights_of_1_say_what_no_weights_say() -> None:
    ones = replace(FIRST, weights=np.ones(2, np.float32), importance=1.0)
    assert fingerprint(Judgments([ones, SECOND])) == fingerprint(Judgments([FIRST, SECOND]))


def test_a_weight_is_no_importance_of_the_same_size() -> None:
    heavy = replace(SECOND, weights=np.array([2], np.float32))
    often = replace(SECOND, importance=2.0)
    assert fingerprint(Judgments([heavy])) != fingerprint(Judgments([often]))
