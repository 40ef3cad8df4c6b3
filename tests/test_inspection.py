"""Each planted fault is found, by its own check and no other; clean data raise no warning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.inspection import inspecting
from owpc_ltr.inspection.finding import CHECKS
from owpc_ltr.inspection.quick import warnings_after_log, warnings_before_training
from tests.planted import FAULTS, clean
from tests.test_dataset_file import datasets

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
    monkeypatch.setattr(inspecting, "TRIAL_CELLS", 1000)
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
