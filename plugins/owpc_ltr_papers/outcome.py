"""What a reproduction gives its caller: the findings, as text of every format and as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owpc_ltr.errors import UsageError
from owpc_ltr.files.output import disk_faults, write_atomically
from owpc_ltr_papers.findings import Findings
from owpc_ltr_papers.page import as_html, body
from owpc_ltr_papers.rows import Row
from owpc_ltr_papers.tables import as_csv, as_json, as_latex, as_markdown, cells

_WRITERS = {
    "json": ("results.json", as_json),
    "csv": ("results.csv", as_csv),
    "markdown": ("results.md", as_markdown),
    "latex": ("results.tex", as_latex),
    "html": ("results.html", as_html),
}


@dataclass(frozen=True, repr=False)
class Reproduction(Findings):
    """Findings that can be shown and written.

    `reused` counts the jobs that the journal had, `stale` those in it that no longer counted.
    """

    reused: int = 0
    stale: int = 0

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.table)

    @staticmethod
    def cells(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
        """A row as people read it: the cells of these columns of the table."""
        return cells(row, columns)

    def to_text(self, kind: str = "markdown") -> str:
        """The whole as markdown, csv, json, latex, or html. Raises UsageError for another kind."""
        if kind not in _WRITERS:
            raise UsageError(f"no format is called '{kind}': choose among {', '.join(_WRITERS)}")
        return _WRITERS[kind][1](self)

    def write(self, folder: Path) -> list[Path]:
        """Write every format into a folder, each file whole. Raises DiskFault."""
        written = []
        for name, writer in _WRITERS.values():
            path = folder / name
            with disk_faults(path):
                write_atomically(path, writer(self).encode())
            written.append(path)
        return written

    def __repr__(self) -> str:
        return f"Reproduction of {self.protocol}: {len(self.rows)} rows, {len(self.notes)} notes"

    def _repr_html_(self) -> str:
        """The table and its notes."""
        return body(self)


def prepare(folder: Path, protocol: str) -> None:
    """Make the folder of a protocol's results. Raises UsageError where it has another's."""
    with disk_faults(folder):
        folder.mkdir(parents=True, exist_ok=True)
    name, _ = _WRITERS["json"]
    try:
        known = json.loads((folder / name).read_bytes())["protocol"]
    except (OSError, ValueError, LookupError, TypeError):
        return
    if known != protocol:
        raise UsageError(
            f"{folder} has the results of {known}, which would be lost: name another folder"
        )
