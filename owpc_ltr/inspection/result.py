"""Inspection: what `inspect` says of data: its figures, its columns, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from owpc_ltr.inspection.figures import Canary, DataFigures, FeatureRow, LearningCurve
from owpc_ltr.inspection.finding import WARNING, Finding
from owpc_ltr.inspection.text import figures, trials
from owpc_ltr.plain_text import text_table, wrapped_text
from owpc_ltr.shown import printable
from owpc_ltr.signatures import spelled

FEATURE_ROWS = 12
"""Features that the text shows unless all are asked for."""
_HEADERS = ("feature", "missing", "lowest", "median", "highest", "alone", "found")


@dataclass(frozen=True, repr=False)
class Inspection:
    """What was found in data: figures, columns, findings (the worst first), and two trials.

    `canary` and `learning_curve` are None where they were not asked for or not affordable.
    """

    data: DataFigures
    features: tuple[FeatureRow, ...]
    findings: tuple[Finding, ...]
    canary: Canary | None = None
    learning_curve: LearningCurve | None = None
    all_features: bool = False
    """Whether the text has a row for every feature."""

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that are more than notes."""
        return tuple(finding for finding in self.findings if finding.severity == WARNING)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        content = asdict(self)
        del content["all_features"]
        return content

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from owpc_ltr.inspection.html import as_html

        trials = self.canary, self.learning_curve
        return as_html(self.data, self.features, self.findings, *trials)


def _text(found: Inspection) -> str:
    """The figures, the features, the findings and the trials."""
    told = [f"{one.severity}: {one.line}" for one in found.findings] or ["nothing was found"]
    told += trials(found.canary, found.learning_curve)
    return "\n".join(
        [
            printable(", ".join(found.data.names)),
            *(f"  {name:<17} {value}" for name, value in figures(found.data)),
            "",
            *_feature_lines(found.features, all_features=found.all_features),
            "",
            *map(wrapped_text, told),
        ]
    )


def _feature_lines(features: Sequence[FeatureRow], *, all_features: bool) -> Iterator[str]:
    """A table whose first rows are the features that findings name."""
    ranked = sorted(features, key=lambda row: not row.checks)
    shown = features if all_features else ranked[:FEATURE_ROWS]
    yield text_table(_HEADERS, [_cells(row) for row in shown])
    if len(shown) < len(features):
        yield f"and {len(features) - len(shown)} more: {spelled('all_features')} shows all"


def _cells(row: FeatureRow) -> list[str]:
    numbers = (row.lowest, row.quartiles[1], row.highest)
    return [
        row.name,
        f"{row.missing:.1%}",
        *(f"{number:.4g}" for number in numbers),
        f"{row.alone:.2f}",
        ", ".join(row.checks),
    ]
