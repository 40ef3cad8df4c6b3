"""A pair of rankers, compared by one metric: its figures, and the verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.evaluation.prediction_powered import PredictionPowered
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Comparison, Outcome, ResultWarning, Verdict
from owpc_ltr.plain_text import ShortRepr
from owpc_ltr.signatures import in_python


@dataclass(frozen=True, repr=False)
class ComparedPair(ShortRepr):
    """Two rankers by one metric; differences are a − b.

    `p_holm` is the permutation test's p, corrected over all pairs and metrics of the result (Holm
    1979). `doubts` are those about the judgments; the sample's own are the comparison's. Where
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
    doubts: tuple[ResultWarning, ...] = ()
    prediction_powered: PredictionPowered | None = None
    left_out: Comparison | None = None
    as_judged: Comparison | None = None
    smallest_gain: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """The verdict on ranker a."""
        higher, both = self.higher_is_better, self.prediction_powered
        if both is not None:
            return both.verdict(
                self.doubts, higher_is_better=higher, smallest_gain=self.smallest_gain
            )
        return self.comparison.verdict(
            self.p_holm, self.doubts, higher_is_better=higher, smallest_gain=self.smallest_gain
        )

    def with_doubts(self, doubts: Sequence[ResultWarning]) -> ComparedPair:
        """The same figures, and further doubts about them."""
        return replace(self, doubts=(*self.doubts, *doubts))

    @property
    def without_doubts(self) -> ComparedPair:
        """The same figures, whatever makes them doubtful."""
        both = self.prediction_powered
        return replace(
            self,
            doubts=(),
            comparison=replace(self.comparison, doubts=()),
            prediction_powered=None if both is None else replace(both, doubts=()),
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
            left_out=None if self.left_out is None else self.left_out.reversed(),
            as_judged=None if self.as_judged is None else self.as_judged.reversed(),
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


JUDGED = "on judged documents"
"""What a verdict is of, where rankers were shown nothing else."""


def verdict_line(verdict: Verdict, a: str, b: str, metric: str, *, judged: bool = False) -> str:
    """The verdict on ranker a against b, by the metric that decides.

    `judged`: the rankers were shown judged documents alone, which users may never see.
    """
    pair = f"{a} against {b} by {metric}"
    if verdict.doubts:
        return f"{verdict.outcome}: {'; '.join(one.line for one in verdict.doubts)} ({pair})"
    claims = verdict.outcome is not Outcome.NO_DIFFERENCE
    return f"{verdict.outcome}{f' {JUDGED}' if judged and claims else ''}: {pair}"


def measured_live_by(names: Sequence[str]) -> str:
    """What measures the results that users get, in the words of the caller."""
    if in_python():
        return "measure what users get: cluster.compare_live([…], judgments=…, query_template=…)"
    rankers = " ".join(names)
    return (
        f"measure what users get: owpc-ltr compare-live {rankers} --judgments FILE "
        "--query-template FILE"
    )


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
        return "judge more queries, or count the training queries, too (`train(…, folds=5)`)"
    return "judge more queries, or count the training queries, too (train --folds 5)"


def corrected_over(count: int, looks: int = 0, split: str = "") -> str:
    """Over how many comparisons p is corrected; `looks` were made on these queries before."""
    doubled = "; p is doubled, as models of folds stand for the model" if split == "folds" else ""
    if looks:
        before = f"{looks} earlier {'comparison' if looks == 1 else 'comparisons'}"
        return f"p corrected over {count} comparisons (Holm) and {before} on these queries{doubled}"
    told = f"p corrected over {count} comparisons (Holm)" if count > 1 else "one comparison"
    return f"{told}{doubled}"


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
