"""`owpc-ltr compare` as it is typed: tables that fit, everything in JSON, files, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.evaluation.options import split_metrics
from owpc_ltr.models.model_file import save_model
from tests.commands import Run, commands_in
from tests.compared import QUERIES, judged, linear, write_run

DATA = judged(np.tile([1.0, 2.0], QUERIES // 2))
ASKED = ["compare", "linear.json", "feature:likes", "bm25.run", "--data", "data.parquet"]
QUICK = ["--resamples", "200"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    command = commands_in(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("COLUMNS", "80")
    save_dataset(DATA, "data.parquet")
    save_model(linear(1.0, 0.2), Path("linear.json"))
    write_run(DATA, linear(1.0, 0.0).score(DATA.features), Path("bm25.run"), 3)
    return command


def test_tables_and_words_fit_80_columns(run: Run) -> None:
    code, out, _ = run(*ASKED, *QUICK, "--metric", "ndcg@10,map", "--metric", "mrr")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for words in (
        "A  linear.json", "B − C", "P HOLM", "weighted by the importance of queries",
        "corrected over 9 comparisons (Holm)", "minimum detectable difference (80 % power",
        "unjudged documents count as irrelevant", "loses most to", "map: precision at each",
    ):  # fmt: skip
        assert words in out
    assert "of what mrr looks at is unjudged" in " ".join(out.split())


def test_long_names_and_many_queries_do_not_break_the_tables(run: Run) -> None:
    name = "a-model-with-quite-a-long-name-in-a-folder-of-its-own.json"
    save_model(linear(1.0, 0.9), Path(name))
    out = run("compare", name, "feature:bm25", "--data", "data.parquet", *QUICK)[1]
    assert max(map(len, out.splitlines())) <= 80


def test_json_has_every_figure_of_the_call(run: Run) -> None:
    asked = [*ASKED, "--resamples", "300", "--metric", "map,ndcg@5,gain=linear", "--seed", "4"]
    code, out, _ = run(*asked, "--json", "--baseline", "bm25.run", "--unjudged", "condensed")
    assert code == 0
    told = json.loads(out)
    found = ltr.compare(
        ["linear.json", "feature:likes", "bm25.run"], data="data.parquet",
        metrics=["map", "ndcg@5,gain=linear"], baseline="bm25.run", unjudged="condensed",
        resamples=300, seed=4,
    )  # fmt: skip
    assert told == json.loads(json.dumps(found.as_dict()))
    assert told["data"] == "data.parquet"
    worst = told["worst"]
    assert worst["queries"] == found.worst(worst["a"], worst["b"], n=5)
    assert [pair["b"] for pair in told["pairs"]] == ["bm25.run"] * 4


@pytest.mark.parametrize("name", ["values.csv", "values.parquet"])
def test_each_querys_values_are_written(run: Run, name: str) -> None:
    code, _, _ = run(*ASKED, *QUICK, "--per-query", name, "--metric", "map")
    assert code == 0
    read = pyarrow.csv.read_csv(name) if name.endswith("csv") else pyarrow.parquet.read_table(name)
    found = ltr.compare(
        ["linear.json", "feature:likes", "bm25.run"], data=DATA, metrics="map", resamples=200
    )
    assert read.column_names == found.per_query.column_names
    assert read["map bm25.run"].to_pylist() == pytest.approx(
        found.per_query["map bm25.run"].to_pylist()
    )
    assert read["importance"].to_pylist() == [1.0, 2.0] * (QUERIES // 2)


def test_a_folder_of_parts_is_gone_through(run: Run) -> None:
    assert run("partition", "data.parquet", "--out", "parts", "--buckets", "3")[0] == 0
    code, out, _ = run("compare", *ASKED[1:4], "--data", "parts", *QUICK, "--memory", "1M")
    assert (code, "3 rankers on 40 queries" in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["linear.json"], 2, "needs 2 rankers"),
        (["linear.json", "linear.json"], 2, "'linear.json' is named twice"),
        (["linear.json", "none.json"], 3, "cannot read the ranker none.json"),
        (["linear.json", "feature:x"], 2, "no feature is called 'x'"),
        (["linear.json", "feature:bm25", "--metric", "ndgc"], 2, "ndgc"),
        (["linear.json", "feature:bm25", "--split", "test"], 5, "nothing tells the test queries"),
        (["linear.json", "feature:bm25", "--per-query", "v.xls"], 2, ".csv or .parquet"),
        (["linear.json", "feature:bm25", "--per-query", "linear.json"], 2, "linear.json"),
        (["linear.json", "feature:bm25", "--unjudged", "no"], 2, "'zero', 'skip', 'condensed'"),
        (["linear.json", "live:q.json"], 2, "compare-live"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    run: Run, words: list[str], code: int, message: str
) -> None:
    found, out, err = run("compare", *words, "--data", "data.parquet", *QUICK)
    (line,) = [line for line in err.splitlines() if line.startswith("owpc-ltr:")]
    assert (found, out) == (code, "")
    assert message in line


def test_data_that_is_not_there_is_told_before_anything_is_read(run: Run) -> None:
    code, _, err = run("compare", "a.json", "b.json", "--data", "none.parquet")
    assert (code, "cannot read none.parquet" in err) == (3, True)


def test_metrics_between_commas_keep_their_options() -> None:
    assert split_metrics(["ndcg@10,gain=linear,empty=skip,map"]) == [
        "ndcg@10,gain=linear,empty=skip", "map"
    ]  # fmt: skip
    assert split_metrics(None) == []
