"""The page: one file without network, foreign texts escaped, and its verdict."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_report.comparison import comparison_of, verdict_of
from owpc_ltr_report.page import Page, PageVerdict, safe_json
from owpc_ltr_report.queries import Example, ExampleDocument

import owpc_ltr
from owpc_ltr import evaluate
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.comparison_result import ComparedRanker, RankerComparison
from owpc_ltr.evaluation.measurement import Measured
from owpc_ltr.evaluation.significance import Comparison, ResultWarning
from owpc_ltr.metrics import Metric, parse_metric
from tests.report.samples import HOSTILE, Elements, against, check_harmless, curves, dataset, linear

MOST = 2_000_000


@pytest.fixture(scope="module")
def hostile() -> str:
    data = dataset(len(HOSTILE), texts=HOSTILE).without_missing()
    evaluation = evaluate(linear(1.0, 0.0, 0.0), data, baseline="feature:bm25")
    ranker, other = evaluation.rankers
    named = replace(
        evaluation,
        rankers=(replace(ranker, name=HOSTILE[0]), other),
        pairs=tuple(replace(pair, a=HOSTILE[0]) for pair in evaluation.pairs),
        warnings=(HOSTILE[1],),
    )
    page = owpc_ltr.report(named, heading=HOSTILE[2])
    return str(page.html())


def test_hostile_texts_are_shown_and_do_nothing(hostile: str) -> None:
    elements = check_harmless(hostile)
    text = " ".join(elements.text)
    assert HOSTILE[1] in text
    assert HOSTILE[2] in text
    rows = json.loads(elements.scripts[0])["queries"]["per-query"]["rows"]
    assert HOSTILE[3] in {row[1] for row in rows}


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u202e", "\x00", "\x1b"])
def test_what_steers_a_reader_is_escaped(hostile: str, sign: str) -> None:
    assert sign not in hostile


def test_a_page_that_escapes_nothing_is_caught() -> None:
    for text in HOSTILE[:3]:
        with pytest.raises(AssertionError):
            check_harmless(f"<script>1</script><script>2</script><p>{text}</p><script>3</script>")


def test_numbers_that_there_are_not_are_null() -> None:
    shown = safe_json({"a": [float("nan"), 1.234567891], "b": float("inf")})
    assert shown == {"a": [None, 1.2346], "b": None}


def test_the_policy_allows_just_the_scripts_of_the_page_and_no_network() -> None:
    elements = Elements(owpc_ltr.report(linear(1.0, 0.0, 0.0)).html())
    policy = next(
        attributes["content"] or ""
        for attributes in elements.named("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    for script in elements.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == 2


@pytest.mark.thorough
def test_ten_thousand_queries_fit_on_a_page() -> None:
    texts = tuple(f"a query of several words, number {n}" for n in range(12_000))
    data = dataset(12_000, texts=texts).without_missing()
    evaluation = evaluate(linear(1.0, 0.0, 0.0), data, metrics="mrr", baseline="feature:bm25")
    page = owpc_ltr.report(evaluation).html()
    assert len(page.encode()) < MOST
    assert "holds the 10,000 of 12,000 queries that changed most" in page


def test_what_there_is_nothing_for_is_left_out_and_said() -> None:
    page = owpc_ltr.report(curves())
    assert [section.name for section in page.sections] == ["features"]
    left_out = next(text for _, text in Elements(page.html()).paragraphs if "Not on" in text)
    assert left_out.startswith("Not on this page: a comparison (give judged queries: --data); ")
    assert "; training (" in left_out
    assert "features" not in left_out
    checked = owpc_ltr.report(owpc_ltr.inspect(dataset(40))).html()
    assert "Not on this page" not in checked


def test_no_folder_of_this_machine_is_on_a_page(tmp_path: Path) -> None:
    model = tmp_path / "secret-folder" / "new.json"
    model.parent.mkdir()
    linear(1.0, 0.1, 0.0).save(model)
    evaluation = evaluate(model, dataset().without_missing(), baseline="feature:bm25")
    page = owpc_ltr.report([evaluation, model])
    assert page.title == "new.json against feature:bm25"
    assert "secret-folder" not in page.html()


def test_headings_go_down_one_step_at_a_time() -> None:
    page = owpc_ltr.report([against(1.0, 0.0), linear(1.0, 0.0, 0.0), curves()]).html()
    levels = [int(tag[1]) for tag, _ in Elements(page).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_anchors_are_there_once() -> None:
    page = Elements(owpc_ltr.report([against(1.0, 0.0), linear(1.0, 0.0, 0.0), curves()]).html())
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    links = [str(attributes["href"])[1:] for attributes in page.named("a")]
    assert links
    assert set(links) <= set(ids)


def test_the_same_results_give_the_same_bytes() -> None:
    parts = against(1.0, 0.0), linear(1.0, 0.0, 0.0)
    assert owpc_ltr.report(parts).html() == owpc_ltr.report(parts).html()


def test_a_page_is_written_whole_and_over_no_input(tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    linear(1.0, 0.0, 0.0).save(model)
    page = owpc_ltr.report(model, out=tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html()
    with pytest.raises(UsageError, match="it is the input"):
        owpc_ltr.report(model, out=model)


def test_what_a_page_has_no_place_for_is_refused() -> None:
    with pytest.raises(UsageError, match="a report has no place for a int"):
        owpc_ltr.report({"a": 1})
    with pytest.raises(BadInput, match="cannot read the model"):
        owpc_ltr.report("none.json")


def test_a_chart_shows_itself_in_a_notebook() -> None:
    bundle = owpc_ltr.report(against(1.0, 0.0)).charts["comparison-all"]._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "var(--" not in bundle["image/svg+xml"]
    assert "better" in bundle["text/plain"]


def test_a_cell_of_several_lines_is_escaped_line_by_line() -> None:
    moved = ExampleDocument(HOSTILE[0], HOSTILE[1], 1, 2, 0.0, ((HOSTILE[2], 1.0),))
    page = owpc_ltr.report(Example("words", "map 0.1 → 0.2", 5, [moved])).html()
    elements = check_harmless(page)
    text = " ".join(elements.text)
    for part in HOSTILE[:3]:
        assert part in text


MORE, LESS = parse_metric("ndcg@10"), parse_metric("pairwise-error")


def comparison(low: float, high: float) -> Comparison:
    middle = (low + high) / 2
    return Comparison(
        n_queries=100, mean_a=0.5 + middle, mean_b=0.5, mean_difference=middle, wins=60, losses=30,
        ties=10, p_permutation=0.0, p_t=0.0, low=low, high=high, detectable=0.01, resamples=10,
        seed=0,
    )  # fmt: skip


SEEN = ResultWarning("seen-queries", "new was trained on these queries", "compare on others")


def figures(
    *pairs: tuple[Metric, Comparison, float], warnings: tuple[ResultWarning, ...] = ()
) -> RankerComparison:
    metrics = tuple(metric for metric, _, _ in pairs)
    means = tuple(
        Measured(metric, 0.5, np.zeros(100), np.nan, drawn=(0.4, 0.6)) for metric in metrics
    )
    return RankerComparison(
        metrics=metrics,
        rankers=tuple(ComparedRanker(name, means) for name in ("new", "old")),
        pairs=tuple(
            ComparedPair("new", "old", str(metric), gain, p, metric.higher_is_better, warnings)
            for metric, gain, p in pairs
        ),
        baseline="old" if pairs else None,
        query_ids=pa.array(["q"] * 100),
        query_texts=None,
        n_queries=100,
        split="all",
        weighted=False,
        unjudged="zero",
    )


def verdict(
    *pairs: tuple[Metric, Comparison, float], warnings: tuple[ResultWarning, ...] = ()
) -> PageVerdict:
    return verdict_of(figures(*pairs, warnings=warnings))


def details(page_verdict: PageVerdict) -> list[str]:
    """What the page says below the sentence."""
    return [
        text
        for style, text in Elements(Page("title", page_verdict, []).html()).paragraphs
        if not style
    ]


ends = st.floats(-1, 1, allow_nan=False)


@given(ends, ends, st.floats(0, 1), st.booleans())
def test_better_is_said_only_where_interval_and_corrected_p_agree(
    first: float, other: float, p: float, more: bool
) -> None:
    low, high = sorted((first, other))
    page_verdict = verdict((MORE if more else LESS, comparison(low, high), p))
    gains = low > 0 if more else high < 0
    losses = high < 0 if more else low > 0
    assert (page_verdict.mood == "better") == (p < 0.05 and gains)
    assert (page_verdict.mood == "worse") == (p < 0.05 and losses)
    assert ("ranks better than" in page_verdict.sentence) == (page_verdict.mood == "better")
    assert "old" in page_verdict.sentence
    assert "95 % interval" in page_verdict.sentence


@given(ends, ends, st.floats(0, 1))
def test_a_ranker_and_its_rival_are_never_both_better(first: float, other: float, p: float) -> None:
    low, high = sorted((first, other))
    pair = ComparedPair("a", "b", "ndcg@10", comparison(low, high), p)
    outcomes = {pair.verdict.outcome, pair.reversed().verdict.outcome}
    assert outcomes in ({"better", "worse"}, {"no significant difference"})
    assert pair.better == pair.reversed().better


def test_a_smaller_error_is_better() -> None:
    assert verdict((LESS, comparison(-0.2, -0.1), 0.01)).mood == "better"
    assert verdict((MORE, comparison(-0.2, -0.1), 0.01)).mood == "worse"


def test_metrics_that_disagree_leave_no_verdict_and_stand_in_the_sentence() -> None:
    page_verdict = verdict((MORE, comparison(0.1, 0.2), 0.01), (LESS, comparison(0.1, 0.2), 0.01))
    assert page_verdict.mood == "cannot tell"
    assert page_verdict.sentence == (
        "Cannot tell: metrics disagree: better by ndcg@10, worse by pairwise-error."
    )


def test_doubts_come_before_every_figure() -> None:
    gain = (MORE, comparison(0.1, 0.2), 0.001)
    assert verdict(gain).mood == "better"
    for pairs in ((gain,), (gain, (LESS, comparison(0.1, 0.2), 0.01))):
        page_verdict = verdict(*pairs, warnings=(SEEN,))
        assert (page_verdict.mood, page_verdict.title) == ("cannot tell", "Cannot tell")
        assert page_verdict.sentence == "Cannot tell: new was trained on these queries."
        assert details(page_verdict)[0] == "To settle it: compare on others."
        assert "ranks better" not in "".join(details(page_verdict))


def test_no_significant_difference_is_not_called_equal() -> None:
    page_verdict = verdict((MORE, comparison(-0.01, 0.03), 0.3))
    assert page_verdict.title == "No significant difference"
    assert page_verdict.sentence.startswith("No significant difference between new and old: ")
    assert any("does not mean that they are equal" in detail for detail in details(page_verdict))


def test_an_interval_above_0_that_the_corrected_test_denies_is_explained() -> None:
    page_verdict = verdict((MORE, comparison(0.0044, 0.0484), 0.06))
    assert page_verdict.mood == "no significant difference"
    assert any("Interval and test disagree" in detail for detail in details(page_verdict))
    assert not any(
        "disagree" in detail for detail in details(verdict((MORE, comparison(0.1, 0.2), 0.01)))
    )


def test_without_a_baseline_nothing_is_said_to_be_better() -> None:
    alone = replace(figures(), metrics=(MORE,))
    page_verdict = verdict_of(alone)
    assert page_verdict.mood == "cannot tell"
    assert "was measured without a baseline" in page_verdict.sentence


def test_rankers_of_which_it_is_known_get_the_verdict_that_they_deserve() -> None:
    page_verdict = verdict_of(comparison_of(against(1.0, 0.0)))
    assert (page_verdict.mood, page_verdict.title) == ("neutral", "Better on judged documents")
    assert (
        "compare-live" in page_verdict.words["live"] or "compare_live" in page_verdict.words["live"]
    )
    of_lists = replace(against(1.0, 0.0), on_judged_documents=False)
    assert verdict_of(comparison_of(of_lists)).mood == "better"
    assert verdict_of(comparison_of(against(0.0, 1.0))).mood == "worse"
