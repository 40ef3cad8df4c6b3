"""The LETOR reader: by several threads as by one, and bounded in memory."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import RankingDataset, read_folds
from owpc_ltr.data import letor
from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.letor import Reader, last_query, read_letor, write_letor
from owpc_ltr.errors import BadInput
from tests.commands import Run

FAULTS = [
    "-1 qid:q3 1:1",
    "1 qid:q3 0:1",
    "1 q3 1:1",
    "1 qid:q3 1:x # d",
    "1 qid:q0 1:1",
    "1 qid:q3 1:1 \xff",
]
PIECES = [64, 300, 5000]


def text_of(rng: np.random.Generator) -> str:
    """Queries of one to ten lines: comments or none, blanks, features left out, a wide line."""
    lines = []
    for query in range(int(rng.integers(1, 30))):
        for _ in range(int(rng.integers(1, 11))):
            columns = np.flatnonzero(rng.random(6) < 0.6) + 1
            values = " ".join(f"{column}:{rng.normal():.4g}" for column in columns)
            comment = rng.choice(["", "# d7 of old", "# docid = x9 inc = 1", "# qid:q1 5:5"])
            lines.append(f"{rng.integers(0, 3)} qid:q{query} {values} {comment}")
        if rng.random() < 0.2:
            lines += ["", "# a comment"]
    return "\n".join(lines) + "\n1 qid:last 9:0.5\n"


def dataset_or_refusal(path: Path, threads: int) -> RankingDataset | str:
    try:
        return read_letor(path, threads=threads)
    except BadInput as refused:
        return str(refused)


@given(
    seed=st.integers(0, 2**32),
    piece=st.sampled_from(PIECES),
    threads=st.sampled_from([2, 3]),
    fault=st.sampled_from([None, *FAULTS]),
    cut=st.booleans(),
)
def test_threads_change_nothing(
    seed: int, piece: int, threads: int, fault: str | None, cut: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    text = text_of(rng)
    if fault is not None:
        lines = text.splitlines(keepends=True)
        lines.insert(int(rng.integers(1, len(lines) + 1)), f"{fault}\n")
        text = "".join(lines)
    path = tmp_path / "data.txt"
    path.write_bytes(text[: -1 if cut else None].encode("latin-1"))
    alone = dataset_or_refusal(path, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "PIECE", piece)
        together = dataset_or_refusal(path, threads)
    if isinstance(alone, str) or isinstance(together, str):
        assert together == alone
        assert fault is not None or cut
        return
    assert together.fingerprint == alone.fingerprint
    assert together.doc_ids == alone.doc_ids
    assert together.comments == alone.comments
    assert (together.offsets == alone.offsets).all()


def test_pieces_are_read_by_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Else nothing here would say anything."""
    taken = []
    take = Reader.take

    def noted(whole: Reader, piece: Reader, size: int, share: float) -> None:
        taken.append(size)
        take(whole, piece, size, share)

    monkeypatch.setattr(Reader, "take", noted)
    monkeypatch.setattr(letor, "PIECE", 300)
    path = tmp_path / "data.txt"
    path.write_text(text_of(rng))
    again = tmp_path / "again.txt"
    write_letor(read_letor(path, threads=2), again)
    assert len(taken) > 2
    assert read_letor(again).n_queries == read_letor(path).n_queries


def test_a_cut_is_looked_for_near_the_end_alone() -> None:
    text = b"0 qid:1 1:1\n" + b"0 qid:2 1:1\n" * 6
    assert last_query(text) == last_query(text, 7) == 12
    assert last_query(text, 6) == 0, "the line of another query is the seventh from the end"
    assert last_query(b"\n" + text + b"\n# of qid:3\n" * 9) == 13, "comments name no query"


def test_millions_of_blank_lines_are_passed_over_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matched: list[bytes] = []
    query = letor._QUERY

    class Counted:
        def match(self, line: bytes) -> re.Match[bytes] | None:
            matched.append(line)
            return query.match(line)

    monkeypatch.setattr(letor, "_QUERY", Counted())
    monkeypatch.setattr(letor, "PIECE", 1 << 16)
    path = tmp_path / "blank.txt"
    path.write_bytes(b"0 qid:1 1:1\n" + b"\n" * (1 << 20) + b"1 qid:2 1:2\n")
    assert read_letor(path, threads=2).fingerprint == read_letor(path, threads=1).fingerprint
    assert 0 < len(matched) < 100


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def sparse(rows: int, width: int, filled: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for row in range(rows):
        indices = np.unique(rng.integers(1, width + 1, filled))
        tokens = " ".join(f"{index}:{index % 7 + 0.5}" for index in indices)
        lines.append(f"{row % 3} qid:{row // 10} {tokens}\n")
    return "".join(lines)


def test_feature_numbers_that_are_ids_are_told_with_the_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "0 qid:1 1:1\n1 qid:1 2:1 1000000:3\n")
    with pytest.raises(
        BadInput, match=r"line 2: feature 1,000,000 is beyond 10,000.*`max_feature_"
    ):
        read_letor(path)
    data = read_letor(path, max_feature_number=1_000_000)
    assert (data.n_features, data.features[1, 999_999]) == (1_000_000, 3)
    with pytest.raises(BadInput, match="beyond 50"):
        read_letor(path, max_feature_number=50)


def test_a_small_file_does_not_become_a_large_matrix(tmp_path: Path) -> None:
    """93 kB took 16 GB; of 10,000 features a line of ten bytes takes 40 kB still."""
    line = "0 qid:1 9999:1\n"
    path = written(tmp_path / "a.txt", line * 6000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput, match=r"more than 400 times their text of [\d,]+ bytes"):
        read_letor(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    assert read_letor(path, max_feature_number=9999).features.shape == (6000, 9999)


@pytest.mark.parametrize(("rows", "width", "filled"), [(1000, 700, 200), (1000, 10_000, 40)])
def test_sparse_text_that_is_right_is_read(
    tmp_path: Path, rows: int, width: int, filled: int
) -> None:
    data = read_letor(written(tmp_path / "a.txt", sparse(rows, width, filled)))
    assert data.n_documents == rows
    assert data.n_features <= width
    values = data.features[data.features != 0]
    assert set(values.tolist()) <= {k + 0.5 for k in range(7)}


def test_every_way_to_read_takes_the_bound(run: Run, tmp_path: Path) -> None:
    text = "".join(f"{i % 2} qid:{i // 2} 1:{i} 10001:{i % 3}\n" for i in range(60))
    path = written(tmp_path / "a.txt", text)
    ways: list[Callable[[int | None], object]] = [
        lambda most: read_dataset(path, max_feature_number=most),
        lambda most: read_folds(str(path), max_feature_number=most),
    ]
    for read in ways:
        with pytest.raises(BadInput, match="beyond 10,000"):
            read(None)
        if read(10_001) is None:
            raise AssertionError
    words = ("train", "a.txt", "--out", "m.json", "--loss", "pairwise", "--set", "optimizer.C=1")
    code, out, error = run(*words)
    assert (code, out, "--max-feature-number 10001" in error) == (3, "", True)
    assert run(*words, "--max-feature-number", "10001")[0] == 0
    assert run("evaluate", "m.json", "--data", "a.txt")[0] == 3
    assert run("evaluate", "m.json", "--data", "a.txt", "--max-feature-number", "10001")[0] == 0


@pytest.mark.parametrize("character", ["\u200b", "\u202e", "\u2066", "\ufeff", "\u2060"])
def test_ids_with_characters_that_nobody_sees_are_refused(tmp_path: Path, character: str) -> None:
    before = "0 qid:0 1:1 # d\n" * 5
    for line in (f"0 qid:q{character}1 1:1 # d\n", f"0 qid:q1 1:1 # d{character}\n"):
        path = written(tmp_path / "a.txt", before + line)
        with pytest.raises(BadInput, match=r"line 6: the \w+ id '.*' has a character .*U\+"):
            read_letor(path)


def test_characters_that_join_letters_stay(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "0 qid:می\u200cخواهم 1:1 # 👩\u200d🔬\n")
    assert read_letor(path).query_ids.to_pylist() == ["می\u200cخواهم"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "query\tdoc_id\tgrade\nred\ta\t2\n"),
        ("a.csv", '"query_id","query","document_id","grade"\n1,red,a,2\n'),
        ("marked.csv", "\ufeffquery,doc_id,grade\nred,a,2\n"),
        ("own_columns.csv", "search_term,sku,score\nred shoes,a,2\n"),
        ("no_header.csv", "red shoes,a,2\n"),
        ("no_header.tsv", "red shoes\ta\t2\n"),
        ("a.json", '[{"query": "red", "rating": 2}]\n'),
        ("a.qrels", "1 0 a 2\n"),
        ("a.jsonl", '{"query": "red", "doc_id": "a", "grade": 2}\n'),
    ],
)
def test_a_judgment_list_is_told_from_a_dataset(run: Run, name: str, content: str) -> None:
    Path(name).write_text(content)
    assert "owpc-ltr log-features --judgments" in run.refusal(3, "train", name, "--out", "m.json")
    with pytest.raises(BadInput, match=r"judgment list.*cluster\.log_features"):
        read_dataset(name)
