"""Folders of parts: the same queries as in memory, whole or refused, readable by anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owpc_ltr import OwpcLtrError, PartitionedDataset, RankingDataset, make_dataset
from owpc_ltr.data import partitioned
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.data.partitioned import (
    bucket_of,
    map_ahead,
    open_partitioned,
    whole_side,
    write_partitioned,
)
from owpc_ltr.data.splits import HashSplit, positions_of
from owpc_ltr.errors import BadInput, DiskFault, Refused, UsageError
from tests.datasets import by_query, content, dataset

quick = settings(max_examples=25)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "PART_BYTES", 32 * 12)


def written(data: RankingDataset, folder: Path, **how: Any) -> PartitionedDataset:
    write_partitioned([data], folder, **how)
    return open_partitioned(folder)


def test_every_query_comes_back_as_it_was(tmp_path: Path, small_parts: None) -> None:
    data = dataset()
    parts = written(data, tmp_path / "a")
    assert len(parts.pieces) > 20
    loaded = parts.load()
    assert by_query(loaded) == by_query(data)
    assert (loaded.feature_names, loaded.featureset_hash) == (data.feature_names, "a" * 64)
    assert loaded.manifest == data.manifest
    assert (parts.n_queries, parts.n_documents) == (data.n_queries, data.n_documents)
    assert parts.query_ids.to_pylist() == loaded.query_ids.to_pylist()
    again = [part.query_ids.to_pylist() for part in parts]
    assert [query for part in again for query in part] == loaded.query_ids.to_pylist()


def test_how_the_queries_come_does_not_change_a_byte(tmp_path: Path, small_parts: None) -> None:
    data = dataset()
    written(data, tmp_path / "whole")
    cuts = np.array_split(np.arange(data.n_queries), 7)
    pieces = (data.select(cut) for cut in cuts)
    write_partitioned(pieces, tmp_path / "pieces")
    assert content(tmp_path / "whole") == content(tmp_path / "pieces")


def test_every_part_is_a_dataset_file_in_row_groups_of_whole_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owpc_ltr.data.parquet._ROWS", 10)
    parts = written(dataset(200), tmp_path / "a")
    groups = 0
    for piece in parts.pieces:
        path = tmp_path / "a" / piece.part.path
        assert load_dataset(path).n_documents == piece.documents
        file = pq.ParquetFile(path)
        queries = [
            set(file.read_row_group(number)["query_id"].to_pylist())
            for number in range(file.num_row_groups)
        ]
        groups += len(queries)
        assert sum(map(len, queries)) == piece.queries
    assert groups > 2 * len(parts.pieces)


@quick
@given(
    queries=st.integers(2, 80),
    seed=st.integers(0, 9),
    buckets=st.integers(1, 50),
    shares=st.tuples(st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.123]), st.sampled_from([0.2, 0.31])),
    salt=st.sampled_from(["owpc-ltr", "again"]),
)
def test_sides_are_those_of_the_split_in_memory(
    queries: int,
    seed: int,
    buckets: int,
    shares: tuple[float, float],
    salt: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = dataset(queries, seed)
    parts = written(data, tmp_path_factory.mktemp("side") / "a", buckets=buckets)
    split = HashSplit(*shares, salt)
    expected = split.sides(data)
    ids = np.array(data.query_ids.to_pylist())
    for side in ("train", "validation", "test"):
        wanted = set(ids[expected == side].tolist())
        if not wanted:
            with pytest.raises(BadInput, match=f"no query falls on the {side} side"):
                split.part(parts, side)
            continue
        part = split.part(parts, side)
        loaded = part.load()
        assert set(loaded.query_ids.to_pylist()) == wanted
        assert (part.n_queries, part.n_documents) == (loaded.n_queries, loaded.n_documents)
        assert set(part.query_ids.to_pylist()) == wanted


def test_the_usual_shares_are_decided_by_whole_buckets(tmp_path: Path) -> None:
    """No file is opened for them: the manifest tells."""
    parts = written(dataset(300), tmp_path / "a")
    for path in (tmp_path / "a").glob("bucket=*/*"):
        path.write_bytes(b"")
    sides = {name: part.pieces for name, part in parts.split(0.2, 0.2).sides.items()}
    assert {piece.part.bucket for piece in sides["test"]} == {0, 1, 2, 3}
    assert {piece.part.bucket for piece in sides["validation"]} == {4, 5, 6, 7}
    assert sum(len(pieces) for pieces in sides.values()) == len(parts.pieces)
    with pytest.raises(BadInput, match="complete Parquet file"):
        parts.split(0.2, 0.21)


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=2), st.integers(1, 1000))
def test_buckets_are_in_the_order_of_the_numbers(positions: list[float], buckets: int) -> None:
    ordered = np.sort(np.array(positions))
    buckets_of = bucket_of(ordered, buckets)
    assert (np.diff(buckets_of) >= 0).all()
    assert buckets_of.min() >= 0
    assert buckets_of.max() < buckets
    for split in (HashSplit(), HashSplit(0.1, 0.2)):
        sides = split.sides_at(ordered)
        whole = whole_side(split, (float(ordered[0]), float(ordered[-1])))
        assert whole is None or set(sides) == {whole}


def test_a_position_is_the_share_of_hashes_below() -> None:
    """As in versions that reckoned them with Python's integers."""
    import hashlib

    ids = [f"query {i}" for i in range(200)]
    expected = [
        int.from_bytes(hashlib.blake2b(f"s\0{i}".encode(), digest_size=8).digest(), "big") / 2**64
        for i in ids
    ]
    assert positions_of(ids, "s").tolist() == expected


def test_the_loaded_data_have_the_name_of_the_folder(tmp_path: Path) -> None:
    parts = written(dataset(), tmp_path / "a")
    assert parts.load().fingerprint == parts.fingerprint
    assert written(dataset(seed=1), tmp_path / "b").fingerprint != parts.fingerprint
    train = parts.split().training
    assert train.fingerprint != parts.fingerprint
    assert train.load().origin == train.origin
    assert train.load().origin is not None


def sums(parts: PartitionedDataset) -> list[tuple[str, float]]:
    """What is read of the parts, in short."""
    return list(
        parts.each(
            lambda part: (
                str(part.query_ids),
                float(np.nansum(part.features * part.labels[:, None]))
                + float(part.query_importance @ np.diff(part.offsets)),
            )
        )
    )


@pytest.mark.parametrize("memory", [0, 1000, 1 << 30])
def test_parts_that_fit_stay_in_memory(memory: int, tmp_path: Path, small_parts: None) -> None:
    folder = tmp_path / "a"
    written(dataset(), folder)
    parts = open_partitioned(folder, memory)
    before = sums(parts)
    assert sums(parts) == before
    assert parts.files.cache.bytes <= memory
    for path in folder.glob("bucket=*/*"):
        path.unlink()
    if memory > parts.nbytes:
        assert sums(parts) == before
        parts.files.cache.release()
    with pytest.raises(BadInput, match="no such file"):
        sums(parts)


def test_what_is_done_to_parts_side_by_side_comes_in_order_and_little_is_held() -> None:
    for threads in (1, 2, 5):
        assert list(map_ahead(lambda n: n * n, range(40), threads)) == [n * n for n in range(40)]
    begun: list[int] = []
    for number in map_ahead(lambda n: begun.append(n) or n, range(100), 2):  # type: ignore[func-returns-value]
        assert max(begun) <= number + 3
    assert len(begun) == 100


def with_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        about = json.loads((folder / "_manifest.json").read_bytes())
        change(about)
        (folder / "_manifest.json").write_text(json.dumps(about))

    return apply


def first_part(folder: Path) -> Path:
    return min(folder.glob("bucket=*/*"))


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("no manifest", lambda f: (f / "_manifest.json").unlink(), "a folder without _manifest.json"),
    ("missing part", lambda f: first_part(f).unlink(), "which its manifest names, is missing"),
    ("cut manifest", lambda f: os.truncate(f / "_manifest.json", 300), "it is damaged"),
    ("no json", lambda f: (f / "_manifest.json").write_bytes(b"[1]"), "it is damaged"),
    ("changed", with_manifest(lambda m: m.update(buckets=19)), "it is damaged"),
    ("newer", with_manifest(lambda m: m.update(format=2)), "its format is 2, and this version"),
    (
        "other part",
        lambda f: first_part(f).write_bytes(max(f.glob("bucket=*/*")).read_bytes()),
        "it is not as it was written",
    ),
    ("cut part", lambda f: os.truncate(first_part(f), 500), "complete Parquet file"),
    ("foreign part", lambda f: pq.write_table(pa.table({"a": [1]}), first_part(f)), "no dataset"),
]


@pytest.mark.parametrize(
    ("damage", "message"), [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES]
)
def test_a_damaged_folder_is_refused_in_one_line(
    damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    written(dataset(), folder)
    damage(folder)
    for read in (
        list,
        lambda parts: list(parts.each(lambda part: part.n_queries)),
        lambda parts: parts.query_ids,
    ):
        with pytest.raises(OwpcLtrError) as raised:
            read(open_partitioned(folder))
        assert message in str(raised.value)


@pytest.mark.parametrize("fault", ["full disk", "bad query"])
def test_a_folder_that_was_not_finished_is_refused_and_begun_anew(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_parts: None
) -> None:
    data, folder = dataset(), tmp_path / "a"
    written(data, tmp_path / "right")

    def stream() -> Iterator[RankingDataset]:
        yield data.select(np.arange(40))
        if fault == "bad query":
            yield data.select(np.array([3]))
        else:
            monkeypatch.setattr(pq.ParquetWriter, "write_table", full_disk)
        yield data.select(np.arange(40, 60))

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "no space left on device")

    wanted = DiskFault if fault == "full disk" else BadInput
    message = "no space left" if fault == "full disk" else "query 'query 3' comes back"
    with pytest.raises(wanted, match=message):
        write_partitioned(stream(), folder)
    monkeypatch.undo()
    monkeypatch.setattr(partitioned, "PART_BYTES", 32 * 12)
    assert (folder / "_unfinished").exists()
    with pytest.raises(BadInput, match="it is half-written; run the command that writes it again"):
        open_partitioned(folder)
    written(data, folder)
    assert content(folder) == content(tmp_path / "right")


def test_a_killed_writer_leaves_a_folder_that_the_next_one_finishes(tmp_path: Path) -> None:
    code = """
import os, signal, sys
sys.path.insert(0, ".")
from pathlib import Path
from tests.datasets import dataset
from owpc_ltr.data import partitioned
partitioned.PART_BYTES = 32 * 12
def stream():
    yield dataset()
    os.kill(os.getpid(), signal.SIGKILL)
partitioned.write_partitioned(stream(), Path(sys.argv[1]))
"""
    folder = tmp_path / "a"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code, str(folder)], cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(folder.glob("bucket=*/*"))
    with pytest.raises(BadInput, match="it is half-written"):
        open_partitioned(folder)
    data = dataset(seed=3)
    parts = written(data, folder)
    assert by_query(parts.load()) == by_query(data)
    listed = {piece.part.path for piece in parts.pieces}
    assert {str(p.relative_to(folder)) for p in folder.glob("bucket=*/*")} == listed


def test_where_nothing_can_be_written_nothing_stays(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the data have no query"):
        write_partitioned([], tmp_path / "a")
    for buckets in (0, 1001):
        with pytest.raises(UsageError, match="1 to 1000 buckets"):
            write_partitioned([dataset()], tmp_path / "a", buckets=buckets)
    assert not (tmp_path / "a").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    data = dataset()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear reader")
    (tmp_path / "file").write_text("")
    written(data, tmp_path / "mine")
    for name, message in (
        ("other", "it has files that are not part of a dataset"),
        ("file", "it is a file; name a folder"),
        ("mine", "it holds a dataset already"),
    ):
        with pytest.raises(UsageError, match=message):
            write_partitioned([data], tmp_path / name)
    assert content(tmp_path / "other") == {"letter.txt": b"dear reader"}


def test_two_writers_of_one_folder_do_not_mix(tmp_path: Path) -> None:
    data = dataset()

    def second() -> Iterator[RankingDataset]:
        yield data
        with pytest.raises(Refused, match="another process is writing"):
            write_partitioned([data], tmp_path / "a")

    write_partitioned(second(), tmp_path / "a")
    assert by_query(open_partitioned(tmp_path / "a").load()) == by_query(data)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"feature_names": ("a", "b", "c", "d", "e")}, "have other features"),
        ({"query_weights": None}, "only some of the queries have query weights"),
        ({"doc_ids": None}, "has document ids and"),
        ({"featureset_hash": "b" * 64}, "other versions of the feature set"),
        ({"featureset_hash": None}, "only some of the queries say which"),
    ],
)
def test_datasets_that_do_not_fit_together_are_refused(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        write_partitioned([dataset(), replace(dataset(first=100), **changed)], tmp_path / "a")


def test_other_readers_see_one_table_and_skip_buckets(tmp_path: Path, small_parts: None) -> None:
    import pyarrow.dataset as ds

    data = dataset()
    parts = written(data, tmp_path / "a")
    test = parts.split().test
    table = ds.dataset(tmp_path / "a", partitioning="hive")
    assert table.to_table().num_rows == data.n_documents
    assert set(table.to_table()["query_id"].to_pylist()) == set(data.query_ids.to_pylist())
    rows = table.to_table(filter=ds.field("bucket") < 4)
    assert set(rows["query_id"].to_pylist()) == set(test.query_ids.to_pylist())
    polars = pytest.importorskip("polars")
    frame = polars.scan_parquet(f"{tmp_path / 'a'}/*/*.parquet", hive_partitioning=True)
    assert frame.filter(polars.col("bucket") < 4).collect().height == test.n_documents
    # A feature called bucket does not stand in the way.
    named = make_dataset(np.ones((4, 1)), [0, 1, 0, 1], ["a", "a", "b", "b"], ("bucket",))
    assert written(named, tmp_path / "b").load().feature_names == ("bucket",)
    whole = ds.dataset(tmp_path / "b", partitioning="hive").to_table()
    assert whole["feature bucket"].to_pylist() == [1.0] * 4
