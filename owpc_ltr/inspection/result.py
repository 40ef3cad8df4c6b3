"""Inspection: what `inspect` says of data: its figures, its columns, and what was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from owpc_ltr.inspection.figures import Canary, DataFigures, FeatureRow, LearningCurve
from owpc_ltr.inspection.finding import WARNING, Finding
from owpc_ltr.inspection.text import as_text


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
        return as_text(self, all_features=self.all_features)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from owpc_ltr.inspection.html import as_html

        trials = self.canary, self.learning_curve
        return as_html(self.data, self.features, self.findings, *trials)
