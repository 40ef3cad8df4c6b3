"""What the gate of `upload --require-gain` found, and the error of a model that it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.engine.search.live_evaluation import QUERY_ALONE, LiveEvaluation
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.judgment_checks import TOP
from owpc_ltr.evaluation.prediction_powered import PredictionPowered, strength_in_words
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.evaluation.verdict import Doubt, Outcome, Verdict, decide

TO_JUDGE = 100
"""How many queries a gate asks to have judged: they show a gain of .28 standard deviations of the
queries' differences in 80 % of cases, and are a day's work."""


@dataclass(frozen=True)
class GateResult:
    """The comparison, whose differences are the new model's gains, and the queries that lose most.

    `losers` have `query_id`, `keywords`, and the metric's value with the `new` and the `old` model.
    `cautions` say what is not known of the comparison. Where it is `weighted`, each query counts by
    its importance. With proxy labels, the comparison is by human labels alone, and `powered`, which
    decides, is by both. `live` is what users get from the whole index with both: the comparison
    itself where it is `of_live_lists`, else the evidence for it. `doubts` say why the judgments
    cannot tell who is better; `accepted` is why a model is let in all the same.
    """

    metric: str
    over: str
    comparison: Comparison
    losers: tuple[dict[str, Any], ...]
    cautions: tuple[str, ...] = ()
    weighted: bool = False
    powered: PredictionPowered | None = None
    live: LiveEvaluation | None = None
    of_live_lists: bool = False
    doubts: tuple[Doubt, ...] = ()
    accepted: str | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the new model is better."""
        return self._decide(self.doubts)

    @property
    def passed(self) -> bool:
        """Whether it gets in: it is better, by judgments that can tell or are accepted as proof."""
        doubts = self.doubts if self.accepted is None else ()
        return self._decide(doubts).outcome is Outcome.BETTER

    @property
    def gain(self) -> str:
        """The gain with its interval, on how many queries, and what they could have shown."""
        found, both = self.comparison, self.powered
        by = ", weighted by their importance" if self.weighted else ""
        if both is not None:
            one, alone, proxy = both.powered, both.by_human, both.by_cheap
            return (
                f"{self._of}: {one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}] on {both.n_human} "
                f"human-judged of {both.n_queries} held-out queries{by}, p = {one.p:.3g}; human "
                f"labels alone {alone.mean:+.4f} [{alone.low:+.4f}, {alone.high:+.4f}], proxy "
                f"labels alone, which are biased, {proxy.mean:+.4f}; {strength_in_words(both)}"
            )
        left_out = ""
        if self.of_live_lists and self.live is not None:
            condensed = self.live.measured[0].condensed.mean_difference
            left_out = f", {condensed:+.4f} with unjudged documents left out"
        return (
            f"{self._of}: {found.mean_difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}] on "
            f"{found.n_queries} held-out queries{by}, p = {found.p_permutation:.3g}{left_out}; "
            f"minimum detectable gain (80 % power): {found.detectable:.4f}"
        )

    @property
    def evidence(self) -> str:
        """How much of what users get is judged, with either ranker; empty where it is not known."""
        if self.live is None:
            return ""
        before, after = (f"{share:.0%}" for share in self.live.judged)
        return (
            f"judged among the first {TOP}: {before} with {self.live.names[0]}, {after} with the "
            f"new model; recall of the window: {self.live.recall:.0%}"
        )

    @property
    def of_the_query(self) -> bool:
        """Whether the comparison is with the query alone, without a model."""
        return self.of_live_lists and self.over == QUERY_ALONE

    @property
    def depth(self) -> int:
        """How many documents of either ranker are to be judged."""
        return TOP

    @property
    def to_judge(self) -> tuple[int, int] | None:
        """How many queries, and about how many documents of both rankers, would settle it.

        None where their lists are not known.
        """
        if self.live is None:
            return None
        pairs = zip(self.live.before, self.live.after, strict=True)
        sizes = [len({*a.document_ids[:TOP], *b.document_ids[:TOP]}) for a, b in pairs]
        queries = min(TO_JUDGE, len(sizes))
        return (queries, round(sum(sizes) / len(sizes) * queries)) if any(sizes) else None

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "metric": self.metric,
            "over": self.over,
            "weighted": self.weighted,
            "verdict": self.verdict.as_dict(),
            "passed": self.passed,
            **({} if self.accepted is None else {"accepted_unproven": self.accepted}),
            "comparison": self.comparison.as_dict(),
            "losers": list(self.losers),
            "cautions": list(self.cautions),
            **({} if self.powered is None else {"powered": self.powered.as_dict()}),
            **({} if self.live is None else {"live": self.live.as_dict()}),
        }

    @property
    def _of(self) -> str:
        return (
            f"{'live gain' if self.of_live_lists else 'gain'} in {self.metric} over '{self.over}'"
        )

    def _decide(self, doubts: Sequence[Doubt]) -> Verdict:
        if self.powered is not None:
            both = self.powered.powered
            return decide(both.low, both.high, both.p, doubts)
        found = self.comparison
        return decide(found.low, found.high, found.p_permutation, doubts)


class NotBetter(Refused):
    """The gate's refusal, with what it found."""

    def __init__(self, result: GateResult, command: str = "") -> None:
        """Say the verdict, and why; of a doubtful one, what would settle it, by which `command`."""
        self.result = result
        if result.doubts and result.accepted is None:
            super().__init__(
                f"{result.verdict}: nothing was uploaded{_settled_by(result, command)}"
            )
            return
        # A doubt that was accepted is not the reason.
        outcome = replace(result, doubts=()).verdict.outcome
        super().__init__(f"{outcome}: {result.gain}: nothing was uploaded")


def _settled_by(result: GateResult, command: str) -> str:
    if result.to_judge is None:
        return f"; {result.doubts[0].advice}"
    queries, documents = result.to_judge
    told = (
        f"; judge the first {TOP} documents of both rankers for {queries} held-out queries (about "
        f"{documents:,} documents)"
    )
    return f"{told}: {command}" if command else told
