"""The verdict: what the first screen may say, and what it must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.api.report_parts import contest_of
from owpc_ltr.evaluation.significance import Comparison, compare_paired
from owpc_ltr.reporting.contest import Contest, Contestant, Duel, Measure
from owpc_ltr.reporting.verdict import Verdict, verdict_of
from tests.report.samples import against

MORE, LESS = Measure("ndcg@10", "", True), Measure("error", "", False)


def comparison(low: float, high: float) -> Comparison:
    middle = (low + high) / 2
    return Comparison(
        n_queries=100, mean_a=0.5 + middle, mean_b=0.5, mean_difference=middle, wins=60, losses=30,
        ties=10, p_permutation=0.0, p_t=0.0, low=low, high=high, detectable=0.01, resamples=10,
        seed=0,
    )  # fmt: skip


def contest(*duels: tuple[Measure, Comparison, float], seen: bool = False) -> Contest:
    measures = tuple(measure for measure, _, _ in duels)
    means = {measure.name: 0.5 for measure in measures}
    return Contest(
        measures=measures,
        contestants=tuple(Contestant(name, {}, means, {}) for name in ("new", "old")),
        duels=tuple(Duel("new", "old", *duel) for duel in duels),
        baseline="old" if duels else None,
        query_ids=("q",) * 100,
        query_texts=(),
        queries_in_words="100 queries",
        seen=seen,
        corrected_over=len(duels),
    )


def verdict(*duels: tuple[Measure, Comparison, float], seen: bool = False) -> Verdict:
    return verdict_of(contest(*duels, seen=seen))


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
    outcomes = {
        Duel("a", "b", MORE, comparison(low, high), p).outcome,
        Duel("b", "a", MORE, comparison(-high, -low), p).outcome,
    }
    assert outcomes in ({"better", "worse"}, {"not shown"})


def test_a_smaller_error_is_better() -> None:
    assert verdict((LESS, comparison(-0.2, -0.1), 0.01)).mood == "better"
    assert verdict((MORE, comparison(-0.2, -0.1), 0.01)).mood == "worse"


def test_a_metric_that_says_the_opposite_stands_in_the_sentence() -> None:
    told = verdict((MORE, comparison(0.1, 0.2), 0.01), (LESS, comparison(0.1, 0.2), 0.01))
    assert told.mood == "mixed"
    assert "but worse by error" in told.sentence


def test_queries_that_it_learned_from_show_nothing() -> None:
    found = (MORE, comparison(0.1, 0.2), 0.001)
    assert verdict(found).mood == "better"
    told = verdict(found, seen=True)
    assert told.mood == "not shown"
    assert "learned from these very queries" in told.sentence
    # Nor where another metric says the opposite.
    told = verdict(found, (LESS, comparison(0.1, 0.2), 0.01), seen=True)
    assert told.mood == "not shown"
    assert "ranks better" not in told.sentence


def test_a_difference_that_is_not_shown_is_not_called_equal() -> None:
    told = verdict((MORE, comparison(-0.01, 0.03), 0.3))
    assert told.sentence.startswith("new is not shown to be better than old")
    assert any("Not shown does not mean equal" in detail for detail in told.details)


def test_without_a_baseline_nothing_is_said_to_be_better() -> None:
    alone = replace(contest(), measures=(MORE,))
    told = verdict_of(alone)
    assert told.mood == "unknown"
    assert "better than what is there cannot be told" in told.sentence


def test_rankers_of_which_it_is_known_get_the_verdict_that_they_deserve() -> None:
    assert verdict_of(contest_of(against(1.0, 0.0))).mood == "better"
    assert verdict_of(contest_of(against(0.0, 1.0))).mood == "worse"


def test_the_duel_of_equal_rankers_shows_nothing() -> None:
    values = np.linspace(0, 1, 30)
    same = compare_paired(values, values, seed=0)
    assert Duel("a", "b", MORE, same, same.p_permutation).outcome == "not shown"
