"""What an inspection consists of besides findings: figures, columns, and two trials."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataFigures:
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


@dataclass(frozen=True)
class FeatureRow:
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


@dataclass(frozen=True)
class LearningCurve:
    """How the metric grows with the training queries, and what `twice` as many would add.

    `told` says it in a sentence, also where nothing can be told.
    """

    metric: str
    held_out: int
    points: tuple[CurvePoint, ...]
    twice: Gain
    told: str
