"""What `inspect` says of data: figures, columns, and each `Finding`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from owpc_ltr.data.html import bars, block, facts, line, table
from owpc_ltr.signatures import option_name
from owpc_ltr.text import (
    REPR_LINES,
    ShortRepr,
    printable,
    printable_lines,
    text_table,
    wrapped_text,
)

Severity = Literal["warning", "note"]
WARNING: Severity = "warning"
NOTE: Severity = "note"

CHECKS = (
    "split-leak",
    "leak",
    "external-features",
    "no-irrelevant-grade",
    "shuffled-labels",
    "inverted-labels",
    "partly-shuffled-labels",
    "canary",
    "never-retrieved",
    "worse-than-random",
    "sampled-negatives",
    "contradicting-grades",
    "grade-typo",
    "swapped-columns",
    "unit-change",
    "missing-spike",
    "constant-column",
    "outlier",
    "duplicate-column",
    "one-document-queries",
    "no-contrast",
    "missing-rate",
    "not-looked-at",
)
"""The names of all checks, the worst first: what makes figures lie, then what harms a model."""


@dataclass(frozen=True, repr=False)
class Finding(ShortRepr):
    """One thing that a check found.

    `subject` is what it is about in few words: a column, a grade, some queries. `message` says
    what and where, `advice` what to do. `columns` and `queries` name those concerned: the first
    few, where they are many. `row` is the first document concerned: the name of its source, and its
    number there, counted from 0; `place` its file and line, where a text can be fixed there.
    """

    check: str
    severity: Severity
    subject: str
    message: str
    advice: str
    columns: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    row: tuple[str, int] | None = None
    place: str = ""

    @property
    def line(self) -> str:
        """The message, its place and the advice as one line."""
        text = f"{self.message} ({self.place})" if self.place else self.message
        return f"{text}: {self.advice}" if self.advice else text

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
        return _text(self)

    def __repr__(self) -> str:
        lines = [f"{name}: {value}" for name, value in figures(self.data)]
        lines += [f"{one.severity}: {one.line}" for one in self.findings]
        if len(lines) > REPR_LINES:
            left = len(lines) - REPR_LINES + 1
            lines = [*lines[: REPR_LINES - 1], f"and {left} more findings: print the inspection"]
        return printable_lines("\n".join(lines))

    def _repr_html_(self) -> str:
        return _html(self)


def _text(inspection: Inspection) -> str:
    """The figures, the features (those that findings name first), the findings and the trials."""
    features = inspection.features
    rows = sorted(features, key=lambda row: not row.checks)[:FEATURE_ROWS]
    if inspection.all_features:
        rows = [*features]
    left = len(features) - len(rows)
    lines = [f"{one.severity}: {one.line}" for one in inspection.findings]
    lines = [*(lines or ["nothing was found"]), *_trials(inspection)]
    return "\n".join(
        [
            printable(", ".join(inspection.data.names)),
            *(f"  {name:<17} {value}" for name, value in figures(inspection.data)),
            "",
            text_table(_HEADERS, [_cells(row, digits=2) for row in rows]),
            *([f"and {left} more: {option_name('all_features')} shows all"] if left else []),
            "",
            *map(wrapped_text, lines),
        ]
    )


def _cells(row: FeatureRow, *, digits: int) -> list[str]:
    numbers = (row.lowest, row.quartiles[1], row.highest)
    return [
        row.name,
        f"{row.missing:.1%}",
        *(f"{number:.4g}" for number in numbers),
        f"{row.alone:.{digits}f}",
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


@dataclass(frozen=True)
class Gain:
    """A mean over held-out queries, and its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Canary:
    """What the default learns of true labels, and of labels shuffled within queries.

    Gains of `metric` over a random order, on queries that the model was not trained on. That of
    shuffled labels must be about 0, and that of true ones above it.
    """

    metric: str
    queries: int
    random: float
    true: Gain
    shuffled: Gain


@dataclass(frozen=True)
class CurvePoint:
    """The metric on held-out queries after training on so many: the mean of several draws."""

    queries: int
    draws: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class LearningCurve(ShortRepr):
    """How the metric grows with the training queries, and what `twice` as many would add.

    `told` says it in a sentence, also where nothing can be told.
    """

    metric: str
    held_out: int
    points: tuple[CurvePoint, ...]
    twice: Gain
    told: str


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


def _trials(inspection: Inspection) -> Iterator[str]:
    """What training showed: gains of true and of shuffled labels, and the learning curve."""
    canary, curve = inspection.canary, inspection.learning_curve
    if canary is not None:
        yield _canary_line(canary)
    if curve is not None:
        points = ", ".join(f"{point.queries:,} → {point.mean:.3f}" for point in curve.points)
        yield f"learning curve: {curve.metric} by training queries {points}; {curve.told}"


def _canary_line(canary: Canary) -> str:
    true, shuffled = canary.true, canary.shuffled
    return (
        f"labels: {canary.metric} {true.mean:+.3f} [{true.low:+.3f}, {true.high:+.3f}] over a "
        f"random order ({canary.random:.3f}) by the default on held-out queries; of shuffled "
        f"labels {shuffled.mean:+.3f} [{shuffled.low:+.3f}, {shuffled.high:+.3f}]"
    )


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


def _html(inspection: Inspection) -> str:
    """A titled block; whatever names hold is escaped."""
    rows = [(one.severity, one.subject, one.line) for one in inspection.findings]
    parts = [facts(figures(inspection.data))]
    parts.append(table(("", "what", "finding"), rows) if rows else line("nothing was found"))
    if inspection.canary is not None:
        parts.append(line(_canary_line(inspection.canary)))
    curve = inspection.learning_curve
    if curve is not None:
        parts.append(bars([(f"{point.queries:,} queries", point.mean) for point in curve.points]))
        parts.append(line(curve.told))
    parts.append(table(_HEADERS, [_cells(feature, digits=3) for feature in inspection.features]))
    return block(f"Inspection of {', '.join(inspection.data.names)}", *parts)


_LISTED = 8


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are.

    >>> listed([*"abcdefghij"])
    'a, b, c, d, e, f, g, h and 2 more'
    """
    first = ", ".join(names[:_LISTED])
    return f"{first} and {len(names) - _LISTED} more" if len(names) > _LISTED else first
