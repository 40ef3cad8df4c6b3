"""Each planted fault is found, by its own check and no other; clean data raise no warning."""

from __future__ import annotations

from pathlib import Path

import pytest

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.inspection.finding import CHECKS
from tests.planted import FAULTS, clean

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


def test_the_same_data_are_inspected_alike() -> None:
    data = clean(100)
    assert repr(ltr.inspect(data)) == repr(ltr.inspect(data))
