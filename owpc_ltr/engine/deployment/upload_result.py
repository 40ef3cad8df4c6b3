"""What an upload tells: the stored model and its proof, its gain, or the refusal without one."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from owpc_ltr.engine.deployment.alias import Alias
from owpc_ltr.engine.deployment.parity import (
    FeatureDrift,
    Parity,
    RankAgreement,
    drift_line,
)
from owpc_ltr.engine.deployment.serving_mode import ServingMode
from owpc_ltr.engine.search.live_evaluation import LiveEvaluation, loser_lines, losers
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.compared_pair import (
    ComparedPair,
    disagreement,
    strength_in_words,
)
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.ranked_lists import TOP
from owpc_ltr.evaluation.significance import Outcome, difference_words
from owpc_ltr.signatures import option_name
from owpc_ltr.text import ShortRepr, wrapped_text

_MAY_BE_SEEN = {"seen-queries", "unknown-training"}
TO_JUDGE = 100
"""How many queries a gate suggests to judge, a day's work: they detect a gain of .28 standard
deviations of the queries' differences with 80 % power."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GateResult(ShortRepr):
    """Whether a model is uploaded, by its comparison with the other one.

    `over` is the other's immutable name. `live` has the live results with both: the comparison
    itself, or evidence for the one on judged documents. `accepted` is the reason to accept
    inconclusive judgments.
    """

    comparison: RankerComparison
    over: str
    live: LiveEvaluation | None = None
    accepted: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the model is better, by conclusive or accepted judgments."""
        if self.accepted is None:
            return self.comparison.verdict().outcome is Outcome.BETTER
        return self.comparison.pairs[0].outcome_of_figures is Outcome.BETTER

    @property
    def gains(self) -> ComparedPair:
        """The pair, with differences that are gains also where lower values are better."""
        pair = self.comparison.pairs[0]
        return pair if pair.higher_is_better else pair.reversed()

    @property
    def to_judge(self) -> tuple[int, int] | None:
        """How many queries, and about how many unjudged documents of both rankers, to judge.

        None where their live results are not known, or all of it is judged.
        """
        if self.live is None:
            return None
        served = zip(self.live.before, self.live.after, self.live.question.queries, strict=True)
        sizes = [
            len({*a.doc_ids[:TOP], *b.doc_ids[:TOP]} - {*query.doc_ids}) for a, b, query in served
        ]
        queries = min(TO_JUDGE, len(sizes))
        return (queries, round(sum(sizes) / len(sizes) * queries)) if any(sizes) else None

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        gains, comparison = self.gains, self.comparison
        powered = gains.prediction_powered
        return {
            "metric": gains.metric,
            "over": self.over,
            "weighted": comparison.weighted,
            "verdict": comparison.verdict().as_dict(),
            "passed": self.passed,
            "split": comparison.split,
            **({} if self.accepted is None else {"accepted_unproven": self.accepted}),
            "comparison": gains.comparison.as_dict(),
            "losers": losers(comparison),
            "cautions": list(comparison.warnings),
            **({} if powered is None else {"powered": powered.as_dict()}),
            **({} if self.live is None else {"live": self.live.as_dict()}),
        }

    def __str__(self) -> str:
        """The verdict, the gain, and what they rest on."""
        accepted = () if self.accepted is None else (f"accepted unproven: {self.accepted}",)
        verdict = str(self.comparison.verdict())
        lines = map(wrapped_text, (verdict, *accepted, gain_line(self)))
        return "\n".join([*lines, *detail_lines(self)])


def gain_line(result: GateResult) -> str:
    """The gain with its interval, its number of queries, and the minimum detectable gain."""
    pair, comparison = result.gains, result.comparison
    one, both, split = pair.comparison, pair.prediction_powered, comparison.split
    by = ", weighted by their importance" if comparison.weighted else ""
    may_be_seen = _MAY_BE_SEEN & {warning.check for warning in pair.warnings}
    how = "cross-validated " if split == "folds" else "held-out "
    queries = f"{'' if may_be_seen else how}queries"
    live = "" if comparison.on_judged_documents else "live "
    of = f"{live}gain in {pair.metric} over '{result.over}'"
    if both is not None:
        mean, alone, proxy = both.by_both, both.by_human, both.by_proxy
        return (
            f"{of}: {mean.mean:+.4f} [{mean.low:+.4f}, {mean.high:+.4f}] on {both.n_human} "
            f"human-judged of {both.n_queries} {queries}{by}, p = {mean.p:.3g}; human "
            f"labels alone {alone.mean:+.4f} [{alone.low:+.4f}, {alone.high:+.4f}], proxy "
            f"labels alone, which are biased, {proxy.mean:+.4f}; {strength_in_words(both)}"
        )
    left_out = ""
    if pair.left_out is not None and pair.as_judged is not None:
        left_out = (
            f", {pair.left_out.mean_difference:+.4f} with unjudged documents left out, "
            f"{pair.as_judged.mean_difference:+.4f} with these as judged ones at their rank"
        )
    independent = "" if one.n_independent is None else f", {one.n_independent} independent"
    corrected = "".join(f" ({line})" for line in comparison.correction(always=False))
    why = disagreement(one, pair.p_holm, split)
    return (
        f"{of}: {difference_words(one)} on {one.n_queries} {queries}{independent}{by}, "
        f"p = {pair.p_holm:.3g}{corrected}{left_out}; "
        f"minimum detectable gain (80 % power): {one.detectable:.4f}"
        f"{why and f'; interval and test disagree: {why}'}"
    )


def detail_lines(result: GateResult) -> list[str]:
    """How much of the live results is judged, warnings, and the queries that lose most."""
    judged = ""
    if result.live is not None:
        before, after = (f"{share:.0%}" for share in result.live.judged)
        judged = (
            f"judged among the first {TOP}: {before} with {result.live.baseline}, {after} with the "
            f"new model; recall of the window: {result.live.recall:.0%}"
        )
    lines = [wrapped_text(text) for text in (judged, *result.comparison.warnings) if text.strip()]
    return [*lines, *loser_lines(result.comparison)]


class NotBetter(Refused):
    """The gate's refusal, with its result."""

    def __init__(self, result: GateResult, command: str = "") -> None:
        """The verdict and its reason; if inconclusive, what to judge, and the `command` for it."""
        self.result = result
        verdict = result.comparison.verdict()
        if verdict.warnings and result.accepted is None:
            super().__init__(f"{verdict}: nothing was uploaded{_settled_by(result, command)}")
            return
        # A warning that was accepted is not the reason.
        outcome = result.comparison.pairs[0].outcome_of_figures
        super().__init__(f"{outcome}: {gain_line(result)}: nothing was uploaded")


def _settled_by(result: GateResult, command: str) -> str:
    if result.to_judge is None:
        return f"; {result.comparison.verdict().warnings[0].advice}"
    queries, documents = result.to_judge
    advice = (
        f"; judge the first {TOP} documents of both rankers for {queries} held-out queries (about "
        f"{documents:,} documents)"
    )
    return f"{advice}: {command}" if command else advice


@dataclass(frozen=True)
class RefusedUpload:
    """The comparison of a model that was not uploaded."""

    gate: GateResult

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        return {"model": None, "gate": self.gate.as_dict()}

    def __str__(self) -> str:
        return "\n".join(detail_lines(self.gate))


@dataclass(frozen=True, repr=False)
class Uploaded(ShortRepr):
    """A model in an engine: its immutable name, its alias, and its proof.

    `gate` is None where no gain was required. `features` is the drift of each since training, the
    furthest first, and `rankings` its effect on rankings: empty where the model remembers no
    features. `serving_mode` says where the model runs and why, if that was a choice.
    `request_bytes` is the size of each search request; None where the LTR plugin or the client has
    the model, so that requests only name it. `search_template` is the name of the search template
    that serves the model, if one does.
    """

    model: str
    alias: Alias
    parity: Parity
    store_kind: str
    gate: GateResult | None = None
    type: str = ""
    features: tuple[FeatureDrift, ...] = ()
    rankings: RankAgreement | None = None
    serving_mode: ServingMode | None = None
    request_bytes: int | None = None
    search_template: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "name": self.alias.name,
            "model": self.model,
            "previous": list(self.alias.previous),
            "challenger": self.alias.challenger,
            "store_kind": self.store_kind,
            "type": self.type,
            "form": self.serving_mode.as_dict() if self.serving_mode else None,
            "request_bytes": self.request_bytes,
            "search_template": self.search_template,
            "parity": self.parity.as_dict(),
            "drift": self.rankings
            and {
                "features": [asdict(feature) for feature in self.features],
                "rankings": asdict(self.rankings),
            },
            "gate": self.gate.as_dict() if self.gate else None,
        }

    def __str__(self) -> str:
        name, gate = self.alias.name, self.gate
        role = f"challenger of the alias '{name}'"
        if self.alias.current == self.model:
            role = f"alias '{name}' switched to it"
        lines = [f"stored {self.model} ({self.store_kind}); {role}"]
        if self.serving_mode is not None and self.serving_mode.words:
            lines.append(self.serving_mode.words)
        if self.request_bytes is not None:
            lines.append(f"search request with the model: {kilobytes(self.request_bytes)}")
        if self.search_template is not None:
            name = self.search_template
            lines.append(f"search template '{name}': owpc-ltr request --model {name} has its call")
        lines += [str(self.parity), drift_line(self.features, self.rankings, "training")]
        lines.append(self._not_measured() if gate is None else str(gate))
        return "\n".join(lines)

    def _not_measured(self) -> str:
        """That nobody has measured whether it ranks better, and the command that does."""
        alias = self.alias
        role = alias.name if alias.current == self.model else f"{alias.name}:challenger"
        store = f" --store {alias.store}" if alias.store else ""
        return (
            "not compared with the query alone or another model: measure live results by owpc-ltr "
            f"compare-live {role}{store} --judgments FILE, or upload with "
            f"{option_name('require_gain')}"
        )


def kilobytes(size: int) -> str:
    """A size in bytes, in words."""
    return f"{math.ceil(size / 1000):,} kB"
