"""The page of a comparison with proxy labels: three intervals, and a verdict by both kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_report.page import Page

import owpc_ltr
from owpc_ltr.evaluation.compared_pair import Agreement, prediction_powered
from tests.commands import Run
from tests.proxy_labels import CLEAR, comparison, run
from tests.report.samples import Elements, check

__all__ = ["run"]


@pytest.fixture(scope="module")
def page() -> Page:
    made: Page = owpc_ltr.report(comparison(metrics=["ndcg@5", "mrr"]))
    return made


def test_the_verdict_is_by_both_judges(page: Page) -> None:
    assert page.verdict is not None
    assert (page.verdict.mood, page.verdict.title) == ("neutral", "Better on judged documents")
    sentence = "a ranks better than b on judged documents: ndcg@5 differs by +0."
    assert page.verdict.sentence.startswith(sentence)
    assert "by 60 human-labelled of 240 proxy-labelled queries" in page.verdict.sentence
    details = [text for style, text in Elements(page.html()).paragraphs if not style]
    assert "biased and decide nothing" in details[0]
    assert "λ = 0." in details[1]


def test_the_three_intervals_stand_side_by_side_and_the_biased_one_shows_nothing(
    page: Page,
) -> None:
    pairs = comparison(metrics=["ndcg@5", "mrr"]).prediction_powered
    rows = page.charts["proxy-labels"].spec["data"]["values"]
    expected = [
        (interval.mean, interval.low, interval.high)
        for pair in pairs
        for estimate in [pair.prediction_powered]
        if estimate is not None
        for interval in (estimate.by_both, estimate.by_human, estimate.by_proxy)
    ]
    assert [(row["value"], row["low"], row["high"]) for row in rows] == expected
    assert {row["outcome"] for row in rows[2::3]} == {"cannot tell"}
    check(page.charts["proxy-labels"])


def test_agreement_and_what_would_decide_are_told(page: Page) -> None:
    estimate = comparison(metrics="ndcg@5").prediction_powered[0].prediction_powered
    assert estimate is not None
    shown = Elements(page.html())
    facts = shown.facts
    (line,) = [text for _, text in shown.paragraphs if text.startswith("ndcg@5 a − b: ")]
    assert "by 60 human-labelled and 240 proxy-labelled queries" in line
    assert line.endswith("; no more human labels are needed")
    assert facts["ideal ranking (NDCG), relevant documents"] == "of the human-labelled documents"
    assert estimate is not None
    agreed = estimate.agreement
    assert agreed.correlation is not None
    named = facts["agreement with human labels (correlation of differences)"]
    assert float(named) == pytest.approx(agreed.correlation, abs=0.005)


def test_a_pair_turned_round_says_the_opposite() -> None:
    rankers = {"b": "feature:likes", "a": "feature:bm25"}
    report = owpc_ltr.report(comparison(rankers=rankers, baseline="a"))
    other = owpc_ltr.report(comparison(baseline="a"))
    assert report.verdict is not None
    assert report.verdict.mood == "worse"
    assert report.verdict.sentence == other.verdict.sentence
    rows = [each.charts["proxy-labels"].spec["data"]["values"] for each in (report, other)]
    assert rows[0] == rows[1]
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows[0])


def test_a_proxy_judge_who_is_sure_shows_nothing_that_people_contradict() -> None:
    """The proxy judge turns everything round: people decide, however many queries he has."""
    liar = replace(CLEAR, labels=1 - CLEAR.labels)
    report = owpc_ltr.report(comparison(proxy=liar))
    assert report.verdict is not None
    assert report.verdict.title == "Better on judged documents"
    row = report.charts["proxy-labels"].spec["data"]["values"][2]
    assert row["high"] < 0
    assert row["outcome"] == "cannot tell"


def test_agreement_counts_one_query_after_the_other() -> None:
    rng = np.random.default_rng(0)
    human = np.where(np.arange(100) < 40, rng.integers(-1, 2, 100).astype(float), np.nan)
    proxy = rng.integers(-1, 2, 100).astype(float)
    ids = [f"q{n}" for n in range(100)]
    agreement = prediction_powered(proxy, human, ids).agreement
    pairs = list(zip(proxy[:40], human[:40], strict=True))
    assert agreement.differ == sum(h != 0 for _, h in pairs)
    assert agreement.same == sum(c * h > 0 for c, h in pairs)
    assert agreement.opposite == sum(c * h < 0 for c, h in pairs)
    assert agreement.correlation == pytest.approx(np.corrcoef(proxy[:40], human[:40])[0, 1])
    # A query that counts twice is two queries.
    weights = np.where(np.arange(100) < 20, 2.0, 1.0)
    twice = np.concatenate([proxy[:20], proxy[:40]]), np.concatenate([human[:20], human[:40]])
    weighed = prediction_powered(proxy, human, ids, weights=weights).agreement
    assert weighed.correlation == pytest.approx(np.corrcoef(*twice)[0, 1])
    none = prediction_powered(np.full(100, 0.3), human, ids).agreement
    assert none == Agreement(None, agreement.differ, none.same, none.opposite)


def test_the_command_writes_both_judges_to_its_page(tmp_path: Path, run: Run) -> None:
    words = ["compare", "linear.json", "feature:likes", "--data", "sample.tsv"]
    words += ["--proxy-labels", "clicks.parquet", "--metric", "ndcg@5", "--resamples", "200"]
    code, out, _ = run(*words, "--report", "page.html")
    assert (code, f"{run(*words)[1]}wrote page.html\n") == (0, out)
    html = (tmp_path / "page.html").read_text()
    for said in ("What do proxy labels add?", "human alone", "proxy alone (biased)"):
        assert said in html
    alone = [*words[:4], "clicks.parquet", *words[7:]]
    assert run(*alone, "--report", "other.html")[0] == 0
    assert "What do proxy labels add?" not in (tmp_path / "other.html").read_text()
