"""Sections of single results: what each one says, by results of which that is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_report.checks import read_latency
from owpc_ltr_report.comparison import comparison_of, verdict_of
from owpc_ltr_report.page import amount
from owpc_ltr_report.queries import (
    TOP_DOCUMENTS,
    example_documents,
    extremes,
)

import owpc_ltr
from owpc_ltr import RankerComparison
from owpc_ltr.data.blocks import Table, cell_text
from owpc_ltr.engine.deployment.parity import FeatureDrift, RankAgreement
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.errors import BadInput
from owpc_ltr.host.report_parts import signed
from owpc_ltr.inspection.result import Finding
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import with_record
from tests.commands import Run
from tests.data.test_runs import judged_queries
from tests.report.samples import NAMES, Elements, check, dataset, fused, linear

TRAINING_DATA = dataset(60).without_missing()
COSTS = {
    "index": "movies",
    "store_kind": "plugin-free",
    "features": [
        {"feature": "good", "milliseconds": 1.5, "low": 1.0, "high": 2.0},
        {"feature": "bm25", "milliseconds": 0.1, "low": -0.1, "high": 0.3},
    ],
    "searches": {"all": {"median_ms": 7.0, "p95_ms": 9.0}},
    "windows": [
        {"window": size, "median_ms": 1.0 + size / 100, "p95_ms": 2.0 + size / 100}
        for size in (10, 100, 1000)
    ],
}


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.integers(0, 5))
def test_examples_are_the_largest_losses_and_gains_and_no_query_that_stays(
    gains: list[float], count: int
) -> None:
    values = np.array(gains)
    losses, best = extremes(values, count)
    assert all(values[place] < 0 for place in losses)
    assert all(values[place] > 0 for place in best)
    assert sorted(values[losses]) == sorted(value for value in gains if value < 0)[:count]
    assert sorted(values[best]) == sorted(value for value in gains if value > 0)[-count or 99 :]


@given(st.integers(0, 1000))
def test_documents_of_an_example_have_the_ranks_that_their_scores_give(seed: int) -> None:
    data = dataset(3)
    before, after = np.random.default_rng(seed).normal(size=(2, data.n_documents))
    moved = example_documents(data, 1, (before, after))
    start, end = data.offsets[1], data.offsets[2]
    rank = {f"d{row}": 1 + int((after[start:end] > after[row]).sum()) for row in range(start, end)}
    was = {f"d{row}": 1 + int((before[start:end] > before[row]).sum()) for row in range(start, end)}
    ranks = [document.rank for document in moved if document.rank is not None]
    assert len(ranks) == len(moved)
    assert ranks == sorted(ranks)
    assert ranks[:TOP_DOCUMENTS] == [1, 2, 3, 4]
    for document in moved:
        assert (document.rank, document.before) == (rank[document.doc_id], was[document.doc_id])
        assert rank[document.doc_id] <= TOP_DOCUMENTS or was[document.doc_id] <= TOP_DOCUMENTS


def test_reasons_are_what_sets_a_document_apart_from_its_list() -> None:
    data = dataset(3).without_missing()
    model = LinearModel(NAMES, np.array([1.0, 0.0, -0.5]))
    scores = model.score(data.features)
    moved = example_documents(data, 0, (scores, scores), lambda part: part * model.weights)
    mean = scores[:12].mean()
    for document in moved:
        assert {name for name, _ in document.reasons} == {"good", "bm25"}
        apart = sum(value for _, value in document.reasons)
        assert apart == pytest.approx(scores[int(document.doc_id[1:])] - mean)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that learned from the training queries of `TRAINING_DATA`."""
    splits = TRAINING_DATA.split()
    path = tmp_path_factory.mktemp("trained") / "m.json"
    model = owpc_ltr.train(
        splits.training, validation=splits.validation, optimizer="larank", settings={"C": 1.0}
    )
    model.save(path)
    return path


def test_a_report_on_a_ranker_has_examples_titles_and_bounds(trained: Path, tmp_path: Path) -> None:
    documents = tmp_path / "documents.jsonl"
    data = TRAINING_DATA
    lines = [json.dumps({"id": f"d{n}", "title": f"Title {n}"}) for n in range(data.n_documents)]
    documents.write_text("\n".join(lines))
    page = owpc_ltr.report(
        trained, data=data, baseline="feature:bm25", metrics=["map"],
        documents=documents, id_field="id",
    )  # fmt: skip
    tables = Elements(page.html()).tables
    examples = next(rows for caption, rows in tables.items() if caption.startswith("Documents of"))
    assert examples[1][-1].startswith("Title ")
    assert "good " in examples[1][-1]
    assert any("bounds of the risk" in caption for caption in tables)
    assert page.verdict is not None
    assert page.title == "m.json against feature:bm25"


def test_costs_have_intervals_windows_and_whole_searches(tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text(json.dumps(COSTS))
    page = owpc_ltr.report([read_latency(tmp_path / "costs.json"), linear(1.0, 0.0, 0.0)])
    rows = page.charts["feature-costs"].spec["data"]["values"]
    assert [row["high"] for row in rows] == [2.0, 0.3]
    assert "from 1.1 ms for 10 documents to 11 ms for 1000" in page.charts["windows"].sentence
    headers, *rows = Elements(page.html()).tables["All features"]
    assert headers[-1] == "cost, ms"
    assert {row[0]: row[-1] for row in rows} == {"good": "1.5", "bm25": "0.1", "noise": "–"}


@pytest.mark.parametrize("content", [{"features": [{"feature": "x"}]}, {"x": "dear"}, {"x": True}])
def test_what_profile_did_not_print_is_refused(tmp_path: Path, content: Any) -> None:
    (tmp_path / "costs.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=r"costs.json is not the JSON that profile prints"):
        read_latency(tmp_path / "costs.json")


def verified(*drift: str) -> Verification:
    moved = FeatureDrift("good", 0.2, 1.0, 1.1, 0.0), FeatureDrift("bm25", 0.0, 2.0, 2.0, 0.0)
    return Verification("m-1", "movies", drift, None, moved, RankAgreement(3, 0, 0.99, -0.01))


def test_drift_is_worse_and_said_and_none_is_no_praise() -> None:
    drifted = owpc_ltr.report(verified("the mapping has changed"))
    assert drifted.verdict is not None
    assert drifted.verdict.mood == "worse"
    assert "the mapping has changed" in drifted.verdict.sentence
    quiet = owpc_ltr.report(verified())
    assert quiet.verdict is not None
    assert quiet.verdict.mood == "neutral"
    assert [row["name"] for row in quiet.charts["feature-drift"].spec["data"]["values"]] == ["good"]


def test_a_trained_model_is_not_said_to_be_measured() -> None:
    page = owpc_ltr.report(linear(1.0, 0.0, 0.0))
    assert page.verdict is not None
    assert page.verdict.title == "Trained, not measured yet"
    paragraphs = Elements(page.html()).paragraphs
    warnings = [text for style, text in paragraphs if style == "warning"]
    assert warnings == ["Warning: a <warning> of training"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["loss", "optimizer", "table", "history", "certificate", "source", "select",
                 "warnings", "validation", "queries", "basis", "settings", "split", "name", "gap",
                 "passes", "optimizer.C", "loss.generator", "pass"]
            ),
            inner,
            max_size=6,
        ),
        max_leaves=20,
    )
)  # fmt: skip
def test_anybodys_record_is_read_without_a_fault(content: Any) -> None:
    record = content if isinstance(content, dict) else {"loss": content, "table": content}
    model = replace(linear(1.0, 0.0, 0.0), record=record)
    assert "</html>" in owpc_ltr.report(model).html()


def test_a_report_on_a_model_file_is_a_command(run: Run, tmp_path: Path) -> None:
    from owpc_ltr import save_dataset

    linear(1.0, 0.0, 0.0).save(tmp_path / "m.json")
    save_dataset(dataset().without_missing(), tmp_path / "d.parquet")
    words = ("report", "m.json", "--data", "d.parquet", "--baseline", "feature:bm25")
    code, out, err = run(*words, "--out", "page.html")
    assert (code, err) == (0, "")
    assert out.startswith("m.json ranks better than feature:bm25 on judged documents: ndcg@10 is ")
    assert "m.json ranks better than" in (tmp_path / "page.html").read_text()
    assert run(*words, "--out", "m.json")[0] == 2
    assert run(*words, "--out", "-")[0] == 2
    assert run(*words[:3], "none.parquet", "--out", "page.html")[0] == 3


def compared(**how: Any) -> RankerComparison:
    data = dataset().without_missing()
    rankers = {
        "new": linear(1.0, 0.0, 0.0),
        "noise": linear(0.0, 1.0, 0.0),
        "old": linear(0.0, 0.0, 1.0),
    }
    return owpc_ltr.compare(
        rankers, data=data, metrics=["map", "pairwise-error"], resamples=500, **how
    )


@pytest.mark.parametrize("baseline", [None, "old", "new"])
def test_a_comparison_is_seen_from_the_new_ranker_whoever_stands_first(
    baseline: str | None,
) -> None:
    result = compared(baseline=baseline)
    comparison = comparison_of(result)
    # The pair that the terminal and the JSON discuss.
    assert (comparison.rankers[0].name, comparison.baseline) == result.headline
    assert comparison.baseline == baseline or baseline is None
    by_pair = {(each.a, each.b, each.metric): each for each in result.pairs}
    for compared_pair in comparison.pairs:
        means = [
            comparison.ranker(name).means[compared_pair.metric].mean
            for name in (compared_pair.a, compared_pair.b)
        ]
        assert compared_pair.comparison.mean_difference == pytest.approx(means[0] - means[1])
        assert (compared_pair.comparison.mean_a, compared_pair.comparison.mean_b) == pytest.approx(
            means
        )
        assert (
            compared_pair.comparison.low
            <= compared_pair.comparison.mean_difference
            <= compared_pair.comparison.high
        )
        pair = (
            by_pair.get((compared_pair.a, compared_pair.b, compared_pair.metric))
            or by_pair[(compared_pair.b, compared_pair.a, compared_pair.metric)]
        )
        assert (compared_pair.p_holm, compared_pair.better) == (pair.p_holm, pair.better)
    outcome = verdict_of(comparison).words["verdict"].outcome
    assert outcome == ("worse" if baseline == "new" else "better")
    assert verdict_of(comparison).mood == ("worse" if baseline == "new" else "neutral")
    assert outcome == result.as_dict()["verdict"]["outcome"]
    assert repr(result).startswith(f"{outcome} on judged documents: ")


def test_the_report_is_about_the_ranker_that_is_named_first() -> None:
    comparison = comparison_of(compared(baseline="old"), "noise")
    assert (comparison.rankers[0].name, comparison.baseline) == ("noise", "old")


@pytest.mark.parametrize(
    ("second", "title", "mood"),
    [(1.0, "Better", "better"), (0.0, "Do not fuse", "no significant difference")],
)
def test_a_fusion_says_whether_to_fuse_and_what_limits_it(
    second: float, title: str, mood: str
) -> None:
    fusion = fused(second)
    (learned,) = [line for line in str(fusion).splitlines() if line.startswith("learned weights  ")]
    assert learned.split()[-1] == f"{fusion.decision.p_permutation:.4f}"
    page = owpc_ltr.report(fusion)
    assert page.verdict is not None
    assert (page.verdict.title, page.verdict.mood) == (title, mood)
    assert [section.name for section in page.sections] == ["fusion", "queries"]
    for chart in page.charts.values():
        check(chart)
    headers, *rows = Elements(page.html()).tables["Means and differences of rankers"]
    assert [row[0] for row in rows] == [
        "lexical", "dense", "RRF k=60", "min_max, equal weights", "best of 82 engine settings",
        "learned weights",
    ]  # fmt: skip
    # The one comparison that decides, and no corrected one.
    own = dict(zip(headers, rows[-1], strict=True))
    assert own["diff"] == signed(fusion.decision.mean_difference)
    assert own["p"] == f"{fusion.decision.p_permutation:.4f}"
    recall = {row["name"]: row["value"] for row in page.charts["recall"].spec["data"]["values"]}
    assert recall == {
        **fusion.recall.legs,
        "all legs": fusion.recall.union, "the one request": fusion.recall.request,
    }  # fmt: skip
    text = page.html()
    for said in (
        f"{fusion.recall.unreachable:,} of {fusion.recall.relevant:,} relevant documents",
        f"{fusion.optimism.expected:+.4f}", amount(fusion.optimism.lost), fusion.engine_setting,
    ):  # fmt: skip
        assert said in text


def test_a_comparison_is_on_the_page_as_it_prints() -> None:
    rankers = {"new": linear(1.0, 0.1, 0.0), "old": "feature:bm25"}
    comparison = owpc_ltr.compare(rankers, data=dataset(), metrics="ndcg@5,map", resamples=500)
    shown = Elements(owpc_ltr.report(comparison).html())
    printed = " ".join(str(comparison).split())
    for block in comparison.figure_blocks():
        if isinstance(block, Table):
            headers, *rows = shown.tables[block.caption]
            cells = [[cell_text(cell) for cell in row] for row in block.rows]
            assert (headers, rows) == (block.names, [[signs(c) for c in row] for row in cells])
            # In a terminal pairs are of letters.
            assert all(cell in printed for row in cells for cell in row if " − " not in cell)
        elif isinstance(block, str) and block:
            assert ("", block) in shown.paragraphs
            assert block in printed


def signs(cell: str) -> str:
    """A cell as pages have it, where a minus is U+2212."""
    return cell.replace("-", "−") if cell[:1] in "+-" else cell


def test_an_inspection_says_its_findings() -> None:
    inspection = owpc_ltr.inspect(dataset())
    finding = Finding("leak", "warning", "good", "it <tells> the grade", "leave it out")
    inspection = replace(inspection, findings=(finding,))
    page = owpc_ltr.report(inspection)
    assert page.verdict is not None
    assert page.verdict.mood == "worse"
    assert "it <tells> the grade: leave it out" in page.verdict.sentence
    shown = Elements(page.html())
    leads = [text for style, text in shown.paragraphs if style == "lead"]
    assert leads[0].startswith("1 warning that")
    rows = shown.tables["Findings, the worst first"]
    assert rows[1:] == [["warning", "it <tells> the grade leave it out"]]
    quiet = owpc_ltr.report(replace(inspection, findings=()))
    assert ("lead", "No finding that affects figures or models.") in Elements(
        quiet.html()
    ).paragraphs


def test_a_ranker_that_learned_from_the_queries_is_not_called_better(trained: Path) -> None:
    moods = {}
    for side in ("auto", "all", "train"):
        page = owpc_ltr.report(
            [trained, "feature:noise"], data=TRAINING_DATA, metrics="map", split=side,
            examples=0,
        )  # fmt: skip
        assert page.verdict is not None
        moods[side] = page.verdict.mood
    assert moods == {"auto": "neutral", "all": "cannot tell", "train": "cannot tell"}


def test_the_comparison_opens_with_what_training_warned_of(tmp_path: Path) -> None:
    model = linear(1.0, 0.0, 0.0)
    with_record(model, {"warnings": ["one answer a query"]}).save(tmp_path / "m.json")
    rankers, data = [tmp_path / "m.json", "feature:noise"], dataset().without_missing()
    page = owpc_ltr.report(rankers, data=data, metrics="map", examples=0)
    first = page.sections[0].words["blocks"][0]
    assert first == "warning: in training: one answer a query"
    assert "<strong>Warning:</strong> in training: one answer a query" in page.html()


def test_a_model_whose_record_is_of_other_data_may_have_learned_from_these(tmp_path: Path) -> None:
    model = with_record(linear(1.0, 0.0, 0.0), {"warnings": []})
    model.save(tmp_path / "m.json")
    rankers, data = [tmp_path / "m.json", "feature:noise"], dataset().without_missing()
    page = owpc_ltr.report(rankers, data=data, metrics="map", examples=0)
    assert "nothing tells which queries m.json was trained on" in page.html()


@pytest.mark.parametrize(
    ("version", "number"),
    [("2.19.1", 71), pytest.param("3.0.0", 82, marks=pytest.mark.thorough)],
)
def test_settings_that_the_engine_refuses_are_not_tried(version: str, number: int) -> None:
    fusion = fused(0.0, version)
    assert fusion.best_engine == f"best of {number} engine settings"
    assert number == 82 or "z_score" not in fusion.engine_setting


def test_a_document_that_a_run_did_not_retrieve_has_no_rank_in_a_report() -> None:
    data = judged_queries()
    before, after = np.arange(240.0), np.arange(240.0)
    after[0] = 1000.0
    before[:10], after[19] = np.nan, np.nan
    moved = example_documents(data, 0, (before, after))
    ranks = {document.doc_id: (document.rank, document.before) for document in moved}
    assert ranks["d0"] == (1, None)
    assert ranks["d19"] == (None, 1)
    assert ranks["d18"] == (2, 2)
    nothing = np.full(240, np.nan)
    assert not any(document.rank for document in example_documents(data, 3, (before, nothing)))
