"""Inspection: what `inspect` says of data: its figures, its columns, and each `Finding`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from owpc_ltr.data.html import bars, block, facts, line, table
from owpc_ltr.plain_text import (
    REPR_LINES,
    ShortRepr,
    printable,
    printable_lines,
    text_table,
    wrapped_text,
)
from owpc_ltr.signatures import option_name

Severity = Literal["warning", "note"]
WARNING: Severity = "warning"
NOTE: Severity = "note"

CHECKS = (
    "split-leak",
    "leak",
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
        told = f"{self.message} ({self.place})" if self.place else self.message
        return f"{told}: {self.advice}" if self.advice else told

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return asdict(self)


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


def _text(found: Inspection) -> str:
    """The figures, the features, the findings and the trials."""
    told = [f"{one.severity}: {one.line}" for one in found.findings] or ["nothing was found"]
    told += trials(found.canary, found.learning_curve)
    return "\n".join(
        [
            printable(", ".join(found.data.names)),
            *(f"  {name:<17} {value}" for name, value in figures(found.data)),
            "",
            *_feature_lines(found.features, all_features=found.all_features),
            "",
            *map(wrapped_text, told),
        ]
    )


def _feature_lines(features: Sequence[FeatureRow], *, all_features: bool) -> Iterator[str]:
    """A table whose first rows are the features that findings name."""
    ranked = sorted(features, key=lambda row: not row.checks)
    shown = features if all_features else ranked[:FEATURE_ROWS]
    yield text_table(_HEADERS, [_cells(row, digits=2) for row in shown])
    if len(shown) < len(features):
        yield f"and {len(features) - len(shown)} more: {option_name('all_features')} shows all"


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


def trials(canary: Canary | None, curve: LearningCurve | None) -> Iterator[str]:
    """What training showed."""
    if canary is not None:
        yield canary_line(canary)
    if curve is not None:
        yield curve_line(curve)


def canary_line(canary: Canary) -> str:
    """The gains of true and of shuffled labels."""
    true, shuffled = canary.true, canary.shuffled
    return (
        f"labels: {canary.metric} {true.mean:+.3f} [{true.low:+.3f}, {true.high:+.3f}] over a "
        f"random order ({canary.random:.3f}) by the default on held-out queries; of shuffled "
        f"labels {shuffled.mean:+.3f} [{shuffled.low:+.3f}, {shuffled.high:+.3f}]"
    )


def curve_line(curve: LearningCurve) -> str:
    """The learning curve on one line."""
    points = ", ".join(f"{point.queries:,} → {point.mean:.3f}" for point in curve.points)
    return f"learning curve: {curve.metric} by training queries {points}; {curve.told}"


def _grades(data: DataFigures) -> str:
    if len(data.grades) > _GRADES:
        return (
            f"{len(data.grades)} or more different ones, from {data.grades[0][0]:g} to "
            f"{data.grades[-1][0]:g}"
        )
    total = max(data.documents, 1)
    return ", ".join(f"{grade:g} × {n:,} ({_share(n / total)})" for grade, n in data.grades)


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def _html(found: Inspection) -> str:
    """A titled block; whatever names hold is escaped."""
    parts = [facts(figures(found.data))]
    told = [(one.severity, one.subject, one.line) for one in found.findings]
    parts.append(table(("", "what", "finding"), told) if told else line("nothing was found"))
    if found.canary is not None:
        parts.append(line(canary_line(found.canary)))
    curve = found.learning_curve
    if curve is not None:
        parts.append(bars([(f"{one.queries:,} queries", one.mean) for one in curve.points]))
        parts.append(line(curve.told))
    parts.append(table(_HEADERS, [_cells(feature, digits=3) for feature in found.features]))
    return block(f"Inspection of {', '.join(found.data.names)}", *parts)


_TOLD = 8


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are.

    >>> listed([*"abcdefghij"])
    'a, b, c, d, e, f, g, h and 2 more'
    """
    told = ", ".join(names[:_TOLD])
    return f"{told} and {len(names) - _TOLD} more" if len(names) > _TOLD else told
