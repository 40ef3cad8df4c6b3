"""`owpc-ltr inspect`: what it prints, of files, several files and folders, and how it ends."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.letor import line_of_row, write_letor
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.errors import BadInput, OwpcLtrWarning, UsageError
from owpc_ltr.inspection.finding import Finding
from owpc_ltr.inspection.result import DataFigures, Inspection
from tests.commands import Run, commands_in
from tests.planted import FAULTS, clean, constant, grade_typo, with_column


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return commands_in(tmp_path, monkeypatch, capsys)


def test_clean_data_fit_a_screen_and_pass_the_strict(run: Run) -> None:
    save_dataset(clean(100), "clean.parquet")
    code, out, err = run("inspect", "clean.parquet", "--strict")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 30
    assert all(len(line) <= 80 for line in out.splitlines()[:16])
    assert "warning" not in out
    for name in ("queries", "documents", "grades", "without contrast", "title", "exact"):
        assert name in out
    assert "labels: ndcg@10 +" in out
    assert "learning curve: ndcg@10 by training queries" in out


def test_a_warning_ends_the_strict_with_the_code_of_a_failed_check(run: Run) -> None:
    save_dataset(constant(clean(100)), "flat.parquet")
    code, out, err = run("inspect", "flat.parquet", "--no-training")
    assert (code, err) == (0, "")
    told = "warning: every document has the same value for titel (1): check the templates"
    assert told in out
    code, strict, err = run("inspect", "flat.parquet", "--no-training", "--strict")
    assert code == 5
    assert strict == out
    assert err.startswith("owpc-ltr: 1 warning: every document has the same value for titel")


def test_json_has_everything(run: Run) -> None:
    save_dataset(grade_typo(clean(100)), "data.parquet")
    code, out, _ = run("inspect", "data.parquet", "--json")
    told: dict[str, Any] = json.loads(out)
    assert code == 0
    assert set(told) == {"data", "features", "findings", "canary", "learning_curve"}
    assert told["data"]["queries"] == 100
    assert [row["name"] for row in told["features"]][:2] == ["title", "body"]
    assert told["findings"][0]["check"] == "grade-typo"
    assert told["canary"]["true"]["low"] > 0
    assert len(told["learning_curve"]["points"]) == 4


def test_the_line_of_a_text_is_told(run: Run) -> None:
    data = clean(60)
    typo = grade_typo(data)
    row = int(np.flatnonzero(typo.labels == 10)[0])
    write_letor(replace(typo, feature_names=tuple("123456")), "data.txt")
    text = Path("data.txt").read_text()
    Path("data.txt").write_text(f"# judged in spring\n\n{text}")
    lines = Path("data.txt").read_text().splitlines()
    line = next(number for number, one in enumerate(lines, 1) if one.startswith("10 "))
    assert line_of_row(Path("data.txt"), row) == line
    _, out, _ = run("inspect", "data.txt", "--no-training")
    assert f"(data.txt, line {line})" in out


def test_rows_beyond_the_end_and_of_parquet_have_no_line(tmp_path: Path) -> None:
    data = clean(30)
    write_letor(replace(data, feature_names=tuple("123456")), tmp_path / "data.txt")
    save_dataset(data, tmp_path / "data.parquet")
    assert line_of_row(tmp_path / "data.txt", data.n_documents) is None
    assert line_of_row(tmp_path / "data.parquet", 0) is None


def test_files_are_sides_and_must_not_share_a_query(run: Run) -> None:
    data = clean(120)
    for name, queries in (("train", np.arange(80)), ("test", np.arange(60, 120))):
        save_dataset(data.select(queries), f"{name}.parquet")
    _, out, _ = run("inspect", "train.parquet", "test.parquet", "--no-training")
    assert "warning: 40 queries with the same id are in two files, as 'q60' (train.parquet)" in out
    code, _, err = run("inspect", "train.parquet", "train.parquet")
    assert (code, "is named twice" in err) == (2, True)


@pytest.mark.parametrize("fault", ["constant", "duplicate", "missing spike", "grade typo", "leak"])
def test_a_folder_of_parts_is_found_out_as_the_file_is(fault: str, tmp_path: Path) -> None:
    plant, check = FAULTS[fault]
    data = plant(clean(150))
    parts = ltr.partition(data, out=tmp_path / "parts", buckets=5)
    whole = ltr.inspect(data, learning_curve=False)
    found = ltr.inspect(parts, learning_curve=False)
    assert [one.check for one in found.warnings] == [check]
    assert found.data.parts == 5
    assert replace(found.data, parts=1, names=()) == replace(whole.data, names=())
    rows = zip(found.features, whole.features, strict=True)
    assert all(one.lowest == other.lowest or one.missing for one, other in rows)


def test_a_fault_of_some_parts_is_told_with_them(tmp_path: Path) -> None:
    """As where one share of a folder was logged by other settings."""
    data = clean(300)
    parts = ltr.partition(data, out=tmp_path / "clean", buckets=10)
    elsewhere = {one for part in list(parts)[:3] for one in part.query_ids.to_pylist()}
    query = np.array([one in elsewhere for one in data.query_ids.to_pylist()])
    rows = np.repeat(query, np.diff(data.offsets))
    features = data.features.copy()
    features[rows, 1], features[rows, 4] = data.features[rows, 4], data.features[rows, 1]
    ltr.partition(replace(data, features=features), out=tmp_path / "parts", buckets=10)
    (finding,) = ltr.inspect(tmp_path / "parts", training=False).warnings
    assert finding.check == "swapped-columns"
    assert "bucket=" in finding.message


def test_a_page_of_an_inspection_is_escaped() -> None:
    data = with_column(clean(60), "<b>x</b>", np.ones(clean(60).n_documents, np.float32))
    page = ltr.inspect(data, training=False)._repr_html_()
    assert "<b>x" not in page
    assert "&lt;b&gt;x" in page
    assert "the same value for" in page


def test_what_cannot_be_asked_is_refused(run: Run, tmp_path: Path) -> None:
    save_dataset(clean(30), "data.parquet")
    code, _, err = run("inspect", "data.parquet", "--no-training", "--learning-curve")
    assert (code, "leave out --no-training" in err) == (2, True)
    with pytest.raises(UsageError, match="made by training"):
        ltr.inspect(clean(30), training=False, learning_curve=True)
    with pytest.raises(UsageError, match="nothing to inspect"):
        ltr.inspect([])
    with pytest.raises(BadInput, match="different features"):
        ltr.inspect({"a": clean(30), "b": constant(clean(30, 1))})


def test_a_folder_that_memory_does_not_hold_gets_no_curve_by_itself(tmp_path: Path) -> None:
    ltr.partition(clean(100), out=tmp_path / "parts", buckets=5)
    with pytest.raises(UsageError, match="a learning curve needs its data in memory"):
        ltr.inspect(ltr.open_dataset(tmp_path / "parts", memory=1000), learning_curve=True)


def test_training_says_each_thing_once() -> None:
    """A constant column is found by training itself, of all that was trained on."""
    data = grade_typo(with_column(clean(60), "flat", np.ones(clean(60).n_documents, np.float32)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", OwpcLtrWarning)
        ltr.train(data, settings={"C": 0.01}, validation_share=0, test_share=0)
    lines = [str(one.message) for one in told if issubclass(one.category, OwpcLtrWarning)]
    assert len(lines) == 2
    assert sum("flat" in line for line in lines) == 1
    assert sum("the grade 10 stands" in line for line in lines) == 1


def test_an_inspection_is_plain_data() -> None:
    """What a page of a report is made of."""
    empty = Inspection(DataFigures(("a",), 0, 0, 0, (0, 0.0, 0), (), 0, 0, 0.0, 0, 0), (), ())
    assert empty.warnings == ()
    assert "queries: 0" in repr(empty)
    assert json.loads(json.dumps(empty.as_dict()))["findings"] == []
    finding = Finding("leak", "note", "x", "it leaks", "mend it", place="f.txt, line 2")
    assert finding.line == "it leaks (f.txt, line 2): mend it"
