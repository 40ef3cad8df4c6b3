"""Each planted fault is found, by its own check and no other; clean data raise no warning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset, make_dataset
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


LARGE = [0.0, 1.0, -2.5, 7.0, 3e38, -3e38, 1e-38, np.nan]


@settings(max_examples=60)
@given(
    st.sampled_from([LARGE, [*LARGE[:4], np.nan], [*LARGE, np.inf, -np.inf]]).flatmap(
        lambda some: hnp.arrays(np.float32, (90, 3), elements=st.sampled_from(some))
    ),
    hnp.arrays(np.float32, 90, elements=st.sampled_from([0.0, 1.0, 2.0, 1e9])),
)
def test_the_strangest_values_of_many_queries_can_be_inspected(
    values: np.ndarray, labels: np.ndarray
) -> None:
    data = make_dataset(values, labels, np.repeat(np.arange(30), 3))
    ltr.inspect(data, learning_curve=False)
    warnings_before_training(data)
