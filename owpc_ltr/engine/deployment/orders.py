"""What another set of scores does to the rankings of the same documents, query by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.metrics import parse_metric

METRIC = "ndcg@10"
Scored = tuple[Vector | None, Vector, Vector]
"""One query's labels (if known), its scores, and its other scores."""


@dataclass(frozen=True)
class Orders:
    """How far two rankings of the same documents are apart.

    `swapped` counts pairs of one query that the two order differently, `ties_broken` those that
    only one of them ties; `tau` is Kendall's tau-b, a mean over queries; `ndcg_difference` the
    other's mean NDCG@10 less the first's, None where labels are not known.
    """

    swapped: int
    ties_broken: int
    tau: float
    ndcg_difference: float | None

    @property
    def words(self) -> str:
        """The two figures that tell it, in words."""
        text = f"Kendall's tau {self.tau:.4f}, {self.swapped} pairs swapped"
        known = self.ndcg_difference
        return text if known is None else f"{text}, {METRIC} {known:+.4f}"


def orders_of(scored: Sequence[Scored]) -> Orders:
    """The comparison of all queries."""
    found = [_orders(one, other) for _, one, other in scored]
    taus = [tau for _, _, tau in found if tau is not None]
    return Orders(
        swapped=sum(swapped for swapped, _, _ in found),
        ties_broken=sum(broken for _, broken, _ in found),
        tau=float(np.mean(taus)) if taus else 1.0,
        ndcg_difference=_ndcg_difference(scored),
    )


def _orders(reference: Vector, other: Vector) -> tuple[int, int, float | None]:
    """Pairs ordered the other way, pairs tied in one only, and tau-b where there is an order."""
    one, two = _signs(reference), _signs(other)
    ordered = np.abs(one).sum() * np.abs(two).sum()
    tau = float((one * two).sum() / np.sqrt(ordered)) if ordered > 0 else None
    return int((one * two < 0).sum()), int(((one == 0) != (two == 0)).sum()), tau


def _signs(scores: Vector) -> Vector:
    """Of every pair, which is above; 0 also where a score is no number."""
    first, second = np.triu_indices(len(scores), 1)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.sign(scores[first] - scores[second]))


def _ndcg_difference(scored: Sequence[Scored]) -> float | None:
    """Over the queries whose labels are known; None where there are none, or a score is none."""
    known = [(labels, one, other) for labels, one, other in scored if labels is not None]
    numbers = all(np.isfinite([one, other]).all() for _, one, other in known)
    if not known or len(known) < len(scored) or not numbers:
        return None
    metric = parse_metric(METRIC)
    labels = [one[0] for one in known]
    offsets = np.cumsum([0, *(len(each) for each in labels)])
    together = np.concatenate(labels).astype(np.float32)
    reference, other = (
        metric.mean(np.concatenate([one[which] for one in known]), together, offsets)
        for which in (1, 2)
    )
    difference = float(other - reference)
    return difference if np.isfinite(difference) else None
