"""Columns that say nothing are found in one look, and by name."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from owpc_ltr.data.columns import (
    column_facts,
    listed,
    silent_features,
)
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.errors import OwpcLtrWarning
from owpc_ltr.inspection.columns import silent_in_training, warnings_of_log
from owpc_ltr.training.train import train

VALUES = st.sampled_from([0.0, -0.0, 1.0, -2.5, np.nan, np.inf, -np.inf])


@given(arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=VALUES))
def test_the_facts_are_those_of_whole_columns(features: np.ndarray) -> None:
    facts = column_facts(features)
    for column in range(features.shape[1]):
        values = features[:, column]
        there = values[~np.isnan(values)]
        assert facts.missing[column] == len(values) - len(there)
        assert bool(facts.empty[column]) == (len(there) == 0)
        assert bool(facts.constant[column]) == (
            len(there) == len(values) and len(np.unique(there)) == 1
        )
        if len(there):
            assert (facts.lowest[column], facts.highest[column]) == (there.min(), there.max())


def test_a_change_in_the_last_row_of_many_blocks_is_seen(rng: np.random.Generator) -> None:
    features = rng.normal(size=(60_000, 3)).astype(np.float32)
    features[:, 0] = 4.0
    features[:, 1] = 4.0
    features[-1, 1] = 5.0
    assert column_facts(features).constant.tolist() == [True, False, False]
    features[-1, 0] = np.nan
    assert column_facts(features).constant.tolist() == [False, False, False]


def test_a_value_that_is_there_or_not_says_something() -> None:
    facts = column_facts(np.array([[1, 0, np.nan], [np.nan, 0, np.nan]], np.float32))
    assert silent_features(facts, ("clause", "vots", "titel")) == ["vots", "titel"]
    assert warnings_of_log(facts, ("clause", "vots", "titel")) == [
        "no document has a value for titel: check the templates and fields",
        "every document has the same value for vots (0): check the templates and fields",
    ]


def test_one_document_is_no_reason_to_warn() -> None:
    assert warnings_of_log(column_facts(np.ones((1, 2), np.float32)), ("a", "b")) == []


def test_eight_are_named_and_the_others_counted() -> None:
    assert listed([*"abcdefgh"]).endswith("g, h")
    assert listed([*"abcdefghi"]).endswith("g, h and 1 more")
    (line,) = silent_in_training([f"f{n}" for n in range(20)])
    assert "f0, f1" in line
    assert "f7 and 12 more" in line
    assert silent_in_training([]) == []


def dataset(*columns: float) -> RankingDataset:
    """Two features that say something, then constant ones."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 2))
    y = (X[:, 0] > 0.3).astype(int)
    constant = np.tile(np.array(columns), (120, 1))
    names = ("good", "noise", *(f"flat{n}" for n in range(len(columns))))
    rows = np.column_stack([X, constant])
    return make_dataset(rows, y, np.repeat(np.arange(12), 10), feature_names=names)


def test_training_warns_of_columns_that_say_nothing() -> None:
    with pytest.warns(OwpcLtrWarning, match="in all documents: flat0, flat1: nothing was learned"):
        train(dataset(0.0, np.nan), settings={"C": 1.0}, validation_share=0, test_share=0)


def test_nothing_is_said_of_them_where_there_are_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(dataset(), settings={"C": 1.0}, validation_share=0, test_share=0)


def test_features_that_were_left_out_for_their_cost_are_no_surprise() -> None:
    from owpc_ltr.training.feature_cost import Costs

    data, split = dataset(0.0), HashSplit(0.4, 0.0)
    costs = Costs({"noise": 1000.0}, 1.0)
    with pytest.warns(OwpcLtrWarning) as told:
        model = train(
            split.part(data, "train"),
            validation=split.part(data, "validation"),
            settings={"C": 1.0},
            feature_cost=costs,
        )
    assert model.record["feature_cost"]["kept"] == ["good"]
    (line,) = [str(each.message) for each in told if "in all documents" in str(each.message)]
    assert "flat0" in line
    assert "noise" not in line
