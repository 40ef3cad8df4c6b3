"""LETOR text that would fill the memory is refused in one line; right sparse text is read."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr.data.datasets import read_dataset, read_splits
from owpc_ltr.data.letor import read_letor
from owpc_ltr.errors import BadInput
from owpc_ltr.training.cross_validation import read_folds
from tests.commands import commands_in


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
    with pytest.raises(BadInput, match=r"line 2: feature 1,000,000 is beyond 10,000.*max-features"):
        read_letor(path)
    data = read_letor(path, max_features=1_000_000)
    assert (data.n_features, data.features[1, 999_999]) == (1_000_000, 3)
    with pytest.raises(BadInput, match="beyond 50"):
        read_letor(path, max_features=50)


def test_a_small_file_does_not_become_a_large_matrix(tmp_path: Path) -> None:
    """93 kB took 16 GB; of 10,000 features a line of ten bytes takes 40 kB still."""
    line = "0 qid:1 9999:1\n"
    path = written(tmp_path / "a.txt", line * 6000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput, match=r"more than 400 times their text of [\d,]+ bytes") as told:
        read_letor(path)
    assert "\n" not in str(told.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    assert read_letor(path, max_features=9999).features.shape == (6000, 9999)


@pytest.mark.parametrize(("rows", "width", "filled"), [(3000, 700, 200), (3000, 10_000, 40)])
def test_sparse_text_that_is_right_is_read(
    tmp_path: Path, rows: int, width: int, filled: int
) -> None:
    data = read_letor(written(tmp_path / "a.txt", sparse(rows, width, filled)))
    assert data.n_documents == rows
    assert data.n_features <= width
    values = data.features[data.features != 0]
    assert set(values.tolist()) <= {k + 0.5 for k in range(7)}


def test_every_way_to_read_takes_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(f"{i % 2} qid:{i // 2} 1:{i} 20000:{i % 3}\n" for i in range(60))
    path = written(tmp_path / "a.txt", text)
    for read in (
        lambda most: read_dataset(path, max_features=most),
        lambda most: read_folds([path], max_features=most),
        lambda most: read_splits(path, max_features=most),
        lambda most: read_splits(path, path, max_features=most),
    ):
        with pytest.raises(BadInput, match="beyond 10,000"):
            read(None)
        if read(20_000) is None:
            raise AssertionError
    run = commands_in(tmp_path, monkeypatch, capsys)
    words = ("train", "a.txt", "--out", "m.json", "--loss", "pairwise", "--set", "optimizer.C=1")
    code, out, error = run(*words)
    assert (code, out, "--max-features 20000" in error) == (3, "", True)
    assert run(*words, "--max-features", "20000")[0] == 0
    assert run("evaluate", "m.json", "a.txt")[0] == 3
    assert run("evaluate", "m.json", "a.txt", "--max-features", "20000")[0] == 0


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
