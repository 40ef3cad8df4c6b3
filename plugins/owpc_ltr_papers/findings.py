"""What a reproduction found: the rows, and what must be known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from owpc_ltr.version import VERSION
from owpc_ltr_papers.rows import Row


@dataclass(frozen=True)
class Findings:
    """Published figures beside ours: `rows`, `notes` on what is missing or done otherwise.

    `citations` say where the published figures are from.
    """

    protocol: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    citations: tuple[str, ...]
    seed: int
    quick: bool

    @property
    def title(self) -> str:
        """What it is of."""
        return f"owpc-ltr reproduce {self.protocol}{' --quick' if self.quick else ''}"

    @property
    def table(self) -> list[dict[str, Any]]:
        """One dictionary a row."""
        return [row.as_dict() for row in self.rows]

    def as_dict(self) -> dict[str, Any]:
        """Figures and what explains them, as JSON; no times, so that a resumed run is equal."""
        return {
            "protocol": self.protocol,
            "owpc-ltr": VERSION,
            "seed": self.seed,
            "quick": self.quick,
            "rows": self.table,
            "notes": list(self.notes),
            "citations": list(self.citations),
        }
