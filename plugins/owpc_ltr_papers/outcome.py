"""What a reproduction gives its caller: the findings, as text of every format and as files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owpc_ltr.errors import UsageError
from owpc_ltr.files.output import disk_faults, write_atomically
from owpc_ltr.plain_text import text_table
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
    `format` is what it is printed as.
    """

    reused: int = 0
    stale: int = 0
    format: str = "table"

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.table)

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

    def __str__(self) -> str:
        """The text of its format; as tables, one for each data set and metric, then the notes."""
        if self.format != "table":
            return self.to_text(self.format).removesuffix("\n")
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.data_set, row.metric), []).append(row)
        lines = []
        for (data_set, metric), rows in groups.items():
            lines += ["", f"{data_set}, {metric}", _text_table(rows, _COLUMNS)]
            compared = [row for row in rows if row.gain is not None]
            if compared:
                lines += ["", _text_table(compared, ("method", "against", "gain [95 %], p"))]
        remarks = [f"- {one}" for one in (*_remarks(self.rows), *self.notes, *self.citations)]
        return "\n".join([*lines, "", *remarks])

    def __repr__(self) -> str:
        return f"Reproduction of {self.protocol}: {len(self.rows)} rows, {len(self.notes)} notes"

    def _repr_html_(self) -> str:
        """The table and its notes."""
        return body(self)


_COLUMNS = ("method", "published", "ours", "difference", "95 %", "queries")


def _text_table(rows: Sequence[Row], columns: tuple[str, ...]) -> str:
    headers = [column.upper() for column in columns]
    return text_table(headers, [cells(row, columns) for row in rows])


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    """What is noted of rows, each once."""
    methods: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        if row.note not in {"", "quick"}:
            note = row.note.removeprefix("quick; ")
            methods.setdefault((row.data_set, note), {})[row.method] = None
    for (data_set, note), names in methods.items():
        yield f"{data_set}, {', '.join(names)}: {note}"


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
