"""Parts in half precision: how much is rounded, and that all passes see the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_losses.owpc import OWPC

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.options import DEFAULT_MEMORY, Room, room_from
from owpc_ltr.data.partitioned.cache import Float16Part
from owpc_ltr.data.partitioned.dataset import open_partitioned
from owpc_ltr.errors import UsageError
from owpc_ltr.kernels.risk import InMemory, OverParts
from tests.parted_samples import dataset, in_parts, learnable

DIGITS = 2.0**-11
REACH = 2.0**-29


def rounded(data: RankingDataset) -> RankingDataset:
    return Float16Part.of(data).whole()


@given(
    exponents=st.lists(st.integers(-100, 100), min_size=5, max_size=5), seed=st.integers(0, 1000)
)
def test_values_keep_eleven_digits_whatever_their_unit(exponents: list[int], seed: int) -> None:
    data = dataset(20, seed)
    data = replace(data, features=data.features * np.ldexp(np.float32(1), np.array(exponents)))
    found, truth = rounded(data).features.astype(np.float64), data.features.astype(np.float64)
    assert (np.isnan(found) == np.isnan(truth)).all()
    reach = REACH * np.nanmax(np.abs(truth), axis=0)
    error = np.abs(found - truth)
    assert not (error > DIGITS * np.maximum(np.abs(truth), reach)).any()
    # What it is for: digits that 16 bits have no room for are gone.
    assert (error > 0).any()
    assert (rounded(rounded(data)).features == rounded(data).features).all() or np.isnan(
        found
    ).any()


def test_columns_of_zeros_and_of_nothing_stay_what_they_are() -> None:
    rows = np.array([[0, np.nan, 3.0], [0, np.nan, np.nan]], np.float32)
    data = make_dataset(rows, [0, 1], ["q", "q"])
    assert np.array_equal(rounded(data).features, rows, equal_nan=True)


def test_all_but_the_features_is_untouched() -> None:
    data = dataset(30)
    found = rounded(data)
    assert found.query_ids.equals(data.query_ids)
    assert (found.labels == data.labels).all()
    assert (found.query_importance == data.query_importance).all()


@pytest.mark.parametrize("memory", [0, 1500, 1 << 20])
def test_the_risk_is_that_of_rounded_data_whether_parts_stay_or_not(
    memory: int, tmp_path: Path
) -> None:
    data = learnable(60)
    parts = in_parts(data, tmp_path / "parts")
    halved = replace(
        open_partitioned(tmp_path / "parts", Room(memory, float16=True)),
        feature_scales=data.feature_scales,
        filled=True,
    )
    weights = np.arange(1.0, 6.0)
    expected = InMemory(OWPC(), rounded(data.without_missing())).value_and_gradient(weights)
    for _ in range(2):
        value, gradient = OverParts(OWPC(), halved).value_and_gradient(weights)
        assert value == pytest.approx(expected[0], rel=1e-12)
        assert gradient == pytest.approx(expected[1], rel=1e-9, abs=1e-12)
    exact, _ = OverParts(OWPC(), parts).value_and_gradient(weights)
    assert value != exact
    assert value == pytest.approx(exact, rel=1e-2)
    assert halved.files.kept.bytes <= memory


def test_twice_as_many_parts_fit(tmp_path: Path) -> None:
    data = dataset(60)
    in_parts(data, tmp_path / "parts")
    sizes = []
    for half in (False, True):
        parts = ltr.open_dataset(tmp_path / "parts", memory=1 << 20, float16=half)
        for _ in parts:
            pass
        for piece in parts.pieces:
            parts.files.learnable(piece, filled=True)
        sizes.append(parts.files.kept.bytes)
    assert sizes == [4 * data.features.size, 2 * data.features.size]


def test_amounts_are_read_from_text() -> None:
    assert room_from(None) == Room(DEFAULT_MEMORY)
    assert room_from("2G:float16") == Room(2 << 30, float16=True)
    for wrong in ("", "4X", "-1", "4G:", "4G:half", "nan"):
        with pytest.raises(UsageError, match="no amount of memory"):
            room_from(wrong)
