"""A pair of rankers, compared by one metric: its figures in tables, and the verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.evaluation.prediction_powered import Estimate, PredictionPowered
from owpc_ltr.evaluation.significance import (
    LEVEL,
    Comparison,
    Outcome,
    ResultWarning,
    Verdict,
    decide,
)
from owpc_ltr.text import ShortRepr


@dataclass(frozen=True, repr=False)
class ComparedPair(ShortRepr):
    """Two rankers by one metric; differences are a − b.

    `p_holm` is the permutation test's p, corrected over all pairs and metrics of the result (Holm
    1979). `warnings` are those about the judgments; the sample's own are the comparison's. Where
    there are human labels of a sample and proxy labels of all queries, the comparison is by the
    human labels alone, and the prediction-powered figures decide. Where documents are unjudged,
    `left_out` is the comparison without them, `as_judged` that in which they are as good as judged
    ones at their rank. Ranker a is better only by more than the `smallest_gain`.
    """

    a: str
    b: str
    metric: str
    comparison: Comparison
    p_holm: float
    higher_is_better: bool = True
    warnings: tuple[ResultWarning, ...] = ()
    prediction_powered: PredictionPowered | None = None
    left_out: Comparison | None = None
    as_judged: Comparison | None = None
    smallest_gain: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """The verdict on ranker a."""
        both = self.prediction_powered
        figures: Comparison | Estimate = self.comparison if both is None else both.by_both
        p, own = (self.p_holm, self.comparison) if both is None else (both.p_holm, both)
        return decide(
            figures.low,
            figures.high,
            p,
            (*self.warnings, *own.warnings),
            higher_is_better=self.higher_is_better,
            smallest_gain=self.smallest_gain,
        )

    @property
    def better(self) -> str | None:
        """The better ranker; None without a difference, or where it cannot be told."""
        return {Outcome.BETTER: self.a, Outcome.WORSE: self.b}.get(self.verdict.outcome)

    @property
    def by_human_labels(self) -> ComparedPair:
        """The same pair by human labels alone; a pair without proxy labels itself."""
        both = self.prediction_powered
        if both is None:
            return self
        return replace(self, warnings=(*self.warnings, *both.warnings), prediction_powered=None)

    @property
    def gained(self) -> int:
        """How many queries a ranks better than b."""
        return self.comparison.wins if self.higher_is_better else self.comparison.losses

    @property
    def lost(self) -> int:
        """How many queries a ranks worse than b."""
        return self.comparison.losses if self.higher_is_better else self.comparison.wins

    def reversed(self) -> ComparedPair:
        """The same pair with ranker b first."""
        parts = ("comparison", "left_out", "as_judged", "prediction_powered")
        figures = {part: getattr(self, part) for part in parts}
        turned: dict[str, Any] = {
            part: comparison and comparison.reversed() for part, comparison in figures.items()
        }
        return replace(self, a=self.b, b=self.a, **turned)

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON: of the comparison, or the prediction-powered ones."""
        both = self.prediction_powered
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            **(self.comparison.as_dict() if both is None else both.as_dict()),
            "p_holm": self.p_holm if both is None else both.p_holm,
            "verdict": self.verdict.as_dict(),
            "better": self.better,
        }


JUDGED = "on judged documents"

"""What a verdict is of, where rankers were shown nothing else."""


ONCE = "each query counts once"
"""What a verdict is of, where nothing tells how often queries are asked."""


def verdict_line(
    verdict: Verdict,
    a: str,
    b: str,
    metric: str,
    *,
    judged: bool = False,
    weighted: bool = False,
    smallest_gain: float = 0.0,
) -> str:
    """The verdict on ranker a against b, by the metric that decides.

    `judged`: the rankers were shown judged documents alone, which users may never see. `weighted`:
    queries count as often as they are asked.
    """
    pair = f"{a} against {b} by {metric}"
    if verdict.warnings:
        return (
            f"{verdict.outcome}: {'; '.join(warning.line for warning in verdict.warnings)} ({pair})"
        )
    words = outcome_in_words(verdict, smallest_gain)
    if verdict.outcome is Outcome.NO_DIFFERENCE:
        return f"{words}: {pair}"
    once = "" if weighted else f", {ONCE}"
    return f"{words}{f' {JUDGED}' if judged else ''}: {pair}{once}"


def outcome_in_words(verdict: Verdict, smallest_gain: float) -> str:
    """The outcome; a significant gain that may be smaller than the smallest is no "difference"."""
    if verdict.outcome is Outcome.NO_DIFFERENCE and smallest_gain:
        return f"no significant gain above {smallest_gain:g}"
    return str(verdict.outcome)


def measured_live_by(names: Sequence[str]) -> str:
    """The call that measures live results."""
    call = f"cluster.compare_live({list(names)}, judgments=…, query_template=…)"
    return f"measure what users get: `{call}`"


def verdict_lines(pairs: Sequence[ComparedPair]) -> list[str]:
    """The verdict on each pair of rankers, a line each: metrics of one outcome stand together."""
    by_names: dict[str, dict[str, list[str]]] = {}
    for pair, words in zip(pairs, outcomes_of(pairs), strict=True):
        outcomes = by_names.setdefault(f"{pair.a} against {pair.b}", {})
        outcomes.setdefault(words, []).append(pair.metric)
    lines: dict[str, list[str]] = {}
    for names, outcomes in by_names.items():
        line = "; ".join(f"by {_listed(metrics)} {words}" for words, metrics in outcomes.items())
        lines.setdefault(line, []).append(names)
    return [f"{', '.join(names)}: {line}" for line, names in lines.items()]


def outcomes_of(pairs: Sequence[ComparedPair]) -> list[str]:
    """The outcome of each pair, with its reason where that differs from pair to pair.

    A reason that is the same for all stands in the first line of the comparison.
    """
    shared = len({pair.verdict.reason for pair in pairs}) == 1
    return [
        outcome_in_words(pair.verdict, pair.smallest_gain) if shared else str(pair.verdict)
        for pair in pairs
    ]


def disagreements(pairs: Sequence[ComparedPair], split: str = "all") -> list[str]:
    """A line for each pair whose interval and corrected test disagree, with the reason.

    `split` says which queries they are.
    """
    return [
        f"interval and test disagree for {pair.a} − {pair.b} in {pair.metric}, and a difference "
        f"needs both: {why}"
        for pair in pairs
        if (why := disagreement(pair.comparison, pair.p_holm, split))
    ]


SMALL_GAIN = 0.002

"""A gain below it is real, and no user sees it."""


def small_gain_lines(pairs: Sequence[ComparedPair]) -> list[str]:
    """A line for each pair whose difference is significant, and too small to matter."""
    return [
        f"{pair.a} against {pair.b}: a difference of {pair.comparison.mean_difference:+.4f} in "
        f"{pair.metric} is below {SMALL_GAIN}, which users hardly see"
        for pair in pairs
        if pair.better is not None and abs(pair.comparison.mean_difference) < SMALL_GAIN
    ]


def disagreement(pair: Comparison, p: float, split: str = "all") -> str:
    """Why interval and test, whose p is corrected, disagree; empty where they agree."""
    if (p < LEVEL) != pair.includes_zero:
        return ""
    if pair.only_floor:
        return _floor_line(pair, split)
    if pair.includes_zero and pair.p_t < LEVEL:
        return "the test assumes symmetric differences, the interval allows for skewed ones"
    if pair.includes_zero:
        return (
            f"the differences vary too much for the interval, as for a t-test (p = {pair.p_t:.4f})"
        )
    if pair.p_permutation < LEVEL:
        return (
            f"the interval is of its pair alone, p = {pair.p_permutation:.4f} is {p:.4f} when "
            "corrected for all comparisons: compare fewer rankers or metrics"
        )
    return f"p of the permutation test is {pair.p_permutation:.4f} even without correction"


def _floor_line(pair: Comparison, split: str) -> str:
    """What so few queries cannot show, how many could, and how to get these."""
    n, mean = pair.n_queries, pair.mean_difference
    floor = mean - pair.low if mean > 0 else pair.high - mean
    # Rounded: 15.999… queries are 16, which are still too few.
    enough = int(round(n * floor / abs(mean), 9)) + 1
    more = ""
    if split == "test":
        more = ", or count the training queries, too: `train(data, folds=5)`"
    return (
        f"{n:,} queries cannot show a difference below {floor:.4f} ({n * floor:.3g} / queries): at "
        f"{mean:+.4f} it takes {enough:,} or more: judge more queries{more}"
    )


def corrected_over(count: int, split: str = "", earlier: str = "") -> str:
    """Over how many comparisons p is corrected, and for which `earlier` ones."""
    parts = [f"over {count} comparisons (Holm)"] if count > 1 else []
    parts += [f"for {earlier}"] if earlier else []
    words = f"p corrected {' and '.join(parts)}" if parts else "one comparison"
    doubled = "; p is doubled, as models of folds stand for the model" if split == "folds" else ""
    return f"{words}{doubled}"


def _listed(names: Sequence[str]) -> str:
    """As in "map, mrr and ndcg@10"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def strength_in_words(figures: PredictionPowered) -> str:
    """How much proxy labels help, and how many more human labels would be enough."""
    strength = "λ = 0: the proxy labels do not help"
    if figures.strength:
        worth = f"{figures.n_worth:,.0f} human-labelled queries"
        strength = f"λ = {figures.strength:.2f}, worth {worth}"
    if figures.n_more is None:
        more = "human labels of all these queries would not be enough at this spread"
    elif figures.n_more == 0:
        more = "no more human labels are needed"
    else:
        more = f"some {figures.n_more:,} more human-labelled queries would be enough at this spread"
    return f"{strength}; {more}"
