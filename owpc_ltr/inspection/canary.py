"""The canary: labels shuffled within queries, of which nothing can be learned, beside true ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.figures import Canary, Gain
from owpc_ltr.inspection.finding import NOTE, WARNING, Finding
from owpc_ltr.inspection.learner import (
    Learn,
    random_values,
    trial_metric,
    values_of,
    with_contrast,
)

_Z = 1.96


def canary(data: RankingDataset, learn: Learn, seed: int = 0) -> Canary | None:
    """Gains over a random order on held-out halves; None where too few queries have contrast.

    Shuffled labels are measured on shuffled ones: whatever was learned, their expected value is
    exactly that of a random order.
    """
    chosen = with_contrast(data, thresholds.TRIAL_QUERIES, seed)
    if chosen.n_queries < thresholds.FEWEST_QUERIES:
        return None
    metric = trial_metric()
    true, random = _held_out(chosen, learn)
    shuffled, of_shuffled = _held_out(shuffled_labels(chosen, seed), learn)
    return Canary(
        str(metric),
        chosen.n_queries,
        float(random.mean()),
        gain_of(true - random),
        gain_of(shuffled - of_shuffled),
    )


def canary_findings(found: Canary) -> Iterator[Finding]:
    """Where the labels carry nothing, and where even shuffled ones are learned."""
    true, shuffled = found.true, found.shuffled
    if true.low <= 0:
        seen = true.high < thresholds.WEAK_GAIN * (1 - found.random)
        yield Finding(
            "shuffled-labels",
            WARNING if seen else NOTE,
            "labels",
            f"the labels carry nothing that the features can see: {found.metric} on held-out "
            f"queries is {true.mean:+.3f} [{true.low:+.3f}, {true.high:+.3f}] over a random order"
            if seen
            else f"whether the features see anything of the labels cannot be told of "
            f"{found.queries} queries: {found.metric} is {true.mean:+.3f} [{true.low:+.3f}, "
            f"{true.high:+.3f}] over a random order",
            "look whether labels and documents were joined right, row by row and query by query"
            if seen
            else "judge more queries",
        )
    error = (shuffled.high - shuffled.low) / (2 * _Z)
    if error > 0 and shuffled.mean > _quantile(1 - thresholds.CANARY_LEVEL) * error:
        yield Finding(
            "canary",
            WARNING,
            "held-out queries",
            f"labels shuffled within queries are learned: {found.metric} {shuffled.mean:+.3f} "
            "over a random order on queries that were held out",
            "look for the same documents in many queries, and for queries under two ids",
        )


def shuffled_labels(data: RankingDataset, seed: int) -> RankingDataset:
    """The same queries, the labels of each in a random order."""
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    order = np.lexsort((np.random.default_rng(seed).random(len(query)), query))
    return replace(data, labels=data.labels[order])


def gain_of(differences: Vector) -> Gain:
    """The mean over both halves with its 95 % interval.

    By as many queries as one half has: a model of the first half errs on the second as that of the
    second does on the first (for linear gains ⟨g, h⟩ = ⟨h, g⟩), so that the two are one draw.
    """
    mean = float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(len(differences) / 2))
    return Gain(mean, mean - _Z * error, mean + _Z * error)


def _held_out(data: RankingDataset, learn: Learn) -> tuple[Vector, Vector]:
    """The metric of each query by a model of the other half, and in a random order."""
    metric, half = trial_metric(), data.n_queries // 2
    sides = [data.select(np.arange(half)), data.select(np.arange(half, data.n_queries))]
    values = [
        values_of(metric, learn(one), other) for one, other in zip(sides, sides[::-1], strict=True)
    ]
    random = [random_values(metric, other) for other in sides[::-1]]
    return np.concatenate(values), np.concatenate(random)


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(level))
