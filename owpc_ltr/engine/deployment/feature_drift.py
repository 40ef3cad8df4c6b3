"""Feature drift: how far the features of judged documents moved, and what it does to rankings.

Statistics of an index change with every document, and with them all text scores, though nothing
is wrong. Drift is told in standard deviations of what a feature was, so that one limit serves all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from owpc_ltr.engine.deployment.parity import Answered, Orders, orders_of


@dataclass(frozen=True)
class Moved:
    """One feature over the samples: how far it moved, in standard deviations of what it was.

    `mean_before` and `mean_now` count a missing value as 0; `newly_missing` is the share of values
    that are missing in one of the two only.
    """

    feature: str
    by: float
    mean_before: float
    mean_now: float
    newly_missing: float


def drift_refusal(
    features: Sequence[Moved], rankings: Orders | None, max_drift: float
) -> str | None:
    """Why a model must not be used on features that moved so far, in words; None if it may."""
    if not features or rankings is None or features[0].by <= max_drift:
        return None
    furthest = features[0]
    return (
        f"feature '{furthest.feature}' is not what it was when the model was trained: it moved by "
        f"{furthest.by:.3g} standard deviations in the mean ({max_drift:g} is allowed), which does "
        f"to rankings: {rankings.words}; log features again and train on them, or allow more with "
        "--max-drift"
    )


def moved_features(names: tuple[str, ...], answered: Sequence[Answered]) -> tuple[Moved, ...]:
    """How far each feature moved between what the samples remember and now, the furthest first.

    `names` are those of the first columns: what stands after them was not asked for now.
    """
    pairs = [(one.before, one.features) for one in answered if one.before is not None]
    if not pairs:
        return ()
    before, now = (
        np.concatenate([pair[side] for pair in pairs])[:, : len(names)].astype(np.float64)
        for side in (0, 1)
    )
    missing = np.isnan(before) != np.isnan(now)
    before, now = np.nan_to_num(before), np.nan_to_num(now)
    spread = before.std(axis=0)
    # A feature that was constant is measured by its own size.
    scale = np.where(spread > 0, spread, np.maximum(np.abs(before).max(axis=0), 1e-9))
    by = np.abs(now - before).mean(axis=0) / scale
    return tuple(
        Moved(
            names[column],
            float(by[column]),
            float(before[:, column].mean()),
            float(now[:, column].mean()),
            float(missing[:, column].mean()),
        )
        for column in np.argsort(-by, kind="stable")
    )


def moved_rankings(answered: Sequence[Answered]) -> Orders | None:
    """The rankings by the features of now against those that are remembered, if any are."""
    known = [(one.labels, one.earlier, one.local) for one in answered if one.earlier is not None]
    return orders_of(known) if known else None


def drift_line(features: Sequence[Moved], rankings: Orders | None, since: str) -> str:
    """How far features drifted and what it does to rankings, in one line."""
    if not features or rankings is None:
        return f"feature drift since {since}: not known, for the model remembers no features"
    furthest = features[0]
    if furthest.by == 0.0:
        return f"feature drift since {since}: none"
    return (
        f"feature drift since {since}: up to {furthest.by:.2g} standard deviations "
        f"('{furthest.feature}'); {rankings.words}"
    )


def drift_as_dict(features: Sequence[Moved], rankings: Orders | None) -> dict[str, Any] | None:
    """The same as JSON; None where nothing is known."""
    if rankings is None:
        return None
    return {"features": [asdict(one) for one in features], "rankings": asdict(rankings)}
