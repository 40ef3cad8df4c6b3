"""The result of a reproduction: rows and notes, as text of every format and as files."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

from owpc_ltr.data.html import block, line
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.latex import escaped
from owpc_ltr.files.output import disk_faults, finite_json, write_atomically
from owpc_ltr.text import text_table
from owpc_ltr.version import VERSION
from owpc_ltr_papers.rows import Row


@dataclass(frozen=True, repr=False)
class Reproduction:
    """Published figures beside ours: `rows`, `notes` on what is missing or done otherwise.

    `citations` say where the published figures are from. `reused` counts the jobs that the journal
    had, `stale` those in it that no longer counted. `format` is what it is printed as.
    """

    protocol: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    citations: tuple[str, ...]
    seed: int
    quick: bool
    reused: int = 0
    stale: int = 0
    format: str = "table"

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
        lines = []
        for heading, rows in _groups(self.rows).items():
            lines += ["", heading, _text_table(rows, _COLUMNS)]
            compared = [row for row in rows if row.gain is not None]
            if compared:
                lines += ["", _text_table(compared, ("method", "against", "gain [95 %], p"))]
        remarks = [f"- {text}" for text in (*_remarks(self.rows), *self.notes, *self.citations)]
        return "\n".join([*lines, "", *remarks])

    def __repr__(self) -> str:
        return f"Reproduction of {self.protocol}: {len(self.rows)} rows, {len(self.notes)} notes"

    def _repr_html_(self) -> str:
        """The table and its notes."""
        return block(self.title, _tables(self), *map(line, (*self.notes, *self.citations)))


_COLUMNS = ("method", "published", "ours", "difference", "95 %", "queries")


def _groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each data set and metric."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row.data_set}, {row.metric}", []).append(row)
    return groups


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
        stored = json.loads((folder / name).read_bytes())["protocol"]
    except (OSError, ValueError, LookupError, TypeError):
        return
    if stored != protocol:
        raise UsageError(
            f"{folder} has the results of {stored}, which would be lost: name another folder"
        )


HEADERS = ("data set", "metric", "method", "published", "ours", "difference", "95 %", "queries")
_SYMBOLS = str.maketrans(
    {
        "−": "$-$",
        "–": "--",
        "λ": r"$\lambda$",
        "⁻": "$^{-}$",
        "³": "$^{3}$",
        "…": r"\dots{}",
        "§": r"\S{}",
        "α": r"$\alpha$",
        "σ": r"$\sigma$",
    }
)


def headers(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of the table that people read: what no row has is left out."""
    gains = ["against", "gain [95 %], p"] if any(row.against for row in rows) else []
    return (*HEADERS, *gains, *(["note"] if any(row.note for row in rows) else []))


def cells(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """A row as text, one cell for each header."""
    texts = {
        "data set": row.data_set,
        "metric": row.metric,
        "method": row.method,
        "published": _plain(row.published),
        "ours": _plain(row.ours),
        "difference": _signed(row.difference),
        "95 %": "" if row.low is None else f"[{row.low:.4f}, {row.high:.4f}]",
        "queries": "" if row.queries is None else str(row.queries),
        "against": row.against,
        "gain [95 %], p": _gain(row),
        "note": row.note,
    }
    return tuple(texts[name] for name in columns)


def as_markdown(result: Reproduction) -> str:
    """A page: the table, then what must be known of it."""
    columns = headers(result.rows)
    lines = [f"# {result.title}", "", _markdown_row(columns), _markdown_row(["---"] * len(columns))]
    lines += [_markdown_row(map(_markdown, cells(row, columns))) for row in result.rows]
    lines += ["", *(f"- {_markdown(note)}" for note in result.notes)]
    lines += ["", "Published figures are from:", ""]
    lines += [f"- {_markdown(text)}" for text in result.citations]
    return "\n".join(lines) + "\n"


def as_latex(result: Reproduction) -> str:
    """A `longtable`, to be input into a document that loads the package of that name."""
    names = headers(result.rows)
    head = " & ".join(map(_latex, names)) + r" \\"
    numbers = {"published", "ours", "difference", "queries"}
    alignment = "".join("r" if name in numbers else "l" for name in names)
    lines = [
        f"% {result.title}",
        rf"\begin{{longtable}}{{{alignment}}}",
        r"\hline",
        head,
        r"\hline",
        r"\endhead",
    ]
    lines += [" & ".join(map(_latex, cells(row, names))) + r" \\" for row in result.rows]
    lines += [r"\hline", r"\end{longtable}", r"\begin{itemize}"]
    lines += [rf"\item {_latex(note)}" for note in (*result.notes, *result.citations)]
    return "\n".join([*lines, r"\end{itemize}"]) + "\n"


def as_csv(result: Reproduction) -> str:
    """One line a row, every column of it; nothing is rounded."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(result.table)
    return text.getvalue()


def as_json(result: Reproduction) -> str:
    """The whole outcome as one object; nothing is rounded."""
    return json.dumps(finite_json(result.as_dict()), indent=2, ensure_ascii=False) + "\n"


def _markdown_row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown(text: str) -> str:
    """Text that stands as it is: what Markdown would read is escaped, and no line is broken."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split())) if text else ""


def _latex(text: str) -> str:
    return escaped(text).translate(_SYMBOLS)


def _plain(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.{0 if value == int(value) else 4}f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}".replace("-", "−")


def _gain(row: Row) -> str:
    if row.gain is None or row.p is None:
        return ""
    return f"{_signed(row.gain)} [{_signed(row.gain_low)}, {_signed(row.gain_high)}], {row.p:.2g}"


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font-family:system-ui,sans-serif;margin:2rem;line-height:1.4}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;font-weight:bold;padding:.5em 0}"
    "th,td{padding:.15em .8em .15em 0;text-align:left;vertical-align:top}"
    "thead th{border-bottom:1px solid;position:sticky;top:0;background:Canvas}"
    "tbody th{font-weight:normal}"
)


def as_html(result: Reproduction) -> str:
    """A whole document."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(result.title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(result.title)}</h1>\n{_tables(result)}\n"
        f"<h2>What must be known</h2>\n{_list(result.notes)}\n"
        f"<h2>Published figures</h2>\n{_list(result.citations)}\n</main>\n</body>\n</html>\n"
    )


def _tables(result: Reproduction) -> str:
    """One table a data set and metric, whose columns are told to those who do not see them."""
    names = [name for name in headers(result.rows) if name not in {"data set", "metric"}]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    tables = []
    for heading, rows in _groups(result.rows).items():
        lines = "\n".join(_html_row(row, names) for row in rows)
        tables.append(
            f"<table>\n<caption>{escape(heading)}</caption>\n"
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"
        )
    return "\n".join(tables)


def _html_row(row: Row, names: Sequence[str]) -> str:
    row_cells = "".join(
        f'<th scope="row">{escape(cell)}</th>' if name == "method" else f"<td>{escape(cell)}</td>"
        for name, cell in zip(names, cells(row, names), strict=True)
    )
    return f"<tr>{row_cells}</tr>"


def _list(texts: tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


_WRITERS = {
    "json": ("results.json", as_json),
    "csv": ("results.csv", as_csv),
    "markdown": ("results.md", as_markdown),
    "latex": ("results.tex", as_latex),
    "html": ("results.html", as_html),
}
