"""Checks of queries and grades, and what `train` and `log-features` tell of them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.inspection.checks import warnings_before_training, warnings_of_log
from owpc_ltr.inspection.measures import column_facts
from tests.planted import FAULTS, clean, with_column


def checks(data: RankingDataset) -> list[str]:
    return [warning.check for warning in ltr.inspect(data).warnings]


def test_a_query_in_two_files_is_told_whatever_else_it_holds() -> None:
    first, other = clean(100, 1), clean(100, 2)
    files = {"train.txt": first, "test.txt": replace(other, query_params=None)}
    findings = ltr.inspect(files).warnings
    assert [finding.check for finding in findings] == ["split-leak"]
    assert "100" not in findings[0].subject
    assert findings[0].message.startswith("200 queries with the same id are in two files")


def test_the_same_set_in_two_files_is_told() -> None:
    data = clean(100)
    again = replace(data, query_ids=pa.array([f"x{n}" for n in range(100)], pa.string()))
    for part in (data, replace(data, query_params=None)):
        files = {"train.txt": part, "test.txt": replace(again, query_params=part.query_params)}
        findings = ltr.inspect(files).warnings
        assert [finding.subject for finding in findings] == ["200 queries"]


def test_other_queries_with_the_same_features_are_but_noted() -> None:
    """`dune imdb` and `dune netflix` find the same; their texts say that they are two."""
    data = clean(100)
    again = np.flatnonzero(HashSplit().sides(data) == "train")[:20]
    names = [name for n in range(200) if HashSplit().sides_of([name := f"n{n}"])[0] == "test"][:20]
    other = replace(
        data.select(again),
        query_ids=pa.array(names, pa.string()),
        query_params=pa.array([json.dumps({"keywords": f"else{n}"}) for n in range(20)]),
    )
    from owpc_ltr.data.construction import join_datasets

    both = ltr.inspect(join_datasets([data, other], ["a", "b"]))
    assert both.warnings == ()
    assert [finding.subject for finding in both.findings if finding.check == "split-leak"] == [
        "40 queries"
    ]


def test_texts_that_all_queries_share_are_no_text() -> None:
    data = clean(100)
    alike = pa.array(['{"user":"anna"}'] * 100, pa.string())
    assert checks(replace(data, query_params=alike)) == []


@pytest.mark.parametrize("turned", [False, True])
def test_a_column_that_is_the_grade_is_told_as_such(turned: bool) -> None:
    data = clean()
    copy = (5 - data.labels if turned else data.labels) * 3
    inspection = ltr.inspect(with_column(data, "clicks", copy.astype(np.float32)))
    assert [(warning.check, warning.subject) for warning in inspection.warnings] == [
        ("leak", "clicks")
    ]
    assert "is the grade in other words" in inspection.warnings[0].message


def test_a_strong_honest_feature_is_no_leak() -> None:
    data = clean(400)
    noise = np.random.default_rng(1).normal(size=data.n_documents)
    strong = with_column(data, "bm25", (data.labels + 0.5 * noise).astype(np.float32))
    inspection = ltr.inspect(strong)
    assert inspection.warnings == ()
    assert {row.name: row.alone for row in inspection.features}["bm25"] > 0.85


def logged(data: RankingDataset) -> list[str]:
    return warnings_of_log(column_facts(data.features), data.feature_names, data)


def test_training_and_logging_tell_what_is_wrong_once() -> None:
    assert warnings_before_training(clean()) == logged(clean()) == []
    spike = FAULTS["missing spike"][0](clean())
    (line,) = warnings_before_training(spike)
    assert logged(spike) == [line]
    assert "is missing, or 0, in all documents of" in line
    (line,) = warnings_before_training(FAULTS["leak"][0](clean()))
    assert line.startswith("'clicks' is the grade")


def test_of_a_few_queries_nothing_is_told_in_passing() -> None:
    few = make_dataset(np.arange(18.0).reshape(9, 2) % 7, np.arange(9) % 2, np.repeat([1, 2, 3], 3))
    assert warnings_before_training(few) == []
    assert logged(few) == []
