"""What is in a dataset, in few figures: for its `repr`, and for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.data import html
from owpc_ltr.data.splits import Origin

_GRADES = 8
"""More different labels than these are shown as a range."""
_ROWS = 1 << 14


@dataclass(frozen=True)
class Summary:
    """Counts of a dataset; `grades` are its labels and how many documents have each."""

    queries: int
    documents: int
    features: int
    missing: float
    grades: tuple[tuple[float, int], ...]
    weights: tuple[str, ...]
    featureset: str | None
    origin: Origin | None
    notes: tuple[str, ...]

    def text(self) -> str:
        """One to three lines."""
        sizes = (
            f"RankingDataset: {_count(self.queries, 'query', 'queries')}, "
            f"{_count(self.documents, 'document', 'documents')}, "
            f"{_count(self.features, 'feature', 'features')}, {self.missing:.2%} missing"
        )
        second = "; ".join(part for part in (self._grades(), *self._weights()) if part)
        return "\n  ".join(filter(None, (sizes, second, "; ".join(self._whence()))))

    def html(self) -> str:
        """The same as a small table, with a bar for each grade."""
        rows = (
            ("queries", f"{self.queries:,}"),
            ("documents", f"{self.documents:,}"),
            ("features", f"{self.features:,}, {self.missing:.2%} of the values missing"),
        )
        few = 0 < len(self.grades) <= _GRADES
        grades = [(f"grade {grade:g}", float(count)) for grade, count in self.grades]
        lines = [*([] if few else [self._grades()]), *self._weights(), *self._whence()]
        parts = [html.line(text) for text in lines if text]
        return html.block(
            "RankingDataset",
            html.facts(rows),
            html.bars(grades, "{:,.0f}") if few else "",
            *parts,
        )

    def _grades(self) -> str:
        if len(self.grades) > _GRADES:
            return (
                f"{len(self.grades)} different labels from {self.grades[0][0]:g} to "
                f"{self.grades[-1][0]:g}"
            )
        counts = ", ".join(f"{grade:g} × {count:,}" for grade, count in self.grades)
        return f"grades {counts}" if counts else ""

    def _weights(self) -> tuple[str, ...]:
        return (f"weighted by {' and '.join(self.weights)}",) if self.weights else ()

    def _whence(self) -> tuple[str, ...]:
        origin, split = self.origin, None if self.origin is None else self.origin.split
        return (
            *((f"logged with feature set {self.featureset[:12]}",) if self.featureset else ()),
            *(
                (
                    f"the {origin.side} side of {origin.fingerprint[:12]}, split by hash with "
                    f"{split.validation:g} validation and {split.test:g} test",
                )
                if origin is not None and split is not None
                else ()
            ),
            *self.notes,
        )


def summarise(data: Any) -> Summary:
    """The figures of a dataset."""
    grades, counts = np.unique(data.labels, return_counts=True)
    weighted = (
        ("query", data.query_weights),
        ("document", data.document_weights),
    )
    return Summary(
        data.n_queries,
        data.n_documents,
        data.n_features,
        _missing_share(data),
        tuple(zip(grades.tolist(), counts.tolist(), strict=True)),
        tuple(name for name, part in weighted if part is not None),
        data.featureset_hash,
        data.origin,
        data.notes,
    )


def _missing_share(data: Any) -> float:
    if not data.has_missing:
        return 0.0
    # Blocks of rows keep the mask small.
    blocks = range(0, data.n_documents, _ROWS)
    missing = sum(int(np.isnan(data.features[first : first + _ROWS]).sum()) for first in blocks)
    return missing / int(data.features.size)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
