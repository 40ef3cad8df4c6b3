"""What `fuse` found: whether learned weights are better than the best leg, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.engine.legs import Legs
from owpc_ltr.evaluation.compared_pair import disagreement
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.significance import Comparison, Outcome, Verdict
from owpc_ltr.fusion.evaluation import LEARNED, LoggedLegs, Optimism
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.plain_text import ShortRepr, text_table, wrapped_text

_HEADERS = ("RANKER", "MEAN", "LOW", "HIGH", "DIFF", "LOW", "HIGH", "P")


@dataclass(frozen=True, repr=False)
class CandidateRecall(ShortRepr):
    """The mean share of a query's relevant documents that is found.

    `legs` has each leg within its window, `union` all legs together, `request` the one request that
    the model rescores. `unreachable` of the `relevant` documents are in none: no fusion brings
    them.
    """

    legs: Mapping[str, float]
    union: float
    request: float
    relevant: int
    unreachable: int

    def as_dict(self) -> dict[str, Any]:
        """The shares and counts as JSON."""
        return {**vars(self), "legs": dict(self.legs)}


@dataclass(frozen=True, eq=False, repr=False)
class Fusion(ShortRepr):
    """One learned weight a leg, what it is worth on other queries, and the verdict.

    `decision` compares the learned weights, each query scored by a model of others, with the best
    leg: the one comparison that decides. `comparison` has every ranker against that leg, corrected
    over all of them. `model` is learned from all queries, and ranks what `legs.query_template`
    brings.
    """

    model: LinearModel
    legs: Legs
    logged: LoggedLegs = field(repr=False)
    comparison: RankerComparison
    decision: Comparison
    verdict: Verdict
    best_leg: str
    best_engine: str
    """What the best engine setting is called in the comparison."""
    engine_setting: str
    """Which one that is in most folds."""
    recall: CandidateRecall
    optimism: Optimism
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> RankingDataset:
        """The candidates, with a column for each leg."""
        return self.logged.data

    @property
    def on_all_queries(self) -> Vector:
        """The metric of each query with `model`, which has learned from them.

        A live evaluation of the uploaded model on the same queries has these values.
        """
        scores = self.model.score(self.data.features)
        return self.logged.values(scores, self.logged.served, self.comparison.metrics[0])

    @property
    def metric(self) -> str:
        """By what is measured."""
        return str(self.comparison.metrics[0])

    @property
    def is_better(self) -> bool:
        """Whether the learned weights are better than the best leg."""
        return self.verdict.outcome == Outcome.BETTER

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each leg's score."""
        return dict(zip(self.model.feature_names, self.model.weights.tolist(), strict=True))

    @property
    def shares(self) -> dict[str, float]:
        """The share of each leg in the spread of the model's scores."""
        spread = np.nanstd(np.nan_to_num(self.data.features), axis=0) * np.abs(self.model.weights)
        shares = spread / max(float(spread.sum()), 1e-300)
        return dict(zip(self.model.feature_names, shares.tolist(), strict=True))

    @property
    def headline(self) -> str:
        """The verdict in a line: better, or why not to fuse."""
        found = self.decision
        figures = f"{found.mean_difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
        over = f"{self.best_leg} alone by {self.metric}"
        if self.verdict.outcome == Outcome.BETTER:
            return f"better: learned weights against {over}, {figures}"
        if self.verdict.outcome == Outcome.WORSE:
            return f"do not fuse: learned weights are worse than {over}, {figures}"
        if self.verdict.outcome == Outcome.CANNOT_TELL:
            return f"do not fuse: cannot tell whether it is better than {over}: " + "; ".join(
                doubt.line for doubt in self.verdict.doubts
            )
        why = disagreement(found, found.p_permutation)
        return (
            f"do not fuse: no significant gain over {over}, {figures}; {found.n_queries} queries "
            f"show a gain of {found.detectable:.4f} in 80 % of cases, and no smaller one"
            f"{why and f'; interval and test disagree: {why}'}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Every figure but those of single queries, as JSON."""
        return {
            "verdict": self.verdict.as_dict(),
            "headline": self.headline,
            "metric": self.metric,
            "baseline": self.best_leg,
            "decision": self.decision.as_dict(),
            "weights": self.weights,
            "recall": self.recall.as_dict(),
            "engine_setting": self.engine_setting,
            "optimism": vars(self.optimism),
            "comparison": self.comparison.as_dict(),
            "query_template": self.legs.query_template,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """The verdict first, then every ranker, the candidates, and what a selection would add."""
        table = text_table(_HEADERS, list(_rows(self)))
        return "\n".join([
            wrapped_text(self.headline), wrapped_text(_title(self)), table,
            *map(wrapped_text, _facts(self)),
        ])  # fmt: skip

    def _repr_html_(self) -> str:
        """The verdict, the table of rankers, and what limits them."""
        from owpc_ltr.data.html import block, line, table

        rows = [[f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row]
                for row in _rows(self)]  # fmt: skip
        return block(self.headline, line(_title(self)), table(_HEADERS, rows),
                     *map(line, _facts(self)))  # fmt: skip


def _title(found: Fusion) -> str:
    return (
        f"{found.comparison.n_queries:,} queries, {found.legs.window} documents a leg; learned and "
        f"chosen on other queries; differences from {found.best_leg}"
    )


def _rows(found: Fusion) -> Iterator[tuple[Any, ...]]:
    pairs = {pair.a: pair for pair in found.comparison.pairs}
    for ranker in found.comparison.rankers:
        mean = ranker.means[found.metric]
        pair = pairs.get(ranker.name)
        if pair is None:
            yield ranker.name, mean.mean, mean.low, mean.high, "", "", "", ""
            continue
        one = pair.comparison
        p = one.p_permutation if ranker.name == LEARNED else pair.p_holm
        yield (
            *(ranker.name, mean.mean, mean.low, mean.high),
            *(f"{value:+.4f}" for value in (one.mean_difference, one.low, one.high)),
            p,
        )


def _facts(found: Fusion) -> Iterator[str]:
    yield (
        "low and high are 95 % intervals; p of the learned weights is that of one comparison, "
        "which decides; the others are corrected for all in the table (Holm)"
    )
    yield "weights: " + ", ".join(
        f"{name} {weight:.6g} ({found.shares[name]:.0%} of the spread)"
        for name, weight in found.weights.items()
    )
    recall = found.recall
    legs = ", ".join(f"{name} {share:.2f}" for name, share in recall.legs.items())
    yield (
        f"recall of the candidates: {legs}; all legs {recall.union:.2f}, the one request "
        f"{recall.request:.2f}; {recall.unreachable:,} of {recall.relevant:,} relevant documents "
        "are in none, and no fusion brings them"
    )
    optimism = found.optimism
    yield (
        f"engine settings: the best of {optimism.settings} gains {optimism.gain:+.4f} over "
        f"{found.best_leg} on these queries, of which {optimism.expected:+.4f} is to be expected "
        f"on others: choosing among so many adds {optimism.lost:.4f} by itself; most folds choose "
        f"{found.engine_setting}"
    )
    yield (
        f"the model has learned from all queries, and has {found.on_all_queries.mean():.4f} on "
        "them, as compare-live --split all with the query template must show"
    )
    yield from found.notes
