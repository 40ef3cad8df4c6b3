"""The verdict: what the first screen may say, and what it must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_report.blocks import PageVerdict
from owpc_ltr_report.comparison import RankerFigures, ReportComparison
from owpc_ltr_report.material import evaluation_figures
from owpc_ltr_report.verdict import verdict_of

from owpc_ltr.evaluation.pairs import ComparedPair
from owpc_ltr.evaluation.significance import Comparison, compare_paired
from owpc_ltr.evaluation.verdict import Doubt
from owpc_ltr.metrics import Metric, parse_metric
from tests.report.samples import against

MORE, LESS = parse_metric("ndcg@10"), parse_metric("pairwise-error")


def comparison(low: float, high: float) -> Comparison:
    middle = (low + high) / 2
    return Comparison(
        n_queries=100, mean_a=0.5 + middle, mean_b=0.5, mean_difference=middle, wins=60, losses=30,
        ties=10, p_permutation=0.0, p_t=0.0, low=low, high=high, detectable=0.01, resamples=10,
        seed=0,
    )  # fmt: skip


SEEN = Doubt("seen-queries", "new was trained on these queries", "compare on others")


def figures(
    *pairs: tuple[Metric, Comparison, float], doubts: tuple[Doubt, ...] = ()
) -> ReportComparison:
    metrics = tuple(metric for metric, _, _ in pairs)
    means = {str(metric): 0.5 for metric in metrics}
    return ReportComparison(
        metrics=metrics,
        rankers=tuple(RankerFigures(name, {}, means, {}) for name in ("new", "old")),
        pairs=tuple(
            ComparedPair("new", "old", str(one), found, p, one.higher_is_better, doubts)
            for one, found, p in pairs
        ),
        baseline="old" if pairs else None,
        query_ids=("q",) * 100,
        query_texts=(),
        query_selection="100 queries",
    )


def verdict(
    *pairs: tuple[Metric, Comparison, float], doubts: tuple[Doubt, ...] = ()
) -> PageVerdict:
    return verdict_of(figures(*pairs, doubts=doubts))


ends = st.floats(-1, 1, allow_nan=False)


@given(ends, ends, st.floats(0, 1), st.booleans())
def test_better_is_said_only_where_interval_and_corrected_p_agree(
    one: float, other: float, p: float, more: bool
) -> None:
    low, high = sorted((one, other))
    told = verdict((MORE if more else LESS, comparison(low, high), p))
    gains = low > 0 if more else high < 0
    losses = high < 0 if more else low > 0
    assert (told.mood == "better") == (p < 0.05 and gains)
    assert (told.mood == "worse") == (p < 0.05 and losses)
    assert ("ranks better than" in told.sentence) == (told.mood == "better")
    assert "old" in told.sentence
    assert "95 % interval" in told.sentence


@given(ends, ends, st.floats(0, 1))
def test_a_ranker_and_its_rival_are_never_both_better(one: float, other: float, p: float) -> None:
    low, high = sorted((one, other))
    pair = ComparedPair("a", "b", "ndcg@10", comparison(low, high), p)
    outcomes = {pair.verdict.outcome, pair.reversed().verdict.outcome}
    assert outcomes in ({"better", "worse"}, {"no significant difference"})
    assert pair.better == pair.reversed().better


def test_a_smaller_error_is_better() -> None:
    assert verdict((LESS, comparison(-0.2, -0.1), 0.01)).mood == "better"
    assert verdict((MORE, comparison(-0.2, -0.1), 0.01)).mood == "worse"


def test_metrics_that_disagree_leave_no_verdict_and_stand_in_the_sentence() -> None:
    told = verdict((MORE, comparison(0.1, 0.2), 0.01), (LESS, comparison(0.1, 0.2), 0.01))
    assert told.mood == "cannot tell"
    assert told.sentence == (
        "Cannot tell: metrics disagree: better by ndcg@10, worse by pairwise-error."
    )


def test_doubts_come_before_every_figure() -> None:
    found = (MORE, comparison(0.1, 0.2), 0.001)
    assert verdict(found).mood == "better"
    for pairs in ((found,), (found, (LESS, comparison(0.1, 0.2), 0.01))):
        told = verdict(*pairs, doubts=(SEEN,))
        assert (told.mood, told.title) == ("cannot tell", "Cannot tell")
        assert told.sentence == "Cannot tell: new was trained on these queries."
        assert told.details[0] == "To settle it: compare on others."
        assert "ranks better" not in "".join(told.details)


def test_no_significant_difference_is_not_called_equal() -> None:
    told = verdict((MORE, comparison(-0.01, 0.03), 0.3))
    assert told.title == "No significant difference"
    assert told.sentence.startswith("No significant difference between new and old: ")
    assert any("does not mean that they are equal" in detail for detail in told.details)


def test_an_interval_above_0_that_the_corrected_test_denies_is_explained() -> None:
    told = verdict((MORE, comparison(0.0044, 0.0484), 0.06))
    assert told.mood == "no significant difference"
    assert any("Interval and test disagree" in detail for detail in told.details)
    assert not any("disagree" in one for one in verdict((MORE, comparison(0.1, 0.2), 0.01)).details)


def test_without_a_baseline_nothing_is_said_to_be_better() -> None:
    alone = replace(figures(), metrics=(MORE,))
    told = verdict_of(alone)
    assert told.mood == "cannot tell"
    assert "was measured without a baseline" in told.sentence


def test_rankers_of_which_it_is_known_get_the_verdict_that_they_deserve() -> None:
    assert verdict_of(evaluation_figures(against(1.0, 0.0))).mood == "better"
    assert verdict_of(evaluation_figures(against(0.0, 1.0))).mood == "worse"


def test_equal_rankers_have_no_significant_difference() -> None:
    values = np.linspace(0, 1, 30)
    same = compare_paired(values, values, seed=0)
    pair = ComparedPair("a", "b", "ndcg@10", same, same.p_permutation)
    assert pair.verdict.outcome == "no significant difference"
