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
from owpc_ltr.inspection.checks import warnings_of_log
from owpc_ltr.inspection.measures import column_facts, constant_features, constant_in_training
from owpc_ltr.inspection.result import listed
from tests.datasets import train_on_all
from tests.planted import clean, last_rows, with_column, without


def subjects(data: RankingDataset, check: str) -> list[str]:
    findings = ltr.inspect(data).findings
    return [finding.subject for finding in findings if finding.check == check]


def side_by_side(*data: RankingDataset) -> dict[str, RankingDataset]:
    """Files whose queries have other ids, and no texts."""
    return {
        f"{name}.txt": replace(
            table,
            query_params=None,
            query_ids=pa.array([f"{name}{query}" for query in table.query_ids.to_pylist()]),
        )
        for name, table in zip("abc", data, strict=False)
    }


def test_a_file_with_other_values_is_one_finding_for_all_its_columns() -> None:
    """BM25 of OpenSearch 2 is 2.2 times that of 3; two columns were exchanged."""
    first, other, third = clean(60, 1), clean(60, 2), clean(60, 3)
    features = other.features.copy()
    features[:, :2] *= 2.2
    features[:, [3, 4]] = features[:, [4, 3]]
    changed = replace(other, features=features)
    (finding,) = ltr.inspect(side_by_side(first, changed)).warnings
    assert finding.message.startswith("in b.txt values differ")
    (finding,) = ltr.inspect(side_by_side(first, changed, third)).warnings
    assert (finding.check, finding.columns) == ("feature-drift", ("title", "body", "price", "age"))
    assert finding.message.startswith("in b.txt values differ from those of the other files")
    here, there = (
        np.median(features[:, 3]),
        np.median(np.append(first.features, third.features, 0)[:, 3]),
    )
    assert f"'price' (median {here:.4g}, elsewhere {there:.4g})" in finding.message


@pytest.mark.parametrize("seed", range(5))
def test_files_of_one_source_do_not_drift(seed: int) -> None:
    """Documents of a query are alike: a bound that counted documents would speak every time."""
    rng = np.random.default_rng(seed)
    alike = []
    for _ in range(2):
        values = np.repeat(rng.normal(size=(60, 20)), 15, axis=0)
        alike.append(make_dataset(values, rng.integers(0, 2, 900), np.repeat(np.arange(60), 15)))
    rare = [
        with_column(
            data,
            "rare",
            (rng.random(data.n_queries) < 0.1).repeat(np.diff(data.offsets)).astype(np.float32),
        )
        for data in (clean(20, seed), clean(200, seed + 9))
    ]
    for files in (alike, rare, [clean(n, seed + n) for n in (5, 20, 60)]):
        assert ltr.inspect(side_by_side(*files)).warnings == ()


def test_a_column_that_one_file_lacks_is_told_once() -> None:
    first, other = clean(100, 1), clean(100, 2)
    gone = np.full(other.n_documents, np.nan, np.float32)
    (finding,) = ltr.inspect(side_by_side(first, without(other, 1, gone))).warnings
    assert (finding.check, finding.columns) == ("missing-spike", ("body",))
    assert "in all documents in b.txt" in finding.message


def test_a_file_that_is_sorted_by_a_feature_has_no_warning() -> None:
    check_sorted(clean(300))


@pytest.mark.thorough
def test_real_files_that_are_sorted_by_a_feature_have_no_warning(shared_data: Path) -> None:
    check_sorted(ltr.read_dataset(sorted((shared_data / "letor2-ohsumed").glob("S*.txt.xz"))))


def check_sorted(data: RankingDataset) -> None:
    """Sorted by the mean of any feature, the data raise no warning."""
    for column in range(data.n_features):
        values = np.nan_to_num(data.features[:, column])
        sums = np.add.reduceat(values, data.offsets[:-1])
        ordered = data.select(np.argsort(sums / np.diff(data.offsets)))
        assert ltr.inspect(ordered).warnings == ()


def test_a_text_feature_that_stays_away_for_a_stretch_is_told() -> None:
    """It is missing in every third document anyway: single queries without it say nothing."""
    data = clean(400)
    title = np.where(last_rows(data, 0.3), np.float32(np.nan), data.features[:, 0])
    assert subjects(without(data, 0, title), "missing-spike") == ["title"]


@pytest.mark.parametrize("seed", range(5))
def test_words_that_some_queries_lack_are_no_spike(seed: int) -> None:
    """Whether a feature matches depends on the query: nowhere, here and there, nearly always."""
    data = clean(300, seed)
    rng = np.random.default_rng(seed)
    share = rng.beta(0.5, 0.5, data.n_queries)
    there = rng.random(data.n_documents) < np.repeat(share, np.diff(data.offsets))
    title = np.where(there, data.features[:, 1], np.float32(np.nan))
    assert subjects(with_column(data, "words", title), "missing-spike") == []


def test_a_column_that_is_hardly_ever_there_is_but_noted() -> None:
    data = clean()
    rare = np.where(np.arange(data.n_documents) % 40 == 0, data.features[:, 1], np.nan)
    inspection = ltr.inspect(with_column(data, "rare", rare.astype(np.float32)))
    assert inspection.warnings == ()
    assert [
        finding.subject for finding in inspection.findings if finding.check == "missing-rate"
    ] == ["rare"]


def test_a_numbered_feature_that_is_not_used_is_but_noted() -> None:
    data = clean()
    zero, constant = np.zeros(data.n_documents, np.float32), np.ones(data.n_documents, np.float32)
    numbered = with_column(with_column(data, "46", zero), "47", constant)
    findings = [f for f in ltr.inspect(numbered).findings if "constant" in f.check]
    assert [(f.subject, f.severity) for f in findings] == [("47", "warning"), ("46", "note")]
    named = ltr.inspect(with_column(data, "votez", zero))
    assert [f.subject for f in named.warnings] == ["votez"]
    assert "misspelt" in named.warnings[0].advice


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
    assert warnings_of_log(facts, ("clause", "vots", "titel"), None) == [
        "no document has a value for titel: check the templates and fields",
        "every document has the same value for vots (0): check the templates and fields",
    ]


def test_one_document_is_no_reason_to_warn() -> None:
    assert warnings_of_log(column_facts(np.ones((1, 2), np.float32)), ("a", "b"), None) == []


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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        job(data)
    assert (
        sum("flat0, flat1: nothing was learned" in str(warning.message) for warning in caught) == 1
    )


def test_nothing_is_said_of_them_where_there_are_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_on_all(dataset(), settings={"C": 1.0})


def test_features_that_were_left_out_on_purpose_are_no_surprise() -> None:
    data, split = dataset(0.0), HashSplit(0.4, 0.0)
    with pytest.warns(OwpcLtrWarning) as caught:
        model = train(
            split.part(data, "train"),
            validation=split.part(data, "validation"),
            settings={"C": 1.0},
            max_features=1,
        )
    assert model.record["feature_selection"]["kept"] == ["good"]
    (line,) = [str(each.message) for each in caught if "in all documents" in str(each.message)]
    assert "flat0" in line
    assert "noise" not in line
