"""What `inspect` says of data: figures, columns, and each `Finding`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from owpc_ltr.data.blocks import Block, BlockResult, FactList, Table
from owpc_ltr.text import REPR_LINES, ShortRepr, printable_lines

Severity = Literal["warning", "note"]
WARNING: Severity = "warning"
NOTE: Severity = "note"

CHECKS = (
    "split-leak",
    "leak",
    "external-features",
    "no-irrelevant-grade",
    "inverted-labels",
    "partly-shuffled-labels",
    "never-retrieved",
    "worse-than-random",
    "sampled-negatives",
    "contradicting-grades",
    "feature-drift",
    "missing-spike",
    "constant-column",
    "missing-rate",
    "repeated-documents",
)
"""The names of all checks, the worst first: what makes figures lie, then what harms a model."""


@dataclass(frozen=True, repr=False)
class Finding(ShortRepr):
    """One thing that a check found.

    `subject` is what it is about in few words: a column, a grade, some queries. `message` says
    what and where, `advice` what to do. `columns` and `queries` name those concerned: the first
    few, where they are many.
    """

    check: str
    severity: Severity
    subject: str
    message: str
    advice: str
    columns: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The message and the advice as one line."""
        return f"{self.message}: {self.advice}"

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return asdict(self)


def of_columns(
    check: str,
    names: Sequence[str],
    message: str,
    advice: str,
    severity: Severity = WARNING,
    **more: Any,
) -> Finding:
    """What a check found in these columns."""
    return Finding(check, severity, listed(names), message, advice, columns=tuple(names), **more)


FEATURE_ROWS = 12
"""Features that the text shows unless all are asked for."""
_HEADERS = ("feature", "missing", "lowest", "median", "highest", "alone", "found")


@dataclass(frozen=True, repr=False)
class Inspection(BlockResult):
    """What was found in data: figures, columns, and findings, the worst first."""

    data: DataFigures
    features: tuple[FeatureRow, ...]
    findings: tuple[Finding, ...]
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

    @property
    def lines(self) -> list[str]:
        """The findings, a line each."""
        return [f"{finding.severity}: {finding.line}" for finding in self.findings] or [
            "nothing was found"
        ]

    def __repr__(self) -> str:
        lines = [f"{name}: {value}" for name, value in figures(self.data)]
        lines += self.lines if self.findings else []
        if len(lines) > REPR_LINES:
            left = len(lines) - REPR_LINES + 1
            lines = [*lines[: REPR_LINES - 1], f"and {left} more findings: print the inspection"]
        return printable_lines("\n".join(lines))

    def _blocks(self) -> Iterator[Block]:
        """The figures, the features (those that findings name first), and the findings."""
        yield ", ".join(self.data.names)
        yield FactList(figures(self.data))
        yield ""
        rows = sorted(self.features, key=lambda row: not row.checks)[:FEATURE_ROWS]
        if self.all_features:
            rows = [*self.features]
        yield Table(_HEADERS, list(map(_cells, rows)))
        if left := len(self.features) - len(rows):
            yield f"and {left} more: `all_features` shows all"
        yield from ("", *self.lines)


def _cells(row: FeatureRow) -> list[str]:
    numbers = (row.lowest, row.quartiles[1], row.highest)
    return [
        row.name,
        f"{row.missing:.1%}",
        *(f"{number:.4g}" for number in numbers),
        f"{row.alone:.2f}",
        ", ".join(row.checks),
    ]


@dataclass(frozen=True, repr=False)
class DataFigures(ShortRepr):
    """Counts over all queries; `lengths` are the smallest, median and largest list.

    `grades` are the labels and how many documents have each: all of up to 50, else the first ones.
    Queries `without_contrast` have several documents, all of one grade. `sampled` is how many
    queries were looked at where values are needed together: all of them, or a sample.
    """

    names: tuple[str, ...]
    queries: int
    documents: int
    features: int
    lengths: tuple[int, float, int]
    grades: tuple[tuple[float, int], ...]
    without_contrast: int
    of_one_document: int
    missing: float
    parts: int
    sampled: int


@dataclass(frozen=True, repr=False)
class FeatureRow(ShortRepr):
    """One column: `missing` is a share; the quartiles and `alone` are of the sampled queries.

    `alone` is the share of pairs (relevant, irrelevant) of a query that the column alone has in the
    right order, ties counting half; NaN where there is no such pair. `checks` name the column.
    """

    name: str
    missing: float
    lowest: float
    quartiles: tuple[float, float, float]
    highest: float
    alone: float
    checks: tuple[str, ...] = ()


_GRADES = 8
"""More grades than these are told as a range."""


def figures(data: DataFigures) -> list[tuple[str, str]]:
    """What is in the data, as names and values."""
    low, median, high = data.lengths
    alike = data.without_contrast
    rows = [
        ("queries", f"{data.queries:,}"),
        ("documents", f"{data.documents:,}; a query has {low:,} to {high:,}, median {median:g}"),
        ("grades", _grades(data)),
        ("without contrast", f"{_queries(alike)} ({alike / max(data.queries, 1):.1%})"),
        ("of one document", _queries(data.of_one_document)),
        ("features", f"{data.features:,}; {data.missing:.1%} of the values missing"),
    ]
    if len(data.grades) > 2:
        rows.insert(3, ("in training", "every grade by ndcg, err; a label above 0 by map, mrr"))
    if data.sampled < data.queries:
        rows.append(("looked at", f"all; {data.sampled:,} queries where values are compared"))
    return rows


def _grades(data: DataFigures) -> str:
    if len(data.grades) > _GRADES:
        return (
            f"{len(data.grades)} or more different ones, from {data.grades[0][0]:g} to "
            f"{data.grades[-1][0]:g}"
        )
    shares = [(grade, n, n / max(data.documents, 1)) for grade, n in data.grades]
    return ", ".join(
        f"{grade:g} × {n:,} ({share:.{0 if share >= 0.1 else 1}%})" for grade, n, share in shares
    )


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


_LISTED = 8


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are.

    >>> listed([*"abcdefghij"])
    'a, b, c, d, e, f, g, h and 2 more'
    """
    first = ", ".join(names[:_LISTED])
    return f"{first} and {len(names) - _LISTED} more" if len(names) > _LISTED else first
