"""`--report` of commands that have something to show: a page beside what they do anyway."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from owpc_ltr.data.parquet import save_dataset
from tests.commands import Run, commands_in
from tests.report.samples import dataset, linear


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    save_dataset(dataset(60).without_missing(), tmp_path / "d.parquet")
    return commands_in(tmp_path, monkeypatch, capsys)


def test_training_writes_a_page_of_the_model_and_says_that_it_is_not_measured(
    tmp_path: Path, run: Run
) -> None:
    words = ("train", "d.parquet", "--out", "m.json", "--set", "loss.generator=inverse")
    code, out, err = run(*words, "--report", "page.html")
    assert (code, err) == (0, "")
    page = (tmp_path / "page.html").read_text()
    for said in (
        "m.json is trained: map ",
        "How was m.json trained?",
        "Which features does m.json use?",
    ):
        assert said in page
    before = (tmp_path / "m.json").read_bytes()
    assert run(*words)[:2] == (0, out.replace("wrote page.html\n", ""))
    assert (tmp_path / "m.json").read_bytes() == before


def test_a_selection_writes_a_page_of_what_it_chose(tmp_path: Path, run: Run) -> None:
    words = ("select", "d.parquet", "--folds", "3", "--grid", "C=0.1,1", "--metric", "map")
    code, _, err = run(*words, "--report", "page.html")
    assert (code, err) == (0, "")
    assert "What validation selected" in (tmp_path / "page.html").read_text()


def test_a_comparison_writes_a_page_of_all_rankers(tmp_path: Path, run: Run) -> None:
    linear(1.0, 0.0, 0.0).save(tmp_path / "m.json")
    words = ("compare", "m.json", "feature:noise", "feature:bm25", "--data", "d.parquet")
    code, out, _ = run(*words, "--report", "page.html")
    assert (code, run(*words)[1]) == (0, out.replace("wrote page.html\n", ""))
    page = (tmp_path / "page.html").read_text()
    assert "m.json ranks better than feature:bm25" in page
    assert "feature:noise" in page


def test_an_explanation_writes_a_page_of_why(tmp_path: Path, run: Run) -> None:
    linear(1.0, 0.1, 0.0).save(tmp_path / "m.json")
    words = ("explain", "m.json", "d.parquet", "--query-id", "q1")
    code, out, _ = run(*words, "--report", "page.html")
    assert (code, run(*words)[1]) == (0, out.replace("wrote page.html\n", ""))
    page = (tmp_path / "page.html").read_text()
    assert "Why “q1” ranks as it does" in page
    assert "is at rank 1 of 12 by" in page


def test_an_inspection_writes_a_page_of_its_findings(tmp_path: Path, run: Run) -> None:
    code, out, _ = run("inspect", "d.parquet", "--no-training", "--report", "page.html")
    alone = run("inspect", "d.parquet", "--no-training")[1]
    assert (code, out) == (0, f"{alone}wrote page.html\n")
    assert "Data checks of d.parquet" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("command", ["compare", "train", "select", "verify", "judge"])
def test_a_page_is_no_input_and_no_standard_output(run: Run, command: str) -> None:
    words = {
        "compare": ("compare", "feature:good", "feature:bm25", "--data", "d.parquet"),
        "train": ("train", "d.parquet", "--out", "m.json"),
        "select": ("select", "d.parquet"),
        "verify": ("verify", "m"),
        "judge": ("judge", "pool", "--queries", "d.parquet", "--rankers", "x", "--out", "s.csv"),
    }[command]
    code, _, err = run(*words, "--report", "-")
    assert code == 2
    assert "--report writes a page to open in a browser: name a file, not -" in err
    if command != "verify":
        code, _, err = run(*words, "--report", "d.parquet")
        assert code == 2
        assert "it is the input" in err


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
@pytest.mark.parametrize(
    "words",
    [
        ("report", "m.json", "--out", "page.html"),
        ("inspect", "d.parquet", "--report", "page.html"),
    ],
)
def test_without_the_extra_one_line_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch, package: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    linear(1.0, 0.0, 0.0).save(tmp_path / "m.json")
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "owpc_ltr_report.report", raising=False)
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    install = "pip install 'owpc-ltr[report]'"
    assert err == f"owpc-ltr: report needs {package}, which is not installed: {install}\n"
    assert not (tmp_path / "page.html").exists()
