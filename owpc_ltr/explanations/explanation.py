"""Explanation: why the documents of one list are where they are, term by term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from owpc_ltr.arrays import Vector
from owpc_ltr.explanations.hit import ExplainedHit
from owpc_ltr.explanations.shown import as_html, as_text
from owpc_ltr.explanations.what_if import ToPass
from owpc_ltr.files.strict_json import finite_json


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why the documents of one query are where they are.

    `query` is its words or its id, `model` a name. `hits` are the best of a list of `documents`,
    the best first, or the one that was asked for. `baseline` is the part of every score that is no
    feature's (an intercept, a mean score); `method` says in words how a score was shared out.
    `mean_contributions` (n_features) are over the whole list. `to_pass` says what would have to
    change for the document to be above another; None where that was not asked.
    """

    query: str
    model: str
    kind: str
    feature_names: tuple[str, ...]
    hits: tuple[ExplainedHit, ...]
    baseline: float
    method: str
    documents: int
    mean_contributions: Vector
    to_pass: ToPass | None = None
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON."""
        means = zip(self.feature_names, self.mean_contributions.tolist(), strict=True)
        content: dict[str, Any] = finite_json({
            "query": self.query,
            "model": self.model,
            "kind": self.kind,
            "method": self.method,
            "documents": self.documents,
            "baseline": self.baseline,
            "mean_contributions": dict(means),
            "hits": [hit.as_dict() for hit in self.hits],
            "to_pass": None if self.to_pass is None else self.to_pass.as_dict(),
            "warnings": list(self.warnings),
        })  # fmt: skip
        return content

    def __repr__(self) -> str:
        by = f"'{self.query}' by {self.model}: {self.method}"
        return as_text(by, self.hits, self.baseline, self.warnings)

    def _repr_html_(self) -> str:
        notes = [f"baseline {self.baseline:.4g}; {self.method}"]
        notes += [f"warning: {line}" for line in self.warnings]
        return as_html(f"{self.query} by {self.model}", self.hits, notes)
