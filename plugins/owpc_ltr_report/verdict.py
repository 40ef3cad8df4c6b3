"""The verdict: one sentence with its numbers, never greener than the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from owpc_ltr.evaluation.pairs import ComparedPair, disagreements
from owpc_ltr.evaluation.prediction_powered import Estimate, strength_in_words
from owpc_ltr.evaluation.verdict import Outcome, Verdict, over_metrics
from owpc_ltr_report.blocks import PageVerdict, Tile, amount, capital, interval, p_words, signed
from owpc_ltr_report.comparison import ReportComparison


def verdict_of(comparison: ReportComparison) -> PageVerdict:
    """The verdict on the new ranker: with human and proxy labels where there are both."""
    if comparison.main_powered:
        return _with_both_labels(comparison, comparison.main_powered)
    if comparison.main_pairs:
        return _compared(comparison, comparison.main_pairs)
    return _alone(comparison)


def _compared(comparison: ReportComparison, pairs: tuple[ComparedPair, ...]) -> PageVerdict:
    first = pairs[0]
    found = first.comparison
    decision = over_metrics({one.metric: one.verdict for one in pairs})
    means = f"{first.metric} is {amount(found.mean_a)} against {amount(found.mean_b)}"
    sure = f"95 % interval {interval(found.low, found.high)}, {p_words(first.p_holm)}"
    numbers = (
        f"{means}, a difference of {signed(found.mean_difference)} ({sure}, "
        f"{found.n_queries:,} queries)"
    )
    details = (
        f"{first.gained:,} queries get a better ranking, {first.lost:,} a worse "
        f"one, and {found.ties:,} stay as good as they were. Measured on "
        f"{comparison.query_selection}.",
        *_not_significant(first, decision),
        *_others(pairs),
        *(f"{capital(line)}." for line in disagreements(pairs)),
        *_corrected(len(comparison.pairs)),
    )
    return _verdict(first, decision, numbers, details, _tiles(comparison, first))


def _with_both_labels(comparison: ReportComparison, pairs: tuple[ComparedPair, ...]) -> PageVerdict:
    """The verdict by both kinds of labels; proxy labels alone have no influence on it."""
    first = pairs[0]
    found = first.prediction_powered
    assert found is not None  # noqa: S101 - for the type checker
    decision = over_metrics({one.metric: one.verdict for one in pairs})
    numbers = (
        f"{first.metric} differs by {_estimate(found.by_both)}, {p_words(found.p_holm)}, by "
        f"{found.n_human:,} human-labelled of {found.n_queries:,} proxy-labelled queries"
    )
    details = (
        f"Human labels alone say {_estimate(found.by_human)}; proxy labels alone, which are biased "
        f"and decide nothing, {_estimate(found.by_proxy)}.",
        f"{capital(strength_in_words(found))}.",
        *_others(pairs),
        *_corrected(len(comparison.powered)),
    )
    tiles = (
        Tile("human and proxy labels", signed(found.by_both.mean), _ends(found.by_both)),
        Tile("human labels alone", signed(found.by_human.mean), _ends(found.by_human)),
        Tile("proxy labels alone, biased", signed(found.by_proxy.mean), _ends(found.by_proxy)),
    )
    return _verdict(first, decision, numbers, details, tiles)


def _verdict(
    pair: ComparedPair,
    decision: Verdict,
    numbers: str,
    details: Sequence[str],
    tiles: tuple[Tile, ...],
) -> PageVerdict:
    """The sentence by the outcome; where that is unknown, reasons come before all numbers."""
    outcome = decision.outcome
    if outcome is Outcome.CANNOT_TELL:
        advice = "; ".join(dict.fromkeys(doubt.advice for doubt in decision.doubts))
        lines = (f"To settle it: {advice}.", f"The figures alone: {numbers}.", *details)
        return PageVerdict(outcome, f"Cannot tell: {decision.reason}.", lines, tiles)
    claim = f"{pair.a} ranks {outcome} than {pair.b}"
    if outcome is Outcome.NO_DIFFERENCE:
        claim = f"No significant difference between {pair.a} and {pair.b}"
    return PageVerdict(outcome, f"{claim}: {numbers}.", tuple(details), tiles)


def _not_significant(first: ComparedPair, decision: Verdict) -> Iterator[str]:
    found = first.comparison
    if decision.outcome is Outcome.NO_DIFFERENCE:
        yield (
            f"This does not mean that they are equal: the 95 % interval of the true difference is "
            f"{interval(found.low, found.high)}. The minimum detectable "
            f"difference (80 % power) is {amount(found.detectable)}; more judged queries lower it."
        )


def _others(pairs: Sequence[ComparedPair]) -> Iterator[str]:
    """Metrics with another outcome than the first."""
    first, *others = pairs
    for one in others:
        if one.verdict.outcome != first.verdict.outcome:
            yield f"{capital(str(one.verdict))} by {one.metric}."


def _corrected(count: int) -> Iterator[str]:
    if count > 1:
        yield f"p is corrected (Holm) for the {count} comparisons on this page."


def _tiles(comparison: ReportComparison, pair: ComparedPair) -> tuple[Tile, ...]:
    found = pair.comparison
    counted = found.wins + found.losses + found.ties
    return (
        Tile(
            pair.metric,
            f"{amount(found.mean_b)} → {amount(found.mean_a)}",
            f"{comparison.baseline} → {pair.a}",
        ),
        Tile(
            "difference",
            signed(found.mean_difference),
            f"95 % interval {interval(found.low, found.high)}",
        ),
        Tile("queries", f"{pair.gained:,} better, {pair.lost:,} worse", f"of {counted:,}"),
    )


def _alone(comparison: ReportComparison) -> PageVerdict:
    """The verdict without a baseline."""
    one = comparison.new
    figures = ", ".join(f"{name} {amount(mean)}" for name, mean in one.means.items())
    return PageVerdict(
        Outcome.CANNOT_TELL,
        f"Cannot tell: {one.name} was measured without a baseline: {figures}, "
        f"on {len(comparison.query_ids):,} queries.",
        (
            f"Measured on {comparison.query_selection}.",
            "Give a baseline, as in --baseline feature:NAME.",
        ),
        tuple(
            Tile(name, amount(mean), f"95 % interval {interval(*one.intervals[name], plus=False)}")
            for name, mean in one.means.items()
            if name in one.intervals
        ),
    )


def _estimate(one: Estimate) -> str:
    return f"{signed(one.mean)} ({_ends(one)})"


def _ends(one: Estimate) -> str:
    return f"95 % interval {interval(one.low, one.high)}"
