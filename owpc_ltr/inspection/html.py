"""An inspection for notebooks: figures, findings, the learning curve, and a row a feature."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr.data.html import bars, block, facts, line, table
from owpc_ltr.inspection.figures import Canary, DataFigures, FeatureRow, LearningCurve
from owpc_ltr.inspection.finding import Finding
from owpc_ltr.inspection.text import canary_line, figures

_HEADERS = ("feature", "missing", "lowest", "median", "highest", "alone", "found")


def as_html(
    data: DataFigures,
    features: Sequence[FeatureRow],
    findings: Sequence[Finding],
    canary: Canary | None,
    curve: LearningCurve | None,
) -> str:
    """A titled block; whatever names hold is escaped."""
    parts = [facts(figures(data))]
    found = [(one.severity, one.subject, one.line) for one in findings]
    parts.append(table(("", "what", "finding"), found) if found else line("nothing was found"))
    if canary is not None:
        parts.append(line(canary_line(canary)))
    if curve is not None:
        parts.append(bars([(f"{one.queries:,} queries", one.mean) for one in curve.points]))
        parts.append(line(curve.told))
    parts.append(table(_HEADERS, [_row(feature) for feature in features]))
    return block(f"Inspection of {', '.join(data.names)}", *parts)


def _row(feature: FeatureRow) -> tuple[str, ...]:
    return (
        feature.name,
        f"{feature.missing:.1%}",
        f"{feature.lowest:.4g}",
        f"{feature.quartiles[1]:.4g}",
        f"{feature.highest:.4g}",
        f"{feature.alone:.3f}",
        ", ".join(feature.checks),
    )
