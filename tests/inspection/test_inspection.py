"""Inspection: each planted fault is found by its own check, and what `owpc-ltr inspect` prints."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset, save_dataset
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.inspection.checks import label_agreement, warnings_before_training, warnings_of_log
from owpc_ltr.inspection.measures import column_facts, take_sample
from owpc_ltr.inspection.result import CHECKS
from tests.commands import Run
from tests.datasets import datasets
from tests.planted import (
    FAULTS,
    clean,
    constant,
    scattered,
    with_column,
    with_copies,
)

REAL = ("letor2-ohsumed", "letor3-ohsumed")


def warned(data: RankingDataset) -> list[str]:
    return [warning.check for warning in ltr.inspect(data).warnings]


@pytest.fixture(scope="module", params=REAL)
def real(request: pytest.FixtureRequest, shared_data: Path) -> RankingDataset:
    return ltr.read_dataset(sorted((shared_data / request.param).glob("S*.txt.xz")))


@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("queries", [60, 300])
def test_clean_data_raise_no_warning(queries: int, seed: int) -> None:
    assert warned(clean(queries, seed)) == []


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_raises_its_own_warning_and_no_other(fault: str, seed: int) -> None:
    plant, check = FAULTS[fault]
    assert warned(plant(clean(seed=seed))) == [check]


def test_real_judgments_raise_no_warning(real: RankingDataset) -> None:
    assert warned(real) == []


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_real_judgments_raises_its_own_warning_and_no_other(
    fault: str, real: RankingDataset
) -> None:
    plant, check = FAULTS[fault]
    assert warned(plant(real)) == [check]


def strong(queries: int, seed: int = 0) -> RankingDataset:
    """Clean data with a feature that orders most pairs right."""
    data = clean(queries, seed)
    noise = np.random.default_rng(seed + 50).normal(size=data.n_documents)
    return with_column(data, "tuned", (data.labels + noise).astype(np.float32))


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_labels_reversed_in_some_queries_in_no_order_are_found(share: float) -> None:
    (finding,) = ltr.inspect(scattered(strong(200), share, reverse=True)).warnings
    assert finding.check == "inverted-labels"
    percent = float(re.search(r"in at least (\d+)% of the queries", finding.message).group(1))  # type: ignore[union-attr]
    assert 0.05 <= percent / 100 <= share


@pytest.mark.thorough
def test_labels_reversed_in_real_queries_in_no_order_are_found(real: RankingDataset) -> None:
    assert warned(scattered(real, 0.3, reverse=True)) == ["inverted-labels"]


@pytest.mark.thorough(sample=3)
@pytest.mark.parametrize("seed", range(10))
def test_queries_that_differ_in_how_well_they_are_known_are_no_fault(seed: int) -> None:
    """Of one in a thousand sets of clean data it is said; here of none."""
    data = clean(120, seed)
    rng = np.random.default_rng(seed)
    worth = rng.uniform(0, 2, data.n_queries).repeat(np.diff(data.offsets))
    known = data.labels * worth + rng.normal(size=data.n_documents)
    mixed = with_column(data, "known", known.astype(np.float32))
    shuffled = replace(data, labels=rng.permutation(data.labels))
    for dataset in (data, mixed, shuffled):
        assert list(label_agreement(take_sample({"": dataset}))) == []


@pytest.mark.parametrize(
    "fault", ["document twice", "coded grade", "reversed grades", "partly shuffled"]
)
def test_train_tells_of_faults_in_labels_too(fault: str) -> None:
    plant, check = FAULTS[fault]
    data = plant(clean())
    (finding,) = (warning for warning in ltr.inspect(data).warnings if warning.check == check)
    assert finding.line in warnings_before_training(data)
    assert warnings_before_training(clean()) == []


def test_a_document_twice_under_one_grade_or_other_ids_is_no_contradiction() -> None:
    """As those of OHSUMED, of which seven hundred have the features of another one."""
    data = clean()
    twice = FAULTS["document twice"][0](data)
    added = np.flatnonzero(np.diff(twice.offsets) > np.diff(data.offsets))
    labels = twice.labels.copy()
    labels[twice.offsets[added + 1] - 1] = labels[twice.offsets[added]]
    ids = pa.array([f"d{row}" for row in range(twice.n_documents)])
    for other in (replace(twice, labels=labels), replace(twice, doc_ids=ids)):
        assert warned(other) == []


@pytest.mark.thorough
def test_real_documents_without_ids_raise_no_warning(real: RankingDataset) -> None:
    plain = replace(real, doc_ids=None)
    assert [warning.check for warning in ltr.inspect(plain).warnings] == []
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(plain.n_documents, 302, replace=False))
    twice = with_copies(plain, rows, np.where(plain.labels[rows] > 0, 0, 1))
    assert warned(twice) == ["contradicting-grades"]


@pytest.mark.parametrize("name", [REAL[0], pytest.param(REAL[1], marks=pytest.mark.thorough)])
def test_real_files_side_by_side_raise_no_warning(name: str, shared_data: Path) -> None:
    files = sorted((shared_data / name).glob("S*.txt.xz"))
    assert ltr.inspect(files).warnings == ()


def test_two_faults_are_two_findings_the_worst_first_and_the_same_again() -> None:
    both = FAULTS["constant"][0](FAULTS["leak"][0](clean()))
    inspection = ltr.inspect(both)
    assert [warning.check for warning in inspection.warnings] == ["leak", "constant-column"]
    places = [
        (finding.severity == "note", CHECKS.index(finding.check)) for finding in inspection.findings
    ]
    assert places == sorted(places)
    assert repr(ltr.inspect(both)) == repr(inspection)


def test_a_feature_is_named_with_the_checks_that_name_it() -> None:
    inspection = ltr.inspect(FAULTS["missing spike"][0](clean()))
    named = {row.name: row.checks for row in inspection.features if row.checks}
    (finding,) = inspection.warnings
    assert named == dict.fromkeys(finding.columns, ("missing-spike",))


@given(datasets())
def test_any_data_can_be_inspected(data: RankingDataset) -> None:
    inspection = ltr.inspect(data)
    assert inspection.data.queries == data.n_queries
    assert [row.name for row in inspection.features] == list(data.feature_names)
    assert ltr.inspect({"one": data, "other": data}).data.parts == 2
    assert repr(inspection)
    assert inspection._repr_html_()
    warnings_before_training(data)
    warnings_of_log(column_facts(data.features), data.feature_names, data)


@pytest.mark.parametrize(
    "seed",
    [seed if seed < 4 else pytest.param(seed, marks=pytest.mark.thorough) for seed in range(12)],
)
def test_the_strangest_values_can_be_inspected(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mild, large = [0.0, 1.0, -2.5, 7.0, np.nan], [3e38, -3e38, 1e-38]
    some = [mild, mild + large, [*mild, *large, np.inf, -np.inf]][seed % 3]
    grades: list[list[float]] = [[0, 1], [0, 1, 2, 1e9], [0, 1e-30, 1], [0, 1, 3e38]]
    values = rng.choice(np.array(some, np.float32), (600, 4))
    data = make_dataset(values, rng.choice(grades[seed % 4], 600), np.repeat(np.arange(100), 6))
    inspection = ltr.inspect(data)
    assert inspection.data.documents == 600
    assert repr(inspection)
    warnings_before_training(data)


def test_clean_data_fit_a_screen_and_pass_the_strict(run: Run) -> None:
    save_dataset(clean(100), "clean.parquet")
    code, out, err = run("inspect", "clean.parquet", "--strict")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 30
    assert all(len(line) <= 80 for line in out.splitlines()[:16])
    assert "warning" not in out
    for name in ("queries", "documents", "grades", "without contrast", "title", "exact"):
        assert name in out
    assert "nothing was found" in out


def test_a_warning_ends_the_strict_with_the_code_of_a_failed_check(run: Run) -> None:
    save_dataset(constant(clean(100)), "flat.parquet")
    code, out, err = run("inspect", "flat.parquet")
    assert (code, err) == (0, "")
    message = "every document has the same value for titel"
    assert f"warning: {message} (1): check the templates" in out
    code, strict, err = run("inspect", "flat.parquet", "--strict")
    assert (code, strict) == (5, out)
    assert err.startswith(f"owpc-ltr: 1 warning: {message}")
    printed: dict[str, Any] = json.loads(run.output("inspect", "flat.parquet", "--json"))
    assert set(printed) == {"data", "features", "findings"}
    assert printed["data"]["queries"] == 100
    assert [row["name"] for row in printed["features"]][:2] == ["title", "body"]
    assert printed["findings"][0]["check"] == "constant-column"


def test_files_are_sides_and_must_not_share_a_query(run: Run) -> None:
    data = clean(120)
    for name, queries in (("train", np.arange(80)), ("test", np.arange(60, 120))):
        save_dataset(data.select(queries), f"{name}.parquet")
    _, out, _ = run("inspect", "train.parquet", "test.parquet")
    assert "warning: 40 queries with the same id are in two files, as 'q60' (train.parquet)" in out
    assert "is named twice" in run.refusal(2, "inspect", "train.parquet", "train.parquet")


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("fault", ["constant", "missing spike", "leak"])
def test_a_folder_of_parts_is_found_out_as_the_file_is(fault: str, tmp_path: Path) -> None:
    plant, check = FAULTS[fault]
    data = plant(clean(150))
    parts = ltr.partition(data, out=tmp_path / "parts", buckets=5)
    whole = ltr.inspect(data)
    inspection = ltr.inspect(parts)
    assert [warning.check for warning in inspection.warnings] == [check]
    assert inspection.data.parts == 5
    assert replace(inspection.data, parts=1, names=()) == replace(whole.data, names=())
    rows = zip(inspection.features, whole.features, strict=True)
    assert all(row.lowest == other.lowest or row.missing for row, other in rows)


def test_a_page_of_an_inspection_is_escaped() -> None:
    data = with_column(clean(60), "<b>x</b>", np.ones(clean(60).n_documents, np.float32))
    page = ltr.inspect(data)._repr_html_()
    assert "<b>x" not in page
    assert "&lt;b&gt;x" in page
    assert "the same value for" in page


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to inspect"):
        ltr.inspect([])
    with pytest.raises(BadInput, match="different features"):
        ltr.inspect({"a": clean(30), "b": constant(clean(30, 1))})
