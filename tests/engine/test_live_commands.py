"""Commands on live results of a real node, and with plugins from files."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import save_dataset, save_model, train_reranker
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.host.registry import load
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run
from tests.datasets import seen_sides
from tests.engine.deployed import logged_dataset
from tests.engine.small_cluster import (
    FEATURESET,
    WORDS,
    Small,
    emptied_store,
    linear,
    shared_cluster,
)

pytest.importorskip("owpc_ltr.host.judgment_lists")


small = shared_cluster(documents=120)


@pytest.fixture
def place(small: Small, tmp_path: Path) -> list[str]:
    """Files to type, and the options that say where."""
    titles = small.titles()
    rng = np.random.default_rng(2)
    lines = ["query_id,query,doc_id,grade,judged_by"]
    for number, words in enumerate(map(set, combinations(WORDS, 2))):
        # Judges leave out a document in five, and err in one of ten.
        for name in [title for title in titles if rng.random() < 0.8]:
            wrong = rng.random() < 0.1
            grade = int((words <= titles[name]) != wrong)
            lines.append(f"q{number},{' '.join(sorted(words))},{name},{grade},ann")
    (tmp_path / "judged.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "query.json").write_text(json.dumps({"match": {"body": "{{keywords}}"}}))
    save_model(linear((1.0, 0.0, 0.0)), tmp_path / "good.json")
    save_model(linear((0.0, 0.0, -1.0)), tmp_path / "bad.json")
    return [*small.place, "--index", small.index]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file."""
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as a CSV file."""
    with path.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


QUERY = ["--query-template", "query.json"]
LIVE = ["--judgments", "judged.csv", *QUERY, "--metric", "ndcg@10"]


def test_what_users_get_is_printed_for_people_and_for_machines(run: Run, place: list[str]) -> None:
    out = run.output("compare-live", "good.json", *LIVE, *place)
    assert max(map(len, out.splitlines())) <= 80
    out = " ".join(out.split())
    assert re.match(r"(better|cannot tell): .*good.json against query", out)
    for words in ("UNJUDGED", "(recall of the window)", "median of a search by the engine's"):
        assert words in out
    rows = ("--per-query", "rows.parquet", "--report", "page.html")
    out = run.output("compare-live", "good.json", *LIVE, "--json", *rows, *place)
    assert all(map(os.path.exists, rows[1::2]))
    comparison = json.loads(out)
    (pair,) = comparison["pairs"]
    assert pair["mean_difference"] > 0
    assert 0 < comparison["rankers"][1]["metrics"][0]["unjudged"] < 1
    times = comparison["milliseconds"]
    assert times.keys() == {"good.json", "query"}
    assert all(of["p95"] >= of["median"] for of in times.values())


def test_a_champion_is_replaced_by_two_commands_and_a_refusal_is_one_line_that_leaves_nothing(
    run: Run, place: list[str], small: Small
) -> None:
    at = ["--name", small.name, *place]
    out = run.output("upload", "bad.json", *QUERY, *at)
    assert "nothing was compared: measure what users get by owpc-ltr compare-live" in out
    before = small.store.list_models()
    # The command is one that may be typed as it is: for this cluster, and this store.
    words = f"compare-live good.json {small.name} --judgments FILE --out better.json --store-kind"
    words += f" plugin-free --store {small.store_name} --url {small.engine.settings.url} and"
    assert words in " ".join(run.refusal(5, "upload", "good.json", *at).split())
    live = ["--judgments", "judged.csv", "--metric", "ndcg@10", "--out", "better.json", *place]
    save_model(linear((0.0, 0.0, -2.0)), Path("same.json"))
    for model, outcome in (("same.json", "no significant difference"), ("good.json", "better")):
        out = run.output("compare-live", model, small.name, *live)
        assert out.startswith(outcome)
        written = json.loads(Path("better.json").read_text())
        assert (written["new"]["name"], written["verdict"]["outcome"]) == (model, outcome)
        assert written["old"]["name"] == before[0]
        code, out, err = run("upload", model, *at, "--require", "better.json")
        if outcome == "better":
            assert (code, len(small.store.list_models())) == (0, 2)
            assert f"better than {before[0]} by live results, by evidence of" in out
        else:
            (refusal,) = [line for line in err.splitlines() if line.startswith("owpc-ltr:")]
            assert code == 5
            assert f"the verdict of the evidence is '{outcome}'" in refusal
            assert small.store.list_models() == before


def test_evidence_that_cannot_tell_says_what_to_judge_and_a_reason_is_kept(
    run: Run, place: list[str], tmp_path: Path, small: Small
) -> None:
    write_rows(tmp_path / "few.csv", rows_of(tmp_path / "judged.csv")[::3])
    at = ["--name", f"{small.name}-settled", *place]
    run.output("upload", "bad.json", *QUERY, *at)
    live = ["compare-live", "good.json", f"{small.name}-settled", "--judgments", "few.csv"]
    out = run.output(*live, "--metric", "ndcg@10", "--out", "better.json", *place)
    assert re.match(r"cannot tell: only \d\d% of the first ten documents of ", out)
    err = run.refusal(5, "upload", "good.json", *at, "--require", "better.json")
    assert "is 'cannot tell: only " in err
    command = shlex.split(
        err.partition("judge what users get: owpc-ltr ")[2].partition("; then")[0]
    )
    assert command[:2] == ["judge", "pool"]
    assert json.loads(run.output(*command, "--json"))["queries"] == 28
    # Who names the risk gets in, and that is kept.
    out = run.output("upload", "good.json", *at, "--unproven", "I looked")
    assert "without evidence: I looked" in out
    out = run.output("models", "show", f"{small.name}-settled", *place[:6])
    assert re.search(r"switch.unproven +I looked", out)


def test_queries_are_drawn_of_those_that_no_model_was_trained_with(
    run: Run, place: list[str], tmp_path: Path
) -> None:
    split = HashSplit(0.1, 0.5)
    save_model(
        linear(source=seen_sides((f"q{n}" for n in range(56)), split)), tmp_path / "trained.json"
    )
    pool = ["judge", "pool", "--queries", "judged.csv", "--rankers", "query,trained.json"]
    pool += ["--sample", "12", "--depth", "5", "--out", "sheet.csv", *QUERY, *place]
    out = " ".join(run.output(*pool).split())
    drawn = sorted({row["query_id"] for row in rows_of(tmp_path / "sheet.csv")})
    assert set(split.sides_of(drawn)) == {"test"}
    held_out = split.sides_of([f"q{number}" for number in range(28)]).tolist().count("test")
    assert f"12 of {held_out} queries that no model was trained on were drawn at random" in out
    assert "documents of 12 queries" in out


def test_a_graded_sample_is_compared_beside_proxy_labels_of_all_queries(
    run: Run, place: list[str], tmp_path: Path
) -> None:
    run.output("log-features", *place, "--judgments", "judged.csv", "--out", "proxy.parquet")
    pool = ["judge", "pool", "--queries", "judged.csv", "--rankers", "good.json,bad.json"]
    pool += ["--depth", "5", "--json", *QUERY, *place]
    result = json.loads(run.output(*pool, "--sample", "12", "--out", "human.csv"))
    assert (result["drawn"], result["drawn_from"], result["queries"]) == (12, 28, 12)
    rows = rows_of(tmp_path / "human.csv")
    write_rows(tmp_path / "human.csv", [{**row, "grade": n % 2} for n, row in enumerate(rows)])
    compare = ["compare", "good.json", "bad.json", "--data", "human.csv"]
    out = run.output(*compare, "--proxy-labels", "proxy.parquet", "--metric", "map", "--json")
    (pair,) = json.loads(out)["prediction_powered"]
    assert (pair["n_human"], pair["n_queries"]) == (12, 28)
    more = ["--sample", "20", "--judged", "human.csv", "--out", "more.csv"]
    # A larger sample asks for the queries that are not graded yet, and for common pairs.
    again = json.loads(run.output(*pool, *more))
    assert (again["drawn"], again["common"]) == (20, 30)
    asked = {row["query_id"] for row in rows_of(tmp_path / "more.csv")}
    assert len(asked - {row["query_id"] for row in rows}) == 8


def test_a_pool_is_a_sheet_that_is_read_once_it_is_graded(
    run: Run, place: list[str], tmp_path: Path
) -> None:
    asked = ["--queries", "judged.csv", "--rankers", "query.json", "--fields", "title"]
    code, out, _ = run("judge", "pool", *asked, "--depth", "5", "--out", "sheet.csv", *place)
    assert (code, "140 documents of 28 queries" in out) == (0, True)
    log = ["log-features", *place, "--judgments", "sheet.csv", "--out", "logged.parquet"]
    assert "140 of 140 lines have none" in run.refusal(3, *log)
    rows = rows_of(tmp_path / "sheet.csv")
    graded = [{**row, "grade": n % 2 if n < 100 else ""} for n, row in enumerate(rows)]
    write_rows(tmp_path / "sheet.csv", graded)
    assert "40 of 140 lines have none" in run.refusal(3, *log)
    code, out, err = run(*log, "--skip-unjudged")
    assert (code, "40 lines without a grade were left out" in err) == (0, True)
    assert "100 judged = 100 logged" in out


NAMED = ["--columns", "query_id=id,query=q,doc_id=sku,grade=rating"]


@pytest.fixture
def renamed(place: list[str], tmp_path: Path) -> list[str]:
    """As `place`; the judgments are also in shop.csv, whose columns have a shop's names."""
    lines = (tmp_path / "judged.csv").read_text().partition("\n")[2]
    (tmp_path / "shop.csv").write_text(f"id,q,sku,rating,judged_by\n{lines}")
    return place


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["compare-live", "good.json", *QUERY], "--judgments"),
        (["compare-live", "live:query.json", "good.json", "--metric", "map"], "--judgments"),
    ],
)
def test_columns_of_other_names_are_measured_as_those_of_ours(
    run: Run, renamed: list[str], words: list[str], listed: str
) -> None:
    def printed(*judged: str) -> dict[str, Any]:
        out = run.output(*words, listed, *judged, "--json", *renamed)
        result: dict[str, Any] = json.loads(out)
        for measured_anew in ("milliseconds", "data"):
            result.pop(measured_anew, None)
        return result

    assert printed("shop.csv", *NAMED) == printed("judged.csv")
    code, _, err = run(*words, listed, "shop.csv", "--columns", "query=words", *renamed)
    assert (code, "no column is called 'words'" in err) == (3, True)


def test_pools_and_profiles_read_columns_of_other_names(
    run: Run, renamed: list[str], tmp_path: Path
) -> None:
    pool = ["judge", "pool", "--rankers", "query.json", "--depth", "5", "--json", *renamed]
    of_ours = ["--queries", "judged.csv", "--judged", "judged.csv"]
    out = run.output(*pool, *of_ours, "--out", "a.csv")
    # Both lists have a shop's names, or the queries alone.
    for judged in ("shop.csv", "judged.csv"):
        named = ["--queries", "shop.csv", "--judged", judged, *NAMED, "--out", "b.csv"]
        code, again, err = run(*pool, *named)
        assert (code, err) == (0, "")
        assert again.replace("b.csv", "a.csv") == out
        assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()
    few = ["--queries", "shop.csv", "--repeat", "2", "--window", "10", *QUERY]
    run.output("profile", "--model", "good.json", *few, *NAMED, *renamed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare-live", "good.json"], "--judgments"),
        (["compare-live", "query", *LIVE], "a comparison needs 2 rankers, and there is 1"),
        (["compare-live", "good.json", "bad.json", "query", *LIVE, "--out", "e.json"], "two rank"),
        (
            ["compare-live", "query", "good.json", *LIVE, "--out", "e.json"],
            "'query' is not a model",
        ),
        (
            ["upload", "good.json", "--unproven", "x", "--require", "good.json"],
            "--require and --unproven do not go together",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(
    run: Run, place: list[str], words: list[str], message: str
) -> None:
    assert message in run.refusal(2, *words, *place)


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RERANKER = EXAMPLES / "owpc-ltr-list-range" / "list_range.py"
METRIC = EXAMPLES / "owpc-ltr-success" / "success.py"


@pytest.fixture
def small_plugins(lasting_small: Small) -> Iterator[Small]:
    with emptied_store(lasting_small) as made:
        yield made


@pytest.fixture
def run_plugins(small_plugins: Small, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("OWPC_LTR_URL", small_plugins.engine.settings.url)
    return Run(lambda *words: run(*words, "--store", small_plugins.store_name))


def test_a_search_is_reordered_by_a_reranker_that_is_a_file(
    run_plugins: Run, small_plugins: Small
) -> None:
    base = LinearModel(FEATURESET.feature_names, linear().weights)
    reordering = train_reranker(
        logged_dataset(small_plugins),
        base=base,
        reranker="list-range",
        settings={"penalty": 0.1},
        plugins=[RERANKER],
        validation_share=0,
        test_share=0,
    )
    save_model(reordering, Path("reordering.json"))
    asked = (
        "search",
        "alpha gamma",
        "--index",
        small_plugins.index,
        "--reranker",
        "reordering.json",
    )
    assert "no reranker is named 'list-range'" in run_plugins.refusal(2, *asked)
    code, out, err = run_plugins(*asked, "--plugin", str(RERANKER), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["reordered"]


def test_a_gain_is_measured_by_a_metric_that_is_a_file(
    run_plugins: Run, small_plugins: Small
) -> None:
    assert not any(metric.name == "success" for metric in load().all("metric"))
    save_dataset(logged_dataset(small_plugins), Path("data.parquet"))
    save_model(linear((0.0, 1.0, -1.0)), Path("poor.json"))
    save_model(linear((2.0, 0.0, 0.2)), Path("good.json"))
    at = ("--index", small_plugins.index)
    gain = ("--metric", "success@1,relevant-above=2", "--judgments", "data.parquet")
    live = ("compare-live", "good.json", "poor.json", "--query-template", "all-fields", *at)
    assert "success" in run_plugins.refusal(2, *live, *gain)
    out = run_plugins.output(*live, *gain, "--plugin", str(METRIC))
    assert "by success@1,relevant-above=2" in " ".join(out.split())
