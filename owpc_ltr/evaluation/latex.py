"""LaTeX: rankers × metrics as a table of the booktabs package."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{one: f"\\{one}" for one in "&%$#_{}"},
}
_DIGITS = 4


class LatexColumn(NamedTuple):
    """A metric: the value of each row, and the rows that are marked by a dagger."""

    title: str
    values: Sequence[float]
    higher_is_better: bool = True
    marked: Collection[int] = ()


def latex_table(rows: Sequence[str], columns: Sequence[LatexColumn], notes: Sequence[str]) -> str:
    """The table: the best values of each column bold, and the notes as comments before it."""
    lines = [f"% {_one_line(note)}" for note in notes]
    lines += [rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule"]
    lines += [_line("", [escaped(column.title) for column in columns]), r"\midrule"]
    cells = [_cells(column) for column in columns]
    lines += [_line(escaped(name), row) for name, *row in zip(rows, *cells, strict=True)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def escaped(text: str) -> str:
    r"""A text as LaTeX prints it.

    >>> escaped("ndcg@10_50%")
    'ndcg@10\\_50\\%'
    """
    return "".join(_ESCAPED.get(one, one) for one in _one_line(text))


def _cells(column: LatexColumn) -> list[str]:
    """The values, of which the best are bold: those that print as the best one does."""
    texts = [f"{value:.{_DIGITS}f}" for value in column.values]
    numbers = [float(text) for text in texts if text != "nan"]
    best = (max if column.higher_is_better else min)(numbers, default=None)
    return [
        (rf"\textbf{{{text}}}" if float(text) == best else text)
        + (r"$^{\dagger}$" if row in column.marked else "")
        for row, text in enumerate(texts)
    ]


def _line(first: str, cells: Sequence[str]) -> str:
    return " & ".join([first, *cells]) + r" \\"


def _one_line(text: str) -> str:
    return " ".join(text.split())
