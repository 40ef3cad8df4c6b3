"""Checks of columns: by bounds, and of columns that say nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrWarning, open_dataset, partition, select, train, train_reranker
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.inspection.columns import (
    affine_pairs,
    constant_features,
    constant_in_training,
    outlying,
    warnings_of_log,
)
from owpc_ltr.inspection.moved_columns import factor_between, ks_distance, moved_stretches
from owpc_ltr.inspection.result import listed
from owpc_ltr.inspection.sample import take_sample
from owpc_ltr.inspection.totals import Tails, column_facts, limits_of
from tests.datasets import train_on_all
from tests.planted import clean, last_rows, with_column, without


def found(data: RankingDataset, check: str) -> list[str]:
    told = ltr.inspect(data, training=False).findings
    return [one.subject for one in told if one.check == check]


@given(st.floats(-50, 50).filter(lambda a: abs(a) > 0.01), st.floats(-100, 100), st.integers(0, 99))
def test_a_multiple_plus_a_constant_is_found_among_many_columns(
    slope: float, shift: float, seed: int
) -> None:
    columns = np.random.default_rng(seed).normal(size=(400, 30)).astype(np.float32)
    copy = slope * columns[:, 17].astype(np.float64) + shift
    assert affine_pairs(np.column_stack([columns, copy]).astype(np.float32)) == [(17, 30)]


@given(st.integers(0, 99))
def test_a_copy_that_differs_in_one_row_is_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(400, 3)).astype(np.float32)
    near = columns[:, 0].copy()
    near[rng.integers(400)] += 0.01
    gone = columns[:, 1].copy()
    gone[rng.integers(400)] = np.nan
    assert affine_pairs(np.column_stack([columns, near, gone])) == []


def test_columns_that_say_yes_or_no_are_no_copies_by_that_alone() -> None:
    yes = (np.arange(300) % 7 == 0).astype(np.float32)
    no = np.float32(1) - yes
    assert affine_pairs(np.column_stack([yes, no])) == []


def test_of_three_equal_columns_one_finding_names_all() -> None:
    data = clean()
    column = data.features[:, 1]
    thrice = with_column(with_column(data, "two", column), "three", column)
    assert found(thrice, "duplicate-column") == ["body, two, three"]


def test_equal_in_the_sample_is_not_equal() -> None:
    """One row of many differs: the digest of all rows knows."""
    rng = np.random.default_rng(0)
    rows = 120_000
    columns = rng.normal(size=(rows, 2)).astype(np.float32)
    columns[:, 1] = columns[:, 0]
    queries = np.repeat(np.arange(rows // 20), 20)
    labels = rng.integers(0, 2, rows)
    assert found(make_dataset(columns, labels, queries), "duplicate-column") == ["1, 2"]
    columns[77_777, 1] += 1
    told = ltr.inspect(make_dataset(columns, labels, queries), training=False).warnings
    assert "duplicate-column" not in [one.check for one in told]


@pytest.mark.thorough(sample=5)
@pytest.mark.parametrize("seed", range(20))
def test_heavy_tails_have_no_outliers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for values in (
        rng.pareto(0.7, 5000),
        np.exp(3 * rng.normal(size=5000)),
        rng.exponential(size=5000),
        rng.standard_t(2, 5000),
    ):
        assert outlying(-np.sort(-np.abs(values))[:512], 50) == 0


@given(st.integers(1, 20), st.floats(1e-6, 1e6), st.integers(0, 99))
def test_a_slipped_unit_is_an_outlier_whatever_the_scale(few: int, scale: float, seed: int) -> None:
    values = np.random.default_rng(seed).gamma(3, 1, 5000)
    values[:few] = values.max() * np.linspace(1000, 2000, few)
    assert outlying(-np.sort(-values * scale)[:512], 50) == few


@given(st.integers(0, 99), st.integers(1, 40))
def test_tails_are_those_of_whole_columns_however_they_are_cut(seed: int, queries: int) -> None:
    rng = np.random.default_rng(seed)
    data = clean(40, seed)
    limits = limits_of(data.features, data.n_documents)
    tails = Tails(limits)
    tails._most = int(rng.integers(1, 5000))
    for first in range(0, data.n_queries, queries):
        part = data.select(np.arange(first, min(first + queries, data.n_queries)))
        tails.add(part, "data", int(data.offsets[first]))
    for column in range(data.n_features):
        values = data.features[:, column]
        beyond = {
            0: (values < limits.low[column]) & (values != 0),
            1: values > limits.high[column],
        }
        for end, rows in beyond.items():
            tail = tails.of(end, column)
            np.testing.assert_array_equal(np.sort(tail.value), np.sort(values[rows]))
            assert tail.distance.tolist() == sorted(tail.distance.tolist(), reverse=True)
            for value, query, (_, row) in zip(tail.value, tail.query, tail.row, strict=True):
                place = int(np.searchsorted(data.offsets, row, side="right")) - 1
                assert values[row] == value
                assert data.query_ids[place].as_py() == query


def test_outliers_are_told_with_their_query() -> None:
    data = clean()
    values = data.features[:, 1].copy()
    values[1000] *= 100
    told = ltr.inspect(without(data, 1, values), training=False).warnings
    assert [(one.check, one.columns) for one in told] == [("outlier", ("body",))]
    query = int(np.searchsorted(data.offsets, 1000, side="right")) - 1
    assert told[0].queries == (data.query_ids[query].as_py(),)


def test_an_infinite_value_is_told_and_stops_nothing() -> None:
    data = clean()
    values = data.features[:, 1].copy()
    values[5] = np.inf
    told = ltr.inspect(without(data, 1, values))
    assert [one.check for one in told.warnings] == ["outlier"]
    assert told.canary is None


def test_the_distance_is_that_of_distribution_functions() -> None:
    one, other = np.array([0, 1, 2, 3], np.float32), np.array([2, 3, 4, 5], np.float32)
    assert ks_distance(one, one[::-1]) == 0
    assert ks_distance(one, other) == ks_distance(other, one) == 0.5
    assert ks_distance(one, other + 9) == 1
    gone = np.full(4, np.nan, np.float32)
    assert ks_distance(one, gone) == 1


@pytest.mark.parametrize("seed", range(15))
def test_columns_of_the_query_alone_move_by_chance_and_are_not_told(seed: int) -> None:
    """Documents of a query are alike: a bound that counted documents would speak every time."""
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.normal(size=(120, 20)), 15, axis=0)
    data = make_dataset(values, rng.integers(0, 2, 1800), np.repeat(np.arange(120), 15))
    assert moved_stretches(take_sample({"": data})) == {}


@given(st.floats(2, 1e4), st.booleans(), st.integers(0, 99))
def test_a_factor_is_found_and_how_large_it_is(factor: float, down: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = 1 / factor if down else factor
    one, other = rng.gamma(4, 1, 3000), rng.gamma(4, 1, 5000)
    told = factor_between((factor * one).astype(np.float32), other.astype(np.float32))
    assert told is not None
    assert told == pytest.approx(factor, rel=0.1)


def test_values_of_another_shape_are_no_change_of_units() -> None:
    rng = np.random.default_rng(0)
    narrow = rng.normal(10, 1, 3000).astype(np.float32)
    assert factor_between(narrow + 30, narrow) is None
    assert factor_between((narrow**3).astype(np.float32), narrow) is None
    yes = np.repeat(np.array([1, 2], np.float32), 500)
    assert factor_between(2 * yes, yes) is None


def test_cents_in_scattered_queries_are_told_with_the_factor() -> None:
    data = clean()
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    column = data.feature_names.index("price")
    cents = data.features[:, column] * np.where(query % 3 == 1, 100, 1)
    told = ltr.inspect(without(data, column, cents.astype(np.float32)), training=False).warnings
    assert [(one.check, one.subject) for one in told] == [("unit-change", "price")]
    assert "time" in told[0].message
    named = [data.query_ids.index(one).as_py() % 3 for one in told[0].queries]
    assert set(named) == {1}


@pytest.mark.parametrize("seed", range(5))
def test_prices_that_rise_year_by_year_changed_no_unit(seed: int) -> None:
    data = clean(400, seed)
    column = data.feature_names.index("price")
    rising = data.features[:, column] * np.exp(np.linspace(0, 2, data.n_documents))
    assert found(without(data, column, rising.astype(np.float32)), "unit-change") == []


def test_a_file_that_is_sorted_by_a_feature_has_no_change_of_units() -> None:
    check_sorted(clean(300))


@pytest.mark.thorough
def test_real_files_that_are_sorted_by_a_feature_have_no_change_of_units(shared_data: Path) -> None:
    check_sorted(ltr.read_dataset(sorted((shared_data / "letor2-ohsumed").glob("S*.txt.xz"))))


def check_sorted(data: RankingDataset) -> None:
    """Sorted by the mean of any feature, the data raise no warning."""
    for column in range(data.n_features):
        values = np.nan_to_num(data.features[:, column])
        sums = np.add.reduceat(values, data.offsets[:-1])
        ordered = data.select(np.argsort(sums / np.diff(data.offsets)))
        assert ltr.inspect(ordered, training=False).warnings == ()


def test_scores_of_another_engine_are_one_finding_for_all_their_columns() -> None:
    """BM25 of OpenSearch 2 is 2.2 times that of 3."""
    data = clean(400)
    features = data.features.copy()
    features[last_rows(data, 0.5), :2] *= 2.2
    told = ltr.inspect(replace(data, features=features), training=False).warnings
    assert [one.check for one in told] == ["unit-change"]
    assert told[0].columns == ("title", "body")


def test_columns_exchanged_in_one_file_are_told_with_the_file() -> None:
    one, other = clean(150, 1), clean(150, 2)
    swapped = other.features.copy()
    swapped[:, [1, 4]] = swapped[:, [4, 1]]
    files = {
        "train.txt": one,
        "test.txt": replace(other, features=swapped, query_ids=_prefixed(other), query_params=None),
    }
    told = ltr.inspect(files, training=False).warnings
    assert [one.check for one in told] == ["swapped-columns"]
    assert "body" in told[0].message
    assert "age" in told[0].message
    assert told[0].message.endswith(("in test.txt", "in train.txt"))


def test_a_text_feature_that_stays_away_for_a_stretch_is_told() -> None:
    """It is missing in every third document anyway: single queries without it say nothing."""
    data = clean(400)
    title = np.where(last_rows(data, 0.3), np.float32(np.nan), data.features[:, 0])
    assert found(without(data, 0, title), "missing-spike") == ["title"]


@pytest.mark.parametrize("seed", range(5))
def test_words_that_some_queries_lack_are_no_spike(seed: int) -> None:
    """Whether a feature matches depends on the query: nowhere, here and there, nearly always."""
    data = clean(300, seed)
    rng = np.random.default_rng(seed)
    share = rng.beta(0.5, 0.5, data.n_queries)
    there = rng.random(data.n_documents) < np.repeat(share, np.diff(data.offsets))
    title = np.where(there, data.features[:, 1], np.float32(np.nan))
    assert found(with_column(data, "words", title), "missing-spike") == []


def test_a_column_that_is_hardly_ever_there_is_but_noted() -> None:
    data = clean()
    rare = np.where(np.arange(data.n_documents) % 40 == 0, data.features[:, 1], np.nan)
    told = ltr.inspect(with_column(data, "rare", rare.astype(np.float32)), training=False)
    assert told.warnings == ()
    assert [one.subject for one in told.findings if one.check == "missing-rate"] == ["rare"]


def test_a_numbered_feature_that_is_not_used_is_but_noted() -> None:
    data = clean()
    zero, one = np.zeros(data.n_documents, np.float32), np.ones(data.n_documents, np.float32)
    numbered = with_column(with_column(data, "46", zero), "47", one)
    told = [f for f in ltr.inspect(numbered, training=False).findings if "constant" in f.check]
    assert [(f.subject, f.severity) for f in told] == [("47", "warning"), ("46", "note")]
    named = ltr.inspect(with_column(data, "votez", zero), training=False)
    assert [f.subject for f in named.warnings] == ["votez"]
    assert "misspelt" in named.warnings[0].advice


def _prefixed(data: RankingDataset) -> pa.StringArray:
    return pa.array([f"other-{one}" for one in data.query_ids.to_pylist()], pa.string())


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
    assert constant_features(facts, ("clause", "vots", "titel")) == ["vots", "titel"]
    assert warnings_of_log(facts, ("clause", "vots", "titel")) == [
        "no document has a value for titel: check the templates and fields",
        "every document has the same value for vots (0): check the templates and fields",
    ]


def test_one_document_is_no_reason_to_warn() -> None:
    assert warnings_of_log(column_facts(np.ones((1, 2), np.float32)), ("a", "b")) == []


def test_eight_are_named_and_the_others_counted() -> None:
    assert listed([*"abcdefgh"]).endswith("g, h")
    assert listed([*"abcdefghi"]).endswith("g, h and 1 more")
    (line,) = constant_in_training([f"f{n}" for n in range(20)])
    assert "f0, f1" in line
    assert "f7 and 12 more" in line
    assert constant_in_training([]) == []


def dataset(*columns: float, queries: int = 12) -> RankingDataset:
    """Two features that say something, then constant ones."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(queries * 10, 2))
    y = (X[:, 0] > 0.3).astype(int)
    constant = np.tile(np.array(columns), (len(X), 1))
    names = ("good", "noise", *(f"flat{n}" for n in range(len(columns))))
    rows = np.column_stack([X, constant])
    return make_dataset(rows, y, np.repeat(np.arange(queries), 10), feature_names=names)


def test_training_warns_of_columns_that_say_nothing() -> None:
    with pytest.warns(OwpcLtrWarning, match="in all documents: flat0, flat1: nothing was learned"):
        train_on_all(dataset(0.0, np.nan), settings={"C": 1.0})


@pytest.mark.parametrize(
    "job",
    [
        train,
        lambda data: train(data, folds=3, loss="listnet"),
        lambda data: select(data, losses=["owpc", "listnet"], grid={"C": [0.1, 1.0]}, folds=3),
        lambda data: train_reranker(data, base="feature:good", loss="listnet"),
    ],
)
@pytest.mark.parametrize("in_parts", [False, True])
def test_every_job_says_it_once(
    tmp_path: Path, job: Callable[[Any], object], in_parts: bool
) -> None:
    # The fewest queries of which 30 are left to compare kinds of models.
    data: Any = dataset(0.0, np.nan, queries=40)
    if in_parts:
        partition(data, out=tmp_path / "parts", buckets=5)
        data = open_dataset(tmp_path / "parts")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        job(data)
    assert sum("flat0, flat1: nothing was learned" in str(one.message) for one in told) == 1


def test_nothing_is_said_of_them_where_there_are_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_on_all(dataset(), settings={"C": 1.0})


def test_features_that_were_left_out_on_purpose_are_no_surprise() -> None:
    data, split = dataset(0.0), HashSplit(0.4, 0.0)
    with pytest.warns(OwpcLtrWarning) as told:
        model = train(
            split.part(data, "train"),
            validation=split.part(data, "validation"),
            settings={"C": 1.0},
            max_features=1,
        )
    assert model.record["feature_selection"]["kept"] == ["good"]
    (line,) = [str(each.message) for each in told if "in all documents" in str(each.message)]
    assert "flat0" in line
    assert "noise" not in line
