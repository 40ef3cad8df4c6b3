"""A pair of rankers, compared by one metric: its figures, and the verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.evaluation.prediction_powered import PredictionPowered
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Comparison, Doubt, Outcome, Verdict
from owpc_ltr.plain_text import ShortRepr
from owpc_ltr.signatures import in_python


@dataclass(frozen=True, repr=False)
class ComparedPair(ShortRepr):
    """Two rankers by one metric; differences are a − b.

    `p_holm` is the permutation test's p, corrected over all pairs and metrics of the result (Holm
    1979). `doubts` are those about the judgments; the sample's own are the comparison's. Where
    there are human labels of a sample and proxy labels of all queries, the comparison is by the
    human labels alone, and the prediction-powered figures decide.
    """

    a: str
    b: str
    metric: str
    comparison: Comparison
    p_holm: float
    higher_is_better: bool = True
    doubts: tuple[Doubt, ...] = ()
    prediction_powered: PredictionPowered | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict on ranker a."""
        higher, both = self.higher_is_better, self.prediction_powered
        if both is not None:
            return both.verdict(self.doubts, higher_is_better=higher)
        return self.comparison.verdict(self.p_holm, self.doubts, higher_is_better=higher)

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
        return replace(self, doubts=(*self.doubts, *both.doubts), prediction_powered=None)

    @property
    def tests_disagree(self) -> bool:
        """Whether interval and corrected test disagree: one of them alone shows a difference."""
        return (self.p_holm < LEVEL) == self.comparison.includes_zero

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
        both = self.prediction_powered
        return replace(
            self,
            a=self.b,
            b=self.a,
            comparison=self.comparison.reversed(),
            prediction_powered=None if both is None else both.reversed(),
        )

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


def verdict_line(verdict: Verdict, a: str, b: str, metric: str) -> str:
    """The verdict on ranker a against b, by the metric that decides."""
    pair = f"{a} against {b} by {metric}"
    if verdict.doubts:
        return f"{verdict.outcome}: {'; '.join(one.line for one in verdict.doubts)} ({pair})"
    return f"{verdict.outcome}: {pair}"


def verdict_lines(pairs: Sequence[ComparedPair]) -> list[str]:
    """The verdict on each pair of rankers, a line each: metrics of one outcome stand together."""
    told: dict[str, dict[str, list[str]]] = {}
    for pair, words in zip(pairs, outcomes_of(pairs), strict=True):
        outcomes = told.setdefault(f"{pair.a} against {pair.b}", {})
        outcomes.setdefault(words, []).append(pair.metric)
    lines: dict[str, list[str]] = {}
    for names, outcomes in told.items():
        line = "; ".join(f"by {_listed(metrics)} {words}" for words, metrics in outcomes.items())
        lines.setdefault(line, []).append(names)
    return [f"{', '.join(names)}: {line}" for line, names in lines.items()]


def outcomes_of(pairs: Sequence[ComparedPair]) -> list[str]:
    """The outcome of each pair, with its reason where that differs from pair to pair.

    A reason that is the same for all stands in the first line of the comparison.
    """
    shared = len({pair.verdict.reason for pair in pairs}) == 1
    return [str(pair.verdict.outcome if shared else pair.verdict) for pair in pairs]


def disagreements(pairs: Sequence[ComparedPair], split: str = "all") -> list[str]:
    """A line for each pair of whose difference interval and corrected test disagree, with why.

    `split` says which queries they are.
    """
    return [
        f"interval and test disagree for {pair.a} − {pair.b} in {pair.metric}, and a difference "
        f"needs both: {disagreement(pair.comparison, pair.p_holm, split)}"
        for pair in pairs
        if pair.tests_disagree
    ]


def disagreement(found: Comparison, p: float, split: str = "all") -> str:
    """Why interval and test, whose p is corrected, disagree; empty where they agree."""
    if (p < LEVEL) != found.includes_zero:
        return ""
    if found.only_floor:
        return _floor_line(found, split)
    if found.includes_zero and found.p_t < LEVEL:
        return "the test assumes symmetric differences, the interval allows for skewed ones"
    if found.includes_zero:
        return (
            f"the differences vary too much for the interval, as for a t-test (p = {found.p_t:.4f})"
        )
    if found.p_permutation < LEVEL:
        return (
            f"the interval is of its pair alone, p = {found.p_permutation:.4f} is {p:.4f} when "
            "corrected for all comparisons: compare fewer rankers or metrics"
        )
    return f"p of the permutation test is {found.p_permutation:.4f} even without correction"


def _floor_line(found: Comparison, split: str) -> str:
    """What so few queries cannot show, and how many could."""
    n, mean = found.n_queries, found.mean_difference
    floor = mean - found.low if mean > 0 else found.high - mean
    # Rounded: 15.999… queries are 16, which are still too few.
    enough = int(round(n * floor / abs(mean), 9)) + 1
    return (
        f"{n:,} queries cannot show a difference below {floor:.4f} ({n * floor:.3g} / queries): at "
        f"{mean:+.4f} it takes {enough:,} or more: {more_queries(held_out=split == 'test')}"
    )


def more_queries(*, held_out: bool) -> str:
    """How to compare on more queries, in the words of the caller."""
    if not held_out:
        return "judge more queries"
    if in_python():
        folds = "compare models of all folds (`data=[…]`)"
        return f"judge more queries, hold out more (`train(…, test_share=0.4)`), or {folds}"
    return "judge more queries, or hold out more (train --test-share 0.4)"


def corrected_over(count: int) -> str:
    """Over how many comparisons p is corrected."""
    return f"p corrected over {count} comparisons (Holm)" if count > 1 else "one comparison"


def detectable_line(pairs: Sequence[ComparedPair]) -> str:
    """How large a true difference would probably be found, by metric."""
    sizes: dict[str, list[float]] = {}
    for pair in pairs:
        sizes.setdefault(pair.metric, []).append(pair.comparison.detectable)
    parts = [f"{metric} {_range(of_pairs)}" for metric, of_pairs in sizes.items()]
    return f"minimum detectable difference (80 % power, each pair alone): {'; '.join(parts)}"


def difference_of(pair: ComparedPair) -> str:
    """The mean difference and its interval."""
    one = pair.comparison
    return f"{one.mean_difference:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"


def wins_ties_losses(pair: ComparedPair) -> str:
    """How many queries the first ranker wins, draws and loses."""
    return f"{pair.gained}/{pair.comparison.ties}/{pair.lost}"


def _range(sizes: list[float]) -> str:
    """Sizes that differ from pair to pair."""
    low, high = f"{min(sizes):.4f}", f"{max(sizes):.4f}"
    return low if low == high else f"{low} to {high}, by pair"


def _listed(names: Sequence[str]) -> str:
    """As in "map, mrr and ndcg@10"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
