"""Files of a folder of parts, and the float16 cache."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from owpc_ltr_losses.owpc import OWPC

import owpc_ltr as ltr
from owpc_ltr import open_dataset, partition, read_dataset, save_dataset
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.letor import read_letor, stream_letor, write_letor
from owpc_ltr.data.options import DEFAULT_MEMORY, Room, room_from
from owpc_ltr.data.parquet import writing as saving_module
from owpc_ltr.data.partitioned.dataset import open_partitioned
from owpc_ltr.data.partitioned.parts import Float16Part
from owpc_ltr.data.partitioned.writing import stream_parquet, write_partitioned
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.kernels.risk import InMemory, OverParts
from tests.commands import commands_in
from tests.datasets import by_query, dataset, datasets, in_parts, learnable, same

quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def joined(parts: list[RankingDataset]) -> RankingDataset:
    return join_datasets(parts, [f"part {number}" for number in range(len(parts))])


@quick
@given(data=datasets(), rows=st.integers(1, 4))
def test_queries_come_whole_however_row_groups_cut_them(
    data: RankingDataset, rows: int, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saving_module, "_ROWS", rows)
        save_dataset(data, tmp_path / "a.parquet")
    parts = list(stream_parquet(tmp_path / "a.parquet"))
    assert all(part.manifest == data.manifest for part in parts)
    whole = replace(
        joined(parts),
        manifest=data.manifest,
        feature_scales=data.feature_scales,
        featureset_hash=parts[0].featureset_hash,
    )
    assert same(whole, data)


@quick
@given(piece=st.integers(20, 4000), seed=st.integers(0, 5))
def test_text_is_the_same_in_pieces(piece: int, seed: int, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    rng = np.random.default_rng(seed)
    ids = np.repeat([f"q{n}" for n in range(30)], rng.integers(1, 9, 30))
    rows = len(ids)
    write_letor(make_dataset(rng.random((rows, 4)), rng.integers(0, 3, rows), ids), path)
    parts = list(stream_letor(path, piece=piece))
    assert same(joined(parts), read_letor(path))
    assert len(parts) > 1 or piece > 1000


def test_later_lines_may_have_more_features(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("# a head\n1 qid:a 1:1\n0 qid:a 1:2\n\n1 qid:b 3:5\n# the end\n")
    parts = list(stream_letor(path, piece=12))
    assert [part.n_features for part in parts] == [3, 3]
    assert same(joined(parts), read_letor(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [("1 qid:c 1:x", "line 5"), ("1 qid:c 1:1", "comes back"), ("one qid:d 1:1", "line 5")],
)
def test_what_is_wrong_in_a_later_piece_is_told_with_its_place(
    line: str, message: str, tmp_path: Path
) -> None:
    text = f"1 qid:a 1:1\n0 qid:b 1:2\n1 qid:c 1:3\n0 qid:d 1:3\n{line}\n0 qid:e 1:3\n"
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(BadInput, match=message):
        write_partitioned(stream_letor(tmp_path / "a.txt", piece=12), tmp_path / "out")


def test_a_text_without_a_document_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# nothing\n")
    with pytest.raises(BadInput, match="no line with a document"):
        partition(tmp_path / "a.txt", out=tmp_path / "out")


def test_files_become_one_folder(tmp_path: Path) -> None:
    one, other = dataset(), dataset(seed=4, first=500)
    save_dataset(one, tmp_path / "one.parquet")
    save_dataset(other, tmp_path / "other.parquet")
    parts = partition([tmp_path / "one.parquet", tmp_path / "other.parquet"], out=tmp_path / "out")
    assert by_query(parts.load()) == by_query(one) | by_query(other)
    assert parts.manifest is None
    assert partition(one, out=tmp_path / "single").manifest == one.manifest
    assert by_query(read_dataset(tmp_path / "single")) == by_query(one)
    assert read_dataset(tmp_path / "out").fingerprint == parts.fingerprint


def test_a_query_of_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        save_dataset(dataset(), tmp_path / f"{name}.parquet")
    with pytest.raises(BadInput, match="comes back: put all its documents next to each other"):
        partition([tmp_path / "one.parquet", tmp_path / "other.parquet"], out=tmp_path / "out")


def test_the_command_says_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = commands_in(tmp_path, monkeypatch, capsys)
    data = make_dataset(np.ones((6, 2)), [0, 1] * 3, ["a", "a", "b", "b", "c", "c"])
    save_dataset(data, tmp_path / "a.parquet")
    code, out, _ = run("partition", "a.parquet", "--out", "parts")
    assert (code, out) == (0, "6 documents of 3 queries, 2 features, in 3 parts\nwrote parts\n")
    code, out, _ = run("partition", "a.parquet", "--out", "more", "--buckets", "1", "--json")
    assert json.loads(out)["parts"] == 1
    code, _, err = run("partition", "a.parquet", "--out", "more")
    assert code == 2
    assert "it holds a dataset already" in err
    code, _, err = run("partition", "none.parquet", "--out", "new")
    assert (code, (tmp_path / "new").exists()) == (3, False)
    assert open_dataset(tmp_path / "more", memory=0).memory == 0


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
