"""Dataset files: written, read and opened."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from owpc_ltr import RankingDataset, make_dataset, read_dataset, save_dataset
from owpc_ltr.data import parquet
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.errors import BadInput, DiskFault
from owpc_ltr.files.input import open_bytes, read_text, shown
from tests.datasets import datasets, same


@given(data=datasets())
def test_every_bit_is_kept(data: RankingDataset, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save_dataset(data, path)
    again = load_dataset(path)
    assert same(again, data)
    content = path.read_bytes()
    save_dataset(again, path)
    assert path.read_bytes() == content


def large(rows: int = 3000) -> RankingDataset:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((rows, 70)).astype(np.float32)
    values[rng.random(values.shape) < 0.1] = np.nan
    queries = [f"q{row // 7}" for row in range(rows)]
    count = len(set(queries))
    return make_dataset(
        values,
        rng.integers(0, 3, rows),
        queries,
        doc_ids=pa.array([f"d{row}" for row in range(rows)]),
        query_params=pa.array([json.dumps({"keywords": f"words {q}"}) for q in range(count)]),
        query_weights=rng.random(count),
        document_fields={"vector": pa.array([[float(row), 1.0] for row in range(rows)])},
    )


def test_any_reader_of_parquet_sees_features_by_name(tmp_path: Path) -> None:
    data = make_dataset(
        [[1, np.nan], [3, 4]], [0, 1], ["q", "q"], feature_names=("title.bm25", "label")
    )
    save_dataset(data, tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["query_id", "label", "title.bm25", "feature label"]
    assert table["title.bm25"].to_pylist() == [1, 3]
    assert table["feature label"].null_count == 0
    assert table["query_id"].to_pylist() == ["q", "q"]


def test_either_kind_of_file_is_read(tmp_path: Path) -> None:
    data = make_dataset([[1, 2], [3, 4]], [0, 1], ["q", "r"])
    save_dataset(data, tmp_path / "a.txt")
    (tmp_path / "b.parquet").write_text("0 qid:q 1:1 2:2\n1 qid:r 1:3 2:4\n")
    for name in ("a.txt", "b.parquet"):
        assert read_dataset(tmp_path / name).fingerprint == data.fingerprint


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = large(100)
    path = tmp_path / "a.parquet"
    save_dataset(data, path)
    content = path.read_bytes()

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full_disk)
    with pytest.raises(DiskFault, match="no space left on device; fix that"):
        save_dataset(data, path)
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


def test_a_manifest_that_is_no_json_is_refused(tmp_path: Path) -> None:
    for value in (object(), float("nan")):
        with pytest.raises(BadInput, match="its manifest is not JSON"):
            save_dataset(replace(large(10), manifest={"a": value}), tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


def with_about(change: Callable[[dict[str, Any]], object]) -> Callable[[pa.Table], pa.Table]:
    def apply(table: pa.Table) -> pa.Table:
        about = json.loads(table.schema.metadata[b"owpc_ltr"])
        change(about)
        return table.replace_schema_metadata({b"owpc_ltr": json.dumps(about)})

    return apply


def setting(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, values)


HOSTILE: list[tuple[str, Callable[[pa.Table], pa.Table], str]] = [
    ("foreign", lambda t: t.replace_schema_metadata({}), "no dataset of owpc-ltr: give its column"),
    ("no label", lambda t: t.drop_columns(["label"]), "it has no column 'label'"),
    ("no query id", lambda t: t.drop_columns(["query_id"]), "it has no column 'query_id'"),
    ("no feature", lambda t: t.drop_columns(["2"]), "it has no column '2'"),
    ("no field", lambda t: t.drop_columns(["vector"]), "it has no column 'vector'"),
    ("double column", lambda t: t.append_column("2", t["2"]), "it has more than one column '2'"),
    ("float64 feature", lambda t: setting("2", t["2"].cast("float64"))(t),
     "the column '2' is double, and must be float"),
    ("integer label", lambda t: setting("label", t["label"].cast("int64"))(t),
     "the column 'label' is int64, and must be float"),
    ("split query", lambda t: t.take([0, 8, 1, 2]), "query 'q0' is in two places"),
    ("null feature", setting("2", pa.array([None] * 20, pa.float32())), "the column '2' has nulls"),
    ("null label", setting("label", pa.array([1.0] * 19 + [None], pa.float32())),
     "the column 'label' has no value in row 20 (index 19)"),
    ("negative label", setting("label", pa.array([-1.0] * 20, pa.float32())),
     "labels must be finite and not negative"),
    ("two params", setting("query_params", pa.array([str(i) for i in range(20)])),
     "query 'q0' has two values of 'query_params': one on its first row, one on row 2 (index 1)"),
    ("nan weight", setting("query_weight", pa.array([float("nan")] * 20)), "query_weight"),
    ("no rows", lambda t: t.slice(0, 0), "it has no rows"),
    ("newer format", with_about(lambda a: a.update(format=2)), "its format is 2, and this version"),
    ("no json", lambda t: t.replace_schema_metadata({b"owpc_ltr": b"{"}), "metadata are damaged"),
    ("deep json", lambda t: t.replace_schema_metadata({b"owpc_ltr": b"[" * 100_000}),
     "metadata are damaged"),
    ("json list", lambda t: t.replace_schema_metadata({b"owpc_ltr": b"[1]"}), "damaged"),
    ("fewer names", with_about(lambda a: a["features"].pop()), "metadata are damaged"),
    ("names are numbers", with_about(lambda a: a.update(columns=[1] * 70)), "metadata are damaged"),
    ("same name", with_about(lambda a: a.update(features=["x"] * 70)), "'x' occurs twice"),
    ("scales are text", with_about(lambda a: a.update(feature_scales=["1"])), "are damaged"),
    ("scales too few", with_about(lambda a: a.update(feature_scales=[1.0])),
     "feature_scales has 1"),
    ("no manifest", with_about(lambda a: a.pop("manifest")), "metadata are damaged"),
]  # fmt: skip


def test_long_parameters_are_read_once_a_query_and_written_in_smaller_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vector of many numbers stands on every row: as text, rows of it would fill the memory."""
    count, size = 30, 20
    vectors = np.random.default_rng(5).random((count, 200)).tolist()
    data = make_dataset(
        np.ones((count * size, 1)),
        np.zeros(count * size),
        np.repeat([f"q{number}" for number in range(count)], size),
        query_params=pa.array([json.dumps({"vector": vector}) for vector in vectors]),
    )
    save_dataset(data, tmp_path / "whole")
    monkeypatch.setattr(parquet, "_BYTES", 400_000)
    save_dataset(data, tmp_path / "groups")
    groups = pq.ParquetFile(tmp_path / "groups").num_row_groups
    assert pq.ParquetFile(tmp_path / "whole").num_row_groups == 1 < groups < count * size
    for name in ("whole", "groups"):
        before = pa.total_allocated_bytes()
        back = load_dataset(tmp_path / name)
        assert same(back, data)
        assert back.query_params is not None
        most = 2 * back.query_params.nbytes + 100_000
        assert most < size * back.query_params.nbytes / 4
        # Arrow's threads give back what they read with a moment later.
        until = time.monotonic() + 10
        while pa.total_allocated_bytes() - before >= most and time.monotonic() < until:
            time.sleep(0.01)
        assert pa.total_allocated_bytes() - before < most


@pytest.mark.parametrize(
    ("change", "message"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
def test_a_file_that_is_no_dataset_is_refused_in_one_line(
    change: Callable[[pa.Table], pa.Table], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    save_dataset(large(20), path)
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(BadInput) as raised:
        read_dataset(path)
    text = str(raised.value)
    assert text.startswith(f"cannot read {path}: ")
    assert message in text


def test_a_cut_file_is_refused_and_a_damaged_page_is_or_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save_dataset(large(20), path)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(BadInput):
            load_dataset(path)
    for at in range(4, len(content) - 8, 211):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        with contextlib.suppress(BadInput):
            load_dataset(path)


def test_text_is_not_taken_for_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    with pytest.raises(BadInput, match="it is not a complete Parquet file"):
        load_dataset(tmp_path / "a.txt")
    with pytest.raises(BadInput, match="line 1: the label 'hello'"):
        read_dataset(tmp_path / "a.txt")


def test_a_name_that_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    data = make_dataset([[1.0]], [1], ["q"], feature_names=("caf\udce9",))
    with pytest.raises(BadInput, match=r"the name 'caf\\udce9' is not text"):
        save_dataset(data, tmp_path / "a.parquet")
    fields = {"a\ud800": pa.array(["x"])}
    with pytest.raises(BadInput, match="is not text"):
        save_dataset(replace(data, feature_names=("a",), document_fields=fields), tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_text_is_read_whole_whatever_its_dress_but_not_what_is_too_large(tmp_path: Path) -> None:
    path, text = tmp_path / "a", b"caf\xc3\xa9\r\n"
    for content in (text, b"\xef\xbb\xbf" + text, gzip.compress(text)):
        path.write_bytes(content)
        assert read_text(path) == "café\r\n"
    path.write_bytes(gzip.compress(b"abc\n" * (1 << 20)))
    with pytest.raises(BadInput, match="it is larger than 2 MiB"):
        read_text(path, largest=2 << 20)


def test_the_share_read_goes_up_to_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    with open_bytes(path) as source:
        shares = []
        while source.readinto(memoryview(bytearray(30))):
            shares.append(source.share)
    assert shares == [0.3, 0.6, 0.9, 1.0]


def test_a_shown_value_is_one_short_printable_line() -> None:
    assert shown("a\nb\x1b\u202e") == "'a\\nb\\x1b\\u202e'"
    assert shown(b"\xff\0") == "'\\xff\\x00'"
    assert shown("x" * 100) == f"'{'x' * 48}…'"
