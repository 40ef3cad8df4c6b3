"""`--report` of commands, and the page of judgments from clicks."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from owpc_ltr_clicks.judge_clicks import judge_clicks
from owpc_ltr_clicks.model_selection import examination_interval
from owpc_ltr_report.page import Page

import owpc_ltr
from owpc_ltr import OwpcLtrWarning, save_dataset
from owpc_ltr.data.blocks import Row, Table
from owpc_ltr.host.registry import installed
from tests.clicks.counts import simulated
from tests.commands import Run
from tests.report.samples import (
    check,
    check_harmless,
    clicked,
    dataset,
    events,
    hostile_clicked,
    linear,
)
from tests.simulated_users import simulate


@pytest.fixture(scope="module")
def page() -> Page:
    made: Page = owpc_ltr.report(clicked())
    return made


@pytest.fixture
def run(run: Run, tmp_path: Path) -> Run:
    pq.write_table(events(), tmp_path / "events.parquet")
    return run


def tables(page: Page, name: str) -> dict[str, Sequence[Row]]:
    """The rows of a section's tables, by their captions."""
    (section,) = (each for each in page.sections if each.name == name)
    blocks = section.words["blocks"]
    return {block.caption: block.rows for block in blocks if isinstance(block, Table)}


def rows_of_models(page: Page) -> Sequence[Row]:
    (rows,) = tables(page, "click-models").values()
    return rows


def test_the_verdict_says_how_much_was_judged_and_by_which_model(page: Page) -> None:
    judgments = clicked()
    assert page.verdict is not None
    n, model = len(judgments.table), judgments.chosen.name
    said = f"{n:,} documents of 40 queries got judgments, by {model}"
    assert page.verdict.sentence.startswith(said)
    assert page.verdict.mood == "neutral"
    best = max(judgments.chosen.held_out, key=lambda likelihood: likelihood.session_log_likelihood)
    assert f"log likelihood {best.session_log_likelihood:.4f}" in page.verdict.sentence


def test_what_to_doubt_comes_first() -> None:
    with pytest.warns(OwpcLtrWarning, match="clicks are few"):
        few = judge_clicks(events(400), min_people=1)
    report = owpc_ltr.report(few)
    assert report.verdict is not None
    assert report.verdict.mood == "worse"
    assert "clicks are few" in report.verdict.sentence.split(".")[0]
    assert f"<strong>Warning:</strong> {few.warnings[0]}" in html.unescape(report.html())
    assert "too few clicks for an interval" in report.charts["examination"].sentence


def test_every_event_is_used_or_has_a_reason(page: Page) -> None:
    account = clicked().behaviour.event_counts
    rows = page.charts["unused-events"].table.rows
    assert rows[0][:2] == ("used", account.used)
    assert sum(row[1] for row in rows) == account.read
    drawn = page.charts["unused-events"].spec["data"]["values"]
    assert sum(row["value"] for row in drawn) == account.read - account.used


def test_every_document_is_counted_once_by_impressions_grade_and_weight(page: Page) -> None:
    judgments = clicked()
    for name in ("impressions", "click-grades", "click-weights"):
        rows = page.charts[name].spec["data"]["values"]
        assert sum(row["y"] for row in rows) == len(judgments.table)
    grades = {str(row["x"]): row["y"] for row in page.charts["click-grades"].spec["data"]["values"]}
    assert {name: n for name, n in grades.items() if n} == judgments.as_dict()["grades"]


def test_the_queries_of_most_and_least_evidence_are_those(page: Page) -> None:
    counts, trials = clicked().behaviour.counts, clicked().chosen.fit.trials
    looks = [trials[counts.pair_query == query].mean() for query in range(len(counts.queries))]
    order = [counts.queries[int(query)].as_py() for query in np.argsort(looks)]
    rows = tables(page, "evidence")
    assert [row[0] for row in rows["Queries with the least evidence"]] == order[:10]
    assert [row[0] for row in rows["Queries with the most evidence"]] == order[::-1][:10]


def test_every_model_is_shown_with_how_users_look_and_how_it_predicts(page: Page) -> None:
    judgments = clicked()
    looked = page.charts["examination"].spec["data"]["values"]
    assert [row["value"] for row in looked] == judgments.chosen.fit.examination.tolist()
    assert all(row["low"] <= row["value"] <= row["high"] for row in looked)
    rows = rows_of_models(page)
    assert [row[0] for row in rows if row[3] == "judges"] == [judgments.chosen.name]
    assert {row[0] for row in rows} == {
        likelihood.model for likelihood in judgments.chosen.held_out
    }
    for chart in page.charts.values():
        check(chart)


def test_a_ranking_that_never_changes_is_said_first() -> None:
    static = simulate.clicks(simulate.example_world(40, 20), None, (0.6,), 8000)
    with pytest.warns(OwpcLtrWarning, match="the ranking never changes"):
        judgments = judge_clicks(static)
    made = owpc_ltr.report(judgments)
    assert made.verdict is not None
    assert made.verdict.mood == "worse"
    assert "clicks do not identify examination" in made.verdict.sentence
    assert f"auto chose {judgments.chosen.name}" in made.verdict.sentence
    assert "of 4 click models the log identifies 2" in made.verdict.sentence
    rows = rows_of_models(made)
    assert sorted(str(row[0]) for row in rows if "not identified" in str(row[3])) == [
        "coec", "pbm",
    ]  # fmt: skip


def test_one_model_that_was_asked_for_stands_alone() -> None:
    report = owpc_ltr.report(clicked(model="sdbn"))
    assert report.verdict is not None
    assert "the only model asked for" in report.verdict.sentence


@pytest.mark.thorough
def test_the_interval_of_looks_holds_the_truth_and_narrows_with_more_clicks() -> None:
    model = installed().find("click-model", "pbm")()
    users = simulate.Users()
    held, widths = [], []
    for sessions in (5000, 20_000):
        for seed in range(4):
            _, behaviour = simulated(sessions, users, seed=seed, queries=60)
            looked = model.fit(behaviour.counts).examination
            interval = examination_interval(model, behaviour.counts, looked)
            assert interval is not None
            low, high = interval
            truth = users.examination(len(low))
            held.append(((low <= truth) & (truth <= high))[1:])
            widths.append((high - low)[1:].mean())
    assert np.mean(held) > 0.85
    assert np.mean(widths[4:]) < 0.7 * np.mean(widths[:4])


def test_nobody_and_no_rare_query_is_on_the_page() -> None:
    table = events()
    for column in ("session", "client"):
        names = pa.array([f"secret-{value}" for value in table[column].to_pylist()])
        table = table.set_column(table.schema.get_field_index(column), column, names)
    place = table.schema.get_field_index("query")
    table = table.set_column(place, "query", table["query"].cast(pa.string()))
    rare = table.slice(0, 4)
    rare = rare.set_column(place, "query", pa.array(["a rare and telling query"] * 4))
    judgments = judge_clicks(pa.concat_tables([table, rare]))
    text = owpc_ltr.report(judgments).html()
    assert "a rare and telling query" not in text
    assert "a query that fewer than 5 people asked" in text
    assert str(judgments.behaviour.counts.queries[0]) in text
    assert "secret-" not in text


def test_queries_that_would_do_harm_are_shown_and_do_nothing() -> None:
    elements = check_harmless(owpc_ltr.report(hostile_clicked()).html())
    assert any("<script>alert(1)</script>" in text for text in elements.text)


def test_the_command_writes_a_page_beside_what_it_does_anyway(tmp_path: Path, run: Run) -> None:
    words = ("judge", "clicks", "events.parquet", "--out", "j.tsv")
    code, out, err = run(*words, "--report", "page.html")
    assert (code, err) == (0, "")
    made = (tmp_path / "j.tsv").read_bytes()
    assert run(*words) == (0, out.replace("wrote page.html\n", ""), "")
    assert (tmp_path / "j.tsv").read_bytes() == made
    page = (tmp_path / "page.html").read_text()
    for said in ("got judgments, by", "events.parquet", "How far down do users look?"):
        assert said in page
    assert str(tmp_path) not in page


def test_a_page_needs_a_file_of_its_own(run: Run) -> None:
    words = ("judge", "clicks", "events.parquet", "--out", "j.tsv")
    for taken in ("events.parquet", "-"):
        assert run(*words, "--report", taken)[0] == 2


@pytest.fixture
def run_report(run: Run, tmp_path: Path) -> Run:
    save_dataset(dataset(60).without_missing(), tmp_path / "d.parquet")
    return run


PAGES = {
    "train d.parquet --out m.json --set loss.generator=inverse": (
        "m.json is trained: map ", "How was m.json trained?", "Which features does m.json use?",
    ),
    "compare m.json feature:noise feature:bm25 --data d.parquet": (
        "m.json ranks better than feature:bm25", "feature:noise",
    ),
    "inspect d.parquet": ("Data checks of d.parquet",),
}  # fmt: skip
"""What the page of each command says."""


@pytest.mark.parametrize("words", PAGES, ids=lambda words: words.split()[0])
def test_a_command_writes_a_page_beside_what_it_does_anyway(
    words: str, tmp_path: Path, run_report: Run
) -> None:
    linear(1.0, 0.1, 0.0).save(tmp_path / "m.json")
    code, out, err = run_report(*words.split(), "--report", "page.html")
    assert (code, "Traceback" in err) == (0, False)
    page, model = ((tmp_path / name).read_bytes() for name in ("page.html", "m.json"))
    assert run_report.output(*words.split()) == out.replace("wrote page.html\n", "") != out
    assert (tmp_path / "m.json").read_bytes() == model
    for said in PAGES[words]:
        assert said in page.decode()


@pytest.mark.parametrize("command", ["compare", "train", "verify"])
def test_a_page_is_no_input_and_no_standard_output(run_report: Run, command: str) -> None:
    words = {
        "compare": ("compare", "feature:good", "feature:bm25", "--data", "d.parquet"),
        "train": ("train", "d.parquet", "--out", "m.json"),
        "verify": ("verify", "m"),
    }[command]
    err = run_report.refusal(2, *words, "--report", "-")
    assert "--report writes a page to open in a browser: name a file, not -" in err
    if command != "verify":
        assert "it is the input" in run_report.refusal(2, *words, "--report", "d.parquet")


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
@pytest.mark.parametrize(
    "words",
    [
        ("report", "m.json", "--out", "page.html"),
        ("inspect", "d.parquet", "--report", "page.html"),
    ],
)
def test_without_the_extra_one_line_says_what_to_install(
    run_report: Run,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    words: tuple[str, ...],
    tmp_path: Path,
) -> None:
    linear(1.0, 0.0, 0.0).save(tmp_path / "m.json")
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "owpc_ltr_report.report", raising=False)
    code, out, err = run_report(*words)
    assert (code, out) == (2, "")
    install = "pip install 'owpc-ltr[report]'"
    assert err == f"owpc-ltr: report needs {package}, which is not installed: {install}\n"
    assert not (tmp_path / "page.html").exists()


def test_each_step_of_a_report_is_named_as_it_begins() -> None:
    messages: list[str] = []
    rankers = {"one": linear(1.0, 0.5, 0.0), "other": linear(0.5, 1.0, 0.0)}
    owpc_ltr.report(
        rankers,
        data=dataset(),
        split="all",
        progress=lambda message, _done: messages.append(message),
    )
    steps = ["choosing examples", "inspecting the data", "computing risk bounds"]
    assert [step for step in dict.fromkeys(messages) if step in steps] == steps
    assert messages[-1] == "drawing the page"
