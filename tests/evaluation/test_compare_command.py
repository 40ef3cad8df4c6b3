"""`owpc-ltr compare`: tables, JSON, files and errors, and one model a fold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import owpc_ltr as ltr
from owpc_ltr import save_dataset, save_model
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.metrics.metric import listed_metrics
from owpc_ltr.training.cross_validation import cut_folds
from tests.commands import Run
from tests.rankers import QUERIES, judged, linear, write_run

DATA = judged(np.tile([1.0, 2.0], QUERIES // 2))
ASKED = ["compare", "linear.json", "feature:likes", "bm25.run", "--data", "data.parquet"]
QUICK = ["--resamples", "200"]


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "80")
    save_dataset(DATA, "data.parquet")
    save_model(linear(1.0, 0.2), Path("linear.json"))
    write_run(DATA, linear(1.0, 0.0).score(DATA.features), Path("bm25.run"), 3)
    return run


def test_tables_and_words_fit_80_columns(run: Run) -> None:
    out = run.output(*ASKED, *QUICK, "--metric", "ndcg@10,map", "--metric", "mrr")
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
    out = run.output(*asked, "--json", "--baseline", "bm25.run", "--unjudged", "condensed")
    result = json.loads(out)
    comparison = ltr.compare(
        ["linear.json", "feature:likes", "bm25.run"], data="data.parquet",
        metrics=["map", "ndcg@5,gain=linear"], baseline="bm25.run",
        unjudged="condensed",
        resamples=300, seed=4,
    )  # fmt: skip
    assert result == json.loads(json.dumps(comparison.as_dict()))
    assert result["data"] == "data.parquet"
    worst = result["worst"]
    assert worst["queries"] == comparison.worst(worst["a"], worst["b"], n=5)
    assert [pair["b"] for pair in result["pairs"]] == ["bm25.run"] * 4


@pytest.mark.parametrize("name", ["values.csv", "values.parquet"])
def test_each_querys_values_are_written(run: Run, name: str) -> None:
    run.output(*ASKED, *QUICK, "--per-query", name, "--metric", "map")
    read = pyarrow.csv.read_csv(name) if name.endswith("csv") else pyarrow.parquet.read_table(name)
    comparison = ltr.compare(
        ["linear.json", "feature:likes", "bm25.run"], data=DATA, metrics="map", resamples=200
    )
    assert read.column_names == comparison.per_query.column_names
    assert read["map bm25.run"].to_pylist() == pytest.approx(
        comparison.per_query["map bm25.run"].to_pylist()
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
        (["linear.json", "feature:bm25", "--split", "train"], 5, "no query is training queries of"),
        (["linear.json", "feature:bm25", "--per-query", "v.txt"], 2, ".csv or .parquet"),
        (["linear.json", "feature:bm25", "--per-query", "linear.json"], 2, "linear.json"),
        (["linear.json", "feature:bm25", "--unjudged", "no"], 2, "'zero', 'skip', 'condensed'"),
        (["linear.json", "live:q.json"], 2, "compare-live"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    run: Run, words: list[str], code: int, message: str
) -> None:
    exit_code, out, err = run("compare", *words, "--data", "data.parquet", *QUICK)
    (line,) = [line for line in err.splitlines() if line.startswith("owpc-ltr:")]
    assert (exit_code, out) == (code, "")
    assert message in line


def test_lists_whose_columns_have_other_names_are_read_by_their_roles(run: Run) -> None:
    rows = [
        (query, document, f"{label:g}")
        for query, document, label in zip(
            np.repeat(DATA.query_ids.to_pylist(), np.diff(DATA.offsets)),
            (DATA.doc_ids or pa.array([])).to_pylist(),
            DATA.labels,
            strict=True,
        )
    ]
    for name, header in (("ours.csv", "query,doc_id,grade"), ("shop.csv", "q,sku,rating")):
        Path(name).write_text("\n".join([header, *map(",".join, rows)]) + "\n")
    write_run(DATA, DATA.labels.astype(float), Path("best.run"), 3)
    runs = ("compare", "bm25.run", "best.run", *QUICK, "--json")
    named = ("--columns", "query=q,doc_id=sku,grade=rating")

    def pairs_of(*words: str) -> dict[str, Any]:
        out = run.output(*runs, *words)
        return {**json.loads(out), "data": ""}

    of_ours = pairs_of("--data", "ours.csv")
    assert pairs_of("--data", "shop.csv", *named) == of_ours
    proxy = ("--proxy-labels", "ours.csv")
    assert pairs_of("--data", "shop.csv", *proxy, *named) == pairs_of("--data", "ours.csv", *proxy)
    code, _, err = run(*runs, "--data", "shop.csv", *proxy, "--columns", "query=words")
    assert (code, "no column is called 'words'" in err) == (3, True)
    code, _, err = run(*ASKED, *named)
    assert (code, "--columns names columns of a judgment list, and there is none" in err) == (
        2,
        True,
    )


def test_metrics_between_commas_keep_their_options() -> None:
    assert listed_metrics(["ndcg@10,gain=linear,empty=skip,map"]) == [
        "ndcg@10,gain=linear,empty=skip", "map"
    ]  # fmt: skip
    assert listed_metrics([]) == []


def test_a_text_of_several_metrics_is_taken_where_one_is() -> None:
    selection, several = (
        ltr.train(DATA, metric=metric, grid={"C": [1, 10]}, test_share=0.2)
        for metric in ("ndcg@10", "ndcg@10,map")
    )
    assert several.record["select"] == selection.record["select"] == "ndcg@10"
    measured = ltr.evaluate(several, DATA, metrics="ndcg@3,ties=file-order,map", split="all")
    assert [str(each.metric) for each in measured.measured] == ["ndcg@3,ties=file-order", "map"]


FOLDS_DATA = judged()
FOLDS = cut_folds(FOLDS_DATA, 4)
TESTS = [fold.test for fold in FOLDS]
SHARP, DULL = linear(1.0, 0.1), linear(0.1, 1.0)
QUICK_FOLD: dict[str, Any] = {"resamples": 200, "metrics": ("ndcg@5", "map")}


def trained(**how: Any) -> list[Any]:
    return [
        ltr.train(fold.training, validation=fold.validation, settings={"C": 1.0}, **how)
        for fold in FOLDS
    ]


def test_one_ranker_in_every_fold_is_that_ranker_on_all_queries() -> None:
    over = ltr.compare({"a": SHARP, "b": [DULL] * 4, "c": "feature:bm25"}, data=TESTS, **QUICK_FOLD)
    order = [
        FOLDS_DATA.query_ids.to_pylist().index(query_id) for query_id in over.query_ids.to_pylist()
    ]
    assert sorted(order) == list(range(FOLDS_DATA.n_queries))
    whole = FOLDS_DATA.select(np.array(order))
    alone = ltr.compare({"a": SHARP, "b": DULL, "c": "feature:bm25"}, data=whole, **QUICK_FOLD)
    assert over.pairs == alone.pairs
    means, wanted = (
        [
            [(each.mean, each.low, each.high) for each in ranker.measured]
            for ranker in comparison.rankers
        ]
        for comparison in (over, alone)
    )
    assert means == wanted
    assert over.query_texts.equals(alone.query_texts)  # type: ignore[union-attr]


def test_each_query_is_measured_by_the_model_of_its_fold() -> None:
    models = trained()
    comparison = ltr.compare({"owpc": models, "raw": "feature:likes"}, data=TESTS, **QUICK_FOLD)
    assert (comparison.split, comparison.n_queries) == ("test", FOLDS_DATA.n_queries)
    assert (
        comparison.notes[0]
        == "the test queries of 4 folds (10, 10, 10, 10) are pooled: one test over all"
    )
    parts = [
        ltr.evaluate(model, test, metrics="map") for model, test in zip(models, TESTS, strict=True)
    ]
    wanted = np.concatenate([part.measured[0].per_query for part in parts])
    assert comparison.ranker("owpc").measured[1].per_query.tolist() == wanted.tolist()


def test_importance_of_queries_counts_over_all_folds() -> None:
    heavy = [replace(TESTS[0], query_weights=np.full(10, 5.0)), *TESTS[1:]]
    comparison = ltr.compare({"a": SHARP, "b": DULL}, data=heavy, **QUICK_FOLD)
    values = comparison.ranker("a").measured[0].per_query
    weights = [5.0] * 10 + [1.0] * 30
    assert comparison.ranker("a").means["ndcg@5"].mean == pytest.approx(
        np.average(values, weights=weights)
    )
    plain = ltr.compare(
        {"a": SHARP, "b": DULL},
        data=heavy,
        unweighted=True,
        **QUICK_FOLD,
    )
    assert plain.ranker("a").means["ndcg@5"].mean == pytest.approx(values.mean())


def test_a_model_of_another_fold_and_a_query_in_two_folds_are_refused() -> None:
    models = trained()
    wrong = [models[1], models[0], *models[2:]]
    with pytest.raises(Refused, match=r"fold 1: .*seen test queries of its own fold"):
        ltr.compare({"owpc": wrong, "raw": "feature:likes"}, data=TESTS, **QUICK_FOLD)
    everything = ltr.compare(
        {"owpc": wrong, "raw": "feature:likes"}, data=TESTS, split="all", **QUICK_FOLD
    )
    assert everything.split == "all"
    assert {str(pair.verdict.outcome) for pair in everything.pairs} == {"cannot tell"}
    with pytest.raises(Refused, match=r"the id of query 'q.*' of fold 2 is in fold 1 too"):
        ltr.compare({"a": SHARP, "b": DULL}, data=[TESTS[0], TESTS[0]], **QUICK_FOLD)
    renamed = replace(TESTS[0], query_ids=pa.array([f"other {n}" for n in range(10)]))
    with pytest.raises(Refused, match="the text of query 'other 0' of fold 3 is in fold 1 too"):
        ltr.compare({"a": SHARP, "b": DULL}, data=[*TESTS[:2], renamed], **QUICK_FOLD)


def test_what_is_not_one_model_a_fold_is_refused() -> None:
    with pytest.raises(UsageError, match="'b' has 3 models for 4 folds: give one for each"):
        ltr.compare({"a": SHARP, "b": [DULL] * 3}, data=TESTS, **QUICK_FOLD)
    with pytest.raises(UsageError, match="'b' is a list of models"):
        ltr.compare({"a": SHARP, "b": [DULL] * 4}, data=FOLDS_DATA, **QUICK_FOLD)
    with pytest.raises(UsageError, match="there is no split 'train'"):
        ltr.compare({"a": SHARP, "b": DULL}, data=TESTS, split="train", **QUICK_FOLD)
    with pytest.raises(UsageError, match="leave out proxy labels"):
        ltr.compare({"a": SHARP, "b": DULL}, data=TESTS, proxy_labels=FOLDS_DATA, **QUICK_FOLD)
    with pytest.raises(UsageError, match="no folds"):
        ltr.compare({"a": SHARP, "b": DULL}, data=[], **QUICK_FOLD)


@pytest.mark.filterwarnings("ignore:no value, or one and the same")
@pytest.mark.thorough
def test_the_five_folds_of_ohsumed_make_one_comparison(shared_data: Path) -> None:
    files = [shared_data / "letor3-ohsumed" / f"S{number}.txt.xz" for number in range(1, 6)] * 2
    how: dict[str, Any] = {"optimizer": "larank", "settings": {"C": 1.0}}
    models = [
        ltr.train(
            ltr.read_dataset(files[fold : fold + 3]),
            validation=ltr.read_dataset(files[fold + 3]),
            **how,
        )
        for fold in range(5)
    ]
    tests = [ltr.read_dataset(files[fold + 4]) for fold in range(5)]
    comparison = ltr.compare(
        {"owpc": models, "tf": "feature:1"}, data=tests, metrics="map", resamples=1000
    )
    assert (comparison.n_queries, comparison.split) == (106, "test")
    assert comparison.ranker("owpc").means["map"].mean == pytest.approx(0.445, abs=0.005)
    assert comparison.pairs[0].better == "owpc"
