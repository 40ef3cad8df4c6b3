"""Files of a folder of parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from owpc_ltr import open_dataset, partition, read_dataset, save_dataset
from owpc_ltr.data import parquet
from owpc_ltr.data.construction import join_datasets, make_dataset, stream_parquet
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import read_letor, stream_letor, write_letor
from owpc_ltr.data.options import DEFAULT_MEMORY, memory_from
from owpc_ltr.data.partitioned import write_partitioned
from owpc_ltr.errors import BadInput, UsageError
from tests.commands import Run
from tests.datasets import by_query, dataset, datasets, same


def joined(parts: list[RankingDataset]) -> RankingDataset:
    return join_datasets(parts, [f"part {number}" for number in range(len(parts))])


WITHOUT_FIELDS = make_dataset([[0.0], [0.0]], [0, 0], ["a", "b"], document_fields={})


@given(data=datasets(), rows=st.integers(1, 4))
@example(data=WITHOUT_FIELDS, rows=1)
def test_queries_come_whole_however_row_groups_cut_them(
    data: RankingDataset, rows: int, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_ROWS", rows)
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


def test_a_text_without_a_document_and_a_query_of_two_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# nothing\n")
    for name in ("one", "other"):
        save_dataset(dataset(), tmp_path / f"{name}.parquet")
    for names, message in (
        (["a.txt"], "no line with a document"),
        (["one.parquet", "other.parquet"], "comes back: put all its documents next to each other"),
    ):
        with pytest.raises(BadInput, match=message):
            partition([tmp_path / name for name in names], out=tmp_path / "out")


def test_files_become_one_folder(tmp_path: Path) -> None:
    first_dataset, other = dataset(), dataset(seed=4, first=500)
    save_dataset(first_dataset, tmp_path / "one.parquet")
    save_dataset(other, tmp_path / "other.parquet")
    parts = partition([tmp_path / "one.parquet", tmp_path / "other.parquet"], out=tmp_path / "out")
    assert by_query(parts.load()) == by_query(first_dataset) | by_query(other)
    assert parts.manifest is None
    assert partition(first_dataset, out=tmp_path / "single").manifest == first_dataset.manifest
    assert by_query(read_dataset(tmp_path / "single")) == by_query(first_dataset)
    assert read_dataset(tmp_path / "out").fingerprint == parts.fingerprint


def test_the_command_says_what_it_wrote(run: Run, tmp_path: Path) -> None:
    data = make_dataset(np.ones((6, 2)), [0, 1] * 3, ["a", "a", "b", "b", "c", "c"])
    save_dataset(data, tmp_path / "a.parquet")
    assert run.output("partition", "a.parquet", "--out", "parts") == (
        "6 documents of 3 queries, 2 features, in 3 parts\nwrote parts\n"
    )
    out = run.output("partition", "a.parquet", "--out", "more", "--buckets", "1", "--json")
    assert json.loads(out)["parts"] == 1
    assert "it holds a dataset already" in run.refusal(2, "partition", "a.parquet", "--out", "more")
    run.refusal(3, "partition", "none.parquet", "--out", "new")
    assert not (tmp_path / "new").exists()
    assert open_dataset(tmp_path / "more", memory=0).memory == 0


def test_amounts_are_read_from_text() -> None:
    assert memory_from(None) == DEFAULT_MEMORY
    assert memory_from("2G") == memory_from(2 << 30) == 2 << 30
    for wrong in ("", "4X", "-1", "4G:", "4G:float16", "nan"):
        with pytest.raises(UsageError, match="not an amount of memory"):
            memory_from(wrong)
