"""What the gate of `upload --require-gain` found, and its no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.prediction_powered import PredictionPowered, strength_in_words
from owpc_ltr.evaluation.significance import Comparison


@dataclass(frozen=True)
class GateResult:
    """The comparison, whose differences are the new model's gains, and the queries that lose most.

    `losers` have `query_id`, `keywords`, and the metric's value with the `new` and the `old` model.
    `cautions` say what is not known of the comparison. Where it is `weighted`, each query counts by
    its importance. With cheap judgments, the comparison is by people alone, of the sample that they
    judged, and `powered`, which decides, is by both.
    """

    metric: str
    over: str
    comparison: Comparison
    losers: tuple[dict[str, Any], ...]
    cautions: tuple[str, ...] = ()
    weighted: bool = False
    powered: PredictionPowered | None = None

    @property
    def passed(self) -> bool:
        """Whether the whole 95 % interval of the gain is above 0."""
        decides = self.comparison if self.powered is None else self.powered.powered
        return decides.low > 0

    @property
    def by_importance(self) -> str:
        """What is said after a number of queries: by what they count, where not all alike."""
        return ", weighted by their importance" if self.weighted else ""

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "metric": self.metric,
            "over": self.over,
            "weighted": self.weighted,
            "passed": self.passed,
            "comparison": self.comparison.as_dict(),
            "losers": list(self.losers),
            "cautions": list(self.cautions),
            **({} if self.powered is None else {"powered": self.powered.as_dict()}),
        }


class NotBetter(Refused):
    """The gate's no, with what it found."""

    def __init__(self, result: GateResult) -> None:
        """Say the interval, and what the queries could have shown at all."""
        self.result = result
        if result.powered is not None:
            super().__init__(_not_by_both(result, result.powered))
            return
        found = result.comparison
        super().__init__(
            f"no gain in {result.metric} over '{result.over}' is shown: "
            f"{found.mean_difference:+.4f} with a 95 % interval of [{found.low:+.4f}, "
            f"{found.high:+.4f}] on {found.n_queries} held-out queries"
            f"{result.by_importance} (p = {found.p_permutation:.3g}; so many show a gain of "
            f"{found.detectable:.4f} four times in five): nothing was uploaded"
        )


def _not_by_both(result: GateResult, found: PredictionPowered) -> str:
    """Why people's judgments, with the cheap ones, do not let a model in."""
    one, alone, cheap = found.powered, found.by_human, found.by_cheap
    return (
        f"no gain in {result.metric} over '{result.over}' is shown: {one.mean:+.4f} with a 95 % "
        f"interval of [{one.low:+.4f}, {one.high:+.4f}] on {found.n_human} human-judged of "
        f"{found.n_queries} held-out queries{result.by_importance} (people alone {alone.mean:+.4f} "
        f"[{alone.low:+.4f}, {alone.high:+.4f}]; the cheap judge alone, who is biased, "
        f"{cheap.mean:+.4f}; {strength_in_words(found)}): nothing was uploaded"
    )
