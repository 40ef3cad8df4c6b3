"""Each planted fault is found, by its own check and no other; clean data raise no warning."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.inspection import checks
from owpc_ltr.inspection.finding import CHECKS
from owpc_ltr.inspection.label_agreement import label_agreement
from owpc_ltr.inspection.quick import warnings_after_log, warnings_before_training
from owpc_ltr.inspection.sample import take_sample
from tests.dataset_samples import datasets
from tests.planted import FAULTS, clean, scattered, with_column, with_copies, without

REAL = ("letor2-ohsumed", "letor3-ohsumed")


def warned(data: RankingDataset) -> list[str]:
    return [one.check for one in ltr.inspect(data, learning_curve=False).warnings]


@pytest.fixture(scope="module", params=REAL)
def real(request: pytest.FixtureRequest, shared_data: Path) -> RankingDataset:
    return ltr.read_dataset(sorted((shared_data / request.param).glob("S*.txt.xz")))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("queries", [60, 300])
def test_clean_data_raise_no_warning(queries: int, seed: int) -> None:
    assert warned(clean(queries, seed)) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_raises_its_own_warning_and_no_other(fault: str) -> None:
    plant, check = FAULTS[fault]
    for seed in (0, 1):
        assert warned(plant(clean(seed=seed))) == [check]


def test_real_judgments_raise_no_warning(real: RankingDataset) -> None:
    assert warned(real) == []


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
    for data in (clean(1000), strong(200)):
        (found,) = ltr.inspect(scattered(data, share, reverse=True), training=False).warnings
        assert found.check == "inverted-labels"
        told = float(re.search(r"in about (\d+)% of the queries", found.message).group(1))  # type: ignore[union-attr]
        assert abs(told / 100 - share) < 0.07


@pytest.mark.parametrize("share", [0.35, 0.5])
def test_labels_shuffled_in_some_queries_in_no_order_are_found(share: float) -> None:
    (found,) = ltr.inspect(scattered(strong(400), share, reverse=False), training=False).warnings
    assert found.check == "partly-shuffled-labels"


def test_labels_reversed_or_shuffled_in_real_queries_in_no_order_are_found(
    real: RankingDataset,
) -> None:
    assert warned(scattered(real, 0.3, reverse=True)) == ["inverted-labels"]
    assert warned(scattered(real, 0.5, reverse=False)) == ["partly-shuffled-labels"]


def test_queries_that_differ_in_how_well_they_are_known_are_no_fault() -> None:
    """Of one in a thousand sets of clean data it is said; here of none."""
    for seed in range(10):
        data = clean(120, seed)
        rng = np.random.default_rng(seed)
        worth = rng.uniform(0, 2, data.n_queries).repeat(np.diff(data.offsets))
        known = data.labels * worth + rng.normal(size=data.n_documents)
        mixed = with_column(data, "known", known.astype(np.float32))
        for one in (data, mixed, FAULTS["shuffled labels"][0](data)):
            assert list(label_agreement(take_sample({"": one}))) == []


@pytest.mark.parametrize(
    "fault", ["document twice", "coded grade", "reversed grades", "partly shuffled"]
)
def test_train_tells_of_faults_in_labels_too(fault: str) -> None:
    plant, check = FAULTS[fault]
    data = plant(clean())
    (found,) = (one for one in ltr.inspect(data, training=False).warnings if one.check == check)
    assert found.line in warnings_before_training(data)
    assert warnings_before_training(clean()) == []


def test_a_document_twice_under_one_grade_is_no_contradiction() -> None:
    data = clean()
    twice = FAULTS["document twice"][0](data)
    added = np.flatnonzero(np.diff(twice.offsets) > np.diff(data.offsets))
    labels = twice.labels.copy()
    labels[twice.offsets[added + 1] - 1] = labels[twice.offsets[added]]
    assert warned(replace(twice, labels=labels)) == []


def test_documents_of_other_ids_may_have_the_same_features() -> None:
    """As those of OHSUMED, of which seven hundred have the features of another one."""
    twice = FAULTS["document twice"][0](clean())
    ids = pa.array([f"d{row}" for row in range(twice.n_documents)])
    assert warned(replace(twice, document_ids=ids)) == []


@pytest.mark.parametrize(("factor", "offsets"), [(1.8, 3.0), (1.0, -4.0), (0.5, 4.0)])
def test_a_column_in_another_unit_in_one_fold_of_queries_is_found(
    factor: float, offsets: float
) -> None:
    """Every fifth query, wherever it stands; the line is told."""
    data = clean(300)
    values = data.features[:, 1].astype(np.float64)
    added = offsets * values.std()
    fold = (np.arange(data.n_queries) % 5 == 2).repeat(np.diff(data.offsets))
    moved = np.where(fold, factor * values + added, values).astype(np.float32)
    (found,) = ltr.inspect(without(data, 1, moved), training=False).warnings
    assert (found.check, found.columns) == ("unit-change", ("body",))
    assert "in 60 queries" in found.message
    parts = {
        "one": without(data, 1, moved).select(np.flatnonzero(np.arange(300) % 5 != 2)),
        "other": without(data, 1, moved).select(np.flatnonzero(np.arange(300) % 5 == 2)),
    }
    (found,) = ltr.inspect(parts, training=False).warnings
    assert (found.check, found.columns) == ("unit-change", ("body",))
    assert "in one" in found.message or "in other" in found.message


def test_columns_of_chance_in_any_order_change_no_unit() -> None:
    """Thirty columns of six shapes, as drawn, and sorted by one of them as prices rise."""
    for seed in range(6):
        data = clean(120, seed)
        rng = np.random.default_rng(seed)
        rows = data.n_documents
        level = rng.normal(size=data.n_queries).repeat(np.diff(data.offsets))
        shapes = [
            rng.normal(size=(rows, 5)) + level[:, None],
            rng.random((rows, 5)),
            rng.exponential(size=(rows, 5)) * np.exp(level)[:, None],
            rng.poisson(12, (rows, 5)),
            np.exp(rng.normal(size=(rows, 5)) + level[:, None]),
            rng.standard_t(3, (rows, 5)),
        ]
        wide = replace(
            data,
            features=np.column_stack(shapes).astype(np.float32),
            feature_names=tuple(f"f{n}" for n in range(30)),
        )
        order = np.argsort(level[data.offsets[:-1]], kind="stable")
        for one in (wide, wide.select(order)):
            checks = [found.check for found in ltr.inspect(one, training=False).warnings]
            assert "unit-change" not in checks


def test_real_documents_without_ids_raise_no_warning(real: RankingDataset) -> None:
    plain = replace(real, document_ids=None)
    assert [one.check for one in ltr.inspect(plain, training=False).warnings] == []
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(plain.n_documents, 302, replace=False))
    twice = with_copies(plain, rows, np.where(plain.labels[rows] > 0, 0, 1))
    assert warned(twice) == ["contradicting-grades"]


def test_real_files_side_by_side_raise_no_warning(shared_data: Path) -> None:
    for name in REAL:
        files = sorted((shared_data / name).glob("S*.txt.xz"))
        assert ltr.inspect(files, training=False).warnings == ()


def test_two_faults_are_two_findings_the_worst_first() -> None:
    both = FAULTS["constant"][0](FAULTS["leak"][0](clean()))
    found = ltr.inspect(both, training=False).findings
    assert [one.check for one in found if one.severity == "warning"] == ["leak", "constant-column"]
    places = [(one.severity == "note", CHECKS.index(one.check)) for one in found]
    assert places == sorted(places)


def test_a_feature_is_named_with_the_checks_that_name_it() -> None:
    found = ltr.inspect(FAULTS["duplicate"][0](clean()), training=False)
    named = {row.name: row.checks for row in found.features if row.checks}
    (finding,) = found.warnings
    assert set(named) == set(finding.columns)
    assert set(named.values()) == {("duplicate-column",)}


def test_a_grade_that_no_gain_can_count_is_told_and_stops_nothing() -> None:
    """It is in no sample: the trial of all queries meets it."""
    data = clean(6000)
    labels = data.labels.copy()
    labels[-1] = 1e6
    found = ltr.inspect(replace(data, labels=labels), learning_curve=True)
    assert [one.check for one in found.warnings] == ["grade-typo"]
    assert found.data.sampled < 6000
    assert found.learning_curve is None
    assert any("cannot count the label" in one.message for one in found.findings)


def test_a_curve_that_takes_long_is_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "TRIAL_CELLS", 1000)
    found = ltr.inspect(clean(100))
    assert found.learning_curve is None
    assert found.canary is not None
    (note,) = found.findings
    assert (note.check, note.advice) == ("not-looked-at", "ask for it with --learning-curve")
    assert ltr.inspect(clean(100), learning_curve=True).learning_curve is not None
    assert ltr.inspect(clean(100), learning_curve=False).findings == ()


def test_the_same_data_are_inspected_alike() -> None:
    data = clean(100)
    assert repr(ltr.inspect(data)) == repr(ltr.inspect(data))


@given(datasets())
def test_any_data_can_be_inspected(data: RankingDataset) -> None:
    found = ltr.inspect(data)
    assert found.data.queries == data.n_queries
    assert [row.name for row in found.features] == list(data.feature_names)
    assert ltr.inspect({"one": data, "other": data}, training=False).data.parts == 2
    assert repr(found)
    assert found._repr_html_()
    warnings_before_training(data)
    warnings_after_log(data)


@pytest.mark.parametrize("seed", range(12))
def test_the_strangest_values_can_be_inspected(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mild, large = [0.0, 1.0, -2.5, 7.0, np.nan], [3e38, -3e38, 1e-38]
    some = [mild, mild + large, [*mild, *large, np.inf, -np.inf]][seed % 3]
    grades: list[list[float]] = [[0, 1], [0, 1, 2, 1e9], [0, 1e-30, 1], [0, 1, 3e38]]
    values = rng.choice(np.array(some, np.float32), (600, 4))
    data = make_dataset(values, rng.choice(grades[seed % 4], 600), np.repeat(np.arange(100), 6))
    found = ltr.inspect(data)
    assert found.data.documents == 600
    assert repr(found)
    warnings_before_training(data)
