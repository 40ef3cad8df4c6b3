"""The table as text: for people as Markdown and LaTeX, for machines as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields

from owpc_ltr.files.strict_json import finite_json
from owpc_ltr_papers.findings import Findings
from owpc_ltr_papers.rows import Row

HEADERS = ("data set", "metric", "method", "published", "ours", "difference", "95 %", "queries")
_AGAINST = "against"
_GAIN = "gain [95 %], p"
_NOTE = "note"
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
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


def headers(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of the table that people read: what no row has is left out."""
    more = [_AGAINST, _GAIN] if any(row.against for row in rows) else []
    return (*HEADERS, *more, *([_NOTE] if any(row.note for row in rows) else []))


def cells(row: Row, shown: Sequence[str]) -> tuple[str, ...]:
    """A row as text, one cell for each header."""
    told = {
        "data set": row.data_set,
        "metric": row.metric,
        "method": row.method,
        "published": _plain(row.published),
        "ours": _plain(row.ours),
        "difference": _signed(row.difference),
        "95 %": "" if row.low is None else f"[{row.low:.4f}, {row.high:.4f}]",
        "queries": "" if row.queries is None else str(row.queries),
        _AGAINST: row.against,
        _GAIN: _gain(row),
        _NOTE: row.note,
    }
    return tuple(told[name] for name in shown)


def as_markdown(found: Findings) -> str:
    """A page: the table, then what must be known of it."""
    shown = headers(found.rows)
    lines = [f"# {found.title}", "", _markdown_row(shown), _markdown_row(["---"] * len(shown))]
    lines += [_markdown_row(map(_markdown, cells(row, shown))) for row in found.rows]
    lines += ["", *(f"- {_markdown(note)}" for note in found.notes)]
    lines += ["", "Published figures are from:", ""]
    lines += [f"- {_markdown(text)}" for text in found.citations]
    return "\n".join(lines) + "\n"


def as_latex(found: Findings) -> str:
    """A `longtable`, to be input into a document that loads the package of that name."""
    shown = headers(found.rows)
    head = " & ".join(map(_latex, shown)) + r" \\"
    numbers = {"published", "ours", "difference", "queries"}
    columns = "".join("r" if name in numbers else "l" for name in shown)
    lines = [
        f"% {found.title}",
        rf"\begin{{longtable}}{{{columns}}}",
        r"\hline",
        head,
        r"\hline",
        r"\endhead",
    ]
    lines += [" & ".join(map(_latex, cells(row, shown))) + r" \\" for row in found.rows]
    lines += [r"\hline", r"\end{longtable}", r"\begin{itemize}"]
    lines += [rf"\item {_latex(note)}" for note in (*found.notes, *found.citations)]
    return "\n".join([*lines, r"\end{itemize}"]) + "\n"


def as_csv(found: Findings) -> str:
    """One line a row, every column of it; nothing is rounded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [field.name for field in fields(Row)]
    writer.writerow(names)
    for row in found.rows:
        values = row.as_dict()
        writer.writerow(["" if values[name] is None else values[name] for name in names])
    return text.getvalue()


def as_json(found: Findings) -> str:
    """The whole outcome as one object; nothing is rounded."""
    return json.dumps(finite_json(found.as_dict()), indent=2, ensure_ascii=False) + "\n"


def _markdown_row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown(text: str) -> str:
    """Text that stands as it is: what Markdown would read is escaped, and no line is broken."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split())) if text else ""


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _plain(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}".rstrip("0").rstrip(".") if value == int(value) else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}".replace("-", "−")


def _gain(row: Row) -> str:
    if row.gain is None:
        return ""
    assert row.gain_low is not None and row.gain_high is not None  # noqa: S101, PT018
    return f"{_signed(row.gain)} [{_signed(row.gain_low)}, {_signed(row.gain_high)}], {row.p:.2g}"
