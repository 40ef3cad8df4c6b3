"""Parts of the text of an inspection: the figures at a glance, and what training showed."""

from __future__ import annotations

from collections.abc import Iterator

from owpc_ltr.inspection.figures import Canary, DataFigures, LearningCurve

_GRADES = 8
"""More grades than these are told as a range."""


def figures(data: DataFigures) -> list[tuple[str, str]]:
    """What is in the data, as names and values."""
    low, median, high = data.lengths
    alike = data.without_contrast
    rows = [
        ("queries", f"{data.queries:,}"),
        ("documents", f"{data.documents:,}; a query has {low:,} to {high:,}, median {median:g}"),
        ("grades", _grades(data)),
        ("without contrast", f"{_queries(alike)} ({alike / max(data.queries, 1):.1%})"),
        ("of one document", _queries(data.of_one_document)),
        ("features", f"{data.features:,}; {data.missing:.1%} of the values missing"),
    ]
    if data.sampled < data.queries:
        rows.append(("looked at", f"all; {data.sampled:,} queries where values are compared"))
    return rows


def trials(canary: Canary | None, curve: LearningCurve | None) -> Iterator[str]:
    """What training showed."""
    if canary is not None:
        yield canary_line(canary)
    if curve is not None:
        yield curve_line(curve)


def canary_line(canary: Canary) -> str:
    """The gains of true and of shuffled labels."""
    true, shuffled = canary.true, canary.shuffled
    return (
        f"labels: {canary.metric} {true.mean:+.3f} [{true.low:+.3f}, {true.high:+.3f}] over a "
        f"random order ({canary.random:.3f}) by the default on held-out queries; of shuffled "
        f"labels {shuffled.mean:+.3f} [{shuffled.low:+.3f}, {shuffled.high:+.3f}]"
    )


def curve_line(curve: LearningCurve) -> str:
    """The learning curve on one line."""
    points = ", ".join(f"{point.queries:,} → {point.mean:.3f}" for point in curve.points)
    return f"learning curve: {curve.metric} by training queries {points}; {curve.told}"


def _grades(data: DataFigures) -> str:
    if len(data.grades) > _GRADES:
        return (
            f"{len(data.grades)} or more different ones, from {data.grades[0][0]:g} to "
            f"{data.grades[-1][0]:g}"
        )
    total = max(data.documents, 1)
    return ", ".join(f"{grade:g} × {n:,} ({_share(n / total)})" for grade, n in data.grades)


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"
