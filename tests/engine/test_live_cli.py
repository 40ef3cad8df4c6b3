"""`evaluate --live`, `upload --live` and `judge pool` as they are typed, on a real node."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from owpc_ltr.models.linear import save_model
from tests.commands import Run, commands_in
from tests.engine.small_cluster import WORDS, Small, linear, small_cluster

pytest.importorskip("owpc_ltr.api.judgments")
pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url, documents=120) as made:
        yield made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return commands_in(tmp_path, monkeypatch, capsys)


@pytest.fixture
def place(small: Small, tmp_path: Path) -> list[str]:
    """Files to type, and the options that say where."""
    answer = small.engine.request(
        "POST", f"/{small.index}/_search", body={"size": 120, "query": {"match_all": {}}}
    )
    hits = answer["hits"]["hits"]
    lines = ["query_id,query,doc_id,grade"]
    for number in range(40):
        words = {WORDS[number % 8], WORDS[(number % 8 + number // 8 + 1) % 8]}
        for hit in hits[::2]:
            grade = int(words <= set(hit["_source"]["title"].split()))
            lines.append(f"q{number},{' '.join(sorted(words))},{hit['_id']},{grade}")
    (tmp_path / "judged.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "query.json").write_text(json.dumps({"match": {"body": "{{keywords}}"}}))
    save_model(linear((1.0, 0.0, 0.0)), tmp_path / "good.json")
    save_model(linear((0.0, 0.0, -1.0)), tmp_path / "bad.json")
    url, own = small.engine.settings.url, small.name.removeprefix("m-")
    return [
        "--url", url, "--store-kind", "plugin-free", "--store", own, "--index", small.index,
        "--query", "query.json",
    ]  # fmt: skip


LIVE = ["--live", "--judgments", "judged.csv"]


def test_what_users_get_is_printed_for_people_and_for_machines(run: Run, place: list[str]) -> None:
    code, out, err = run("evaluate", "good.json", *LIVE, "--metric", "ndcg@10", *place)
    assert code == 0
    assert "flatter" in err
    for words in ("irrelevant", "left out", "judged among the first 10", "recall of the window"):
        assert words in out
    code, out, _ = run("evaluate", "good.json", *LIVE, "--metric", "ndcg@10", "--json", *place)
    told = json.loads(out)
    (one,) = told["metrics"]
    assert one["unjudged_irrelevant"]["mean_difference"] > 0
    assert one["bounds"]["before"][0] == pytest.approx(one["unjudged_irrelevant"]["mean_b"])
    assert 0 < told["judged_at_10"]["before"] < 1
    assert told["milliseconds"]["after"]["p95"] >= told["milliseconds"]["after"]["median"]


def test_a_refused_upload_is_one_line_and_leaves_nothing(
    run: Run, place: list[str], small: Small
) -> None:
    gate = ["--require-gain", "ndcg@10", *LIVE, "--name", small.name]
    code, _, err = run("upload", "bad.json", *gate, *place)
    (refusal,) = [line for line in err.splitlines() if line.startswith("owpc-ltr:")]
    assert code == 5
    assert "no live gain in ndcg@10 over 'the query alone'" in refusal
    assert small.store.list_models() == []
    code, out, _ = run("upload", "good.json", *gate, *place)
    assert (code, len(small.store.list_models())) == (0, 1)
    assert "gain in ndcg@10 over 'the query alone'" in out


def test_a_pool_is_a_sheet_that_is_read_once_it_is_graded(
    run: Run, place: list[str], tmp_path: Path
) -> None:
    asked = ["--queries", "judged.csv", "--rankers", "query.json", "--fields", "title"]
    code, out, _ = run("judge", "pool", *asked, "--depth", "5", "--out", "sheet.csv", *place)
    assert (code, "200 documents of 40 queries" in out) == (0, True)
    log = ["log-features", *place[:-2], "--judgments", "sheet.csv", "--out", "logged.parquet"]
    code, _, err = run(*log)
    assert (code, "200 of 200 lines have none" in err) == (3, True)
    with (tmp_path / "sheet.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    with (tmp_path / "sheet.csv").open("w", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "grade": n % 2 if n < 150 else ""} for n, row in enumerate(rows))
    code, _, err = run(*log)
    assert (code, "50 of 200 lines have none" in err) == (3, True)
    code, out, err = run(*log, "--skip-unjudged")
    assert (code, "50 lines without a grade were left out" in err) == (0, True)
    assert "150 judged = 150 logged" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "good.json", "--live"], "--judgments FILE"),
        (["evaluate", "good.json"], "give DATA, or --live with --judgments"),
        (["evaluate", "good.json", "--judgments", "judged.csv"], "add --live"),
        (["evaluate", "good.json", "x.parquet", *LIVE], "leave DATA out"),
        (["upload", "good.json", *LIVE], "with --require-gain"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    run: Run, place: list[str], words: list[str], message: str
) -> None:
    Path("x.parquet").touch()
    code, _, err = run(*words, *place)
    assert (code, message in err) == (2, True)
