"""The smallest change of one feature by which a document would be above another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.explanations.contributions import breakpoints
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import Model
from owpc_ltr.text import ShortRepr

Single = NDArray[np.float32]
Lead = Callable[[NDArray[np.int64], Single], tuple[Vector, Vector]]
"""For each of some columns and new values of it: by how much the document then leads, its score."""

_GRID = 32
"""At how many points a feature is tried in which a score bends everywhere."""


@dataclass(frozen=True)
class ValueChange:
    """One feature changed, all else as it is: from `value` to `needed`, which gives `score`.

    `needed` is the nearest value that does it, of those within what was seen of the feature;
    `share` how far that is, as a share of the range that was seen. A missing `value` is NaN.
    """

    feature: str
    value: float
    needed: float
    score: float
    share: float


@dataclass(frozen=True, repr=False)
class ToPass(ShortRepr):
    """What would bring a document above another: changes that each do it alone, nearest first.

    No changes: none of its features could, alone. `seen` says where the ranges of the features that
    were looked at are from.
    """

    document_id: str
    title: str
    rank: int
    score: float
    changes: tuple[ValueChange, ...]
    seen: str

    def as_dict(self) -> dict[str, Any]:
        """What would do it, as JSON."""
        return asdict(self)


def smallest_changes(
    row: Single,
    names: Sequence[str],
    ranges: Vector,
    bends: Sequence[Sequence[Vector] | None],
    lead: Lead,
) -> tuple[ValueChange, ...]:
    """For each feature that can by itself bring a document into the lead, the nearest value.

    `ranges` (2, n_features) are what each may be; `bends` where the lead bends or jumps in each
    feature, between which it is straight (None: anywhere, and it is tried on a grid). Exact to the
    last bit of a float32, which features are. A missing value counts as 0 where distances are
    measured from it. Nearest in shares of the ranges come first.
    """
    filled = np.where(np.isnan(row), np.float32(0), row).astype(np.float32)
    columns, starts, ends = _brackets(filled, ranges, bends, lead)
    values = _bisected(columns, starts, ends, lead)
    _, scores = lead(columns, values)
    width = np.maximum(ranges[1] - ranges[0], np.finfo(np.float32).tiny)[columns]
    shares = np.abs(values.astype(np.float64) - filled[columns]) / width
    changes: dict[int, ValueChange] = {}
    for place in np.argsort(shares, kind="stable").tolist():
        column = int(columns[place])
        change = ValueChange(
            names[column], float(row[column]), float(values[place]), float(scores[place]),
            float(shares[place]),
        )  # fmt: skip
        changes.setdefault(column, change)
    return tuple(changes.values())


def _brackets(
    filled: Single, ranges: Vector, bends: Sequence[Sequence[Vector] | None], lead: Lead
) -> tuple[NDArray[np.int64], Single, Single]:
    """Neighbouring points, the second in the lead and the first not: the nearest up, and down."""
    points = [_points(filled[c], ranges[:, c], bend) for c, bend in enumerate(bends)]
    columns = np.repeat(np.arange(len(points)), [len(tried) for tried in points])
    leads = lead(columns, np.concatenate(points))[0] > 0
    brackets: list[tuple[int, np.float32, np.float32]] = []
    for column, tried in enumerate(points):
        ahead = leads[columns == column]
        start = int(np.searchsorted(tried, filled[column]))
        for step in (1, -1):
            place = start
            while 0 <= place < len(tried) and not ahead[place]:
                place += step
            if 0 <= place < len(tried):
                before = place if place == start else place - step
                brackets.append((column, tried[before], tried[place]))
    bracket_columns = np.array([bracket[0] for bracket in brackets], dtype=np.int64)
    starts, ends = (
        np.array([bracket[k] for bracket in brackets], dtype=np.float32) for k in (1, 2)
    )
    return bracket_columns, starts, ends


def _points(value: np.float32, ends: Vector, bend: Sequence[Vector] | None) -> Single:
    """Where a feature is tried: its value, the ends of its range, and both sides of each bend."""
    low, high = ends.astype(np.float32)
    if bend is None:
        tried = np.linspace(low, high, _GRID, dtype=np.float32)
    else:
        inside = np.concatenate([[low, high], *bend]).astype(np.float32)
        tried = np.append(inside, np.nextafter(inside, np.float32(-np.inf)))
    tried = tried[(tried >= low) & (tried <= high)]
    return np.unique(np.append(tried, value).astype(np.float32))


def _bisected(columns: NDArray[np.int64], starts: Single, ends: Single, lead: Lead) -> Single:
    """Of each bracket the value next to its start that leads: halved until they are neighbours."""
    behind, ahead = _ordinals(starts), _ordinals(ends)
    while (np.abs(ahead - behind) > 1).any():
        middle = behind + (ahead - behind) // 2
        leads = lead(columns, _singles(middle))[0] > 0
        apart = np.abs(ahead - behind) > 1
        ahead = np.where(apart & leads, middle, ahead)
        behind = np.where(apart & ~leads, middle, behind)
    return _singles(ahead)


def _ordinals(values: Single) -> NDArray[np.int64]:
    """The place of each float32 among all of them, in order."""
    bits = values.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _singles(ordinals: NDArray[np.int64]) -> Single:
    bits = np.where(ordinals < 0, np.abs(ordinals) | 0x80000000, ordinals)
    return bits.astype(np.uint32).view(np.float32)


_ROWS = 20_000
"""About how many rows are reranked at a time."""


def ways_past(
    ranker: Model | ReorderingModel,
    features: Matrix,
    fields: Fields,
    *,
    place: int,
    target: int,
    shown: tuple[str, str, float],
) -> ToPass:
    """The changes that each bring the document at `place` above that at `target`.

    `shown` is the target's id, title and score. Where a reranker looks at the whole list, all of
    it is reranked for each change.
    """
    ranges, seen = _ranges(ranker, features)
    columns = range(len(ranker.feature_names))
    if isinstance(ranker, ReorderingModel) and ranker.reordering is not None:
        lead = _lead_in_list(ranker, features, fields, place, target)
        # A list bends a score anywhere.
        bends = [None for _ in columns]
        changes = smallest_changes(features[place], ranker.feature_names, ranges, bends, lead)
    else:
        model = ranker.base if isinstance(ranker, ReorderingModel) else ranker
        breaks = [breakpoints(model, features[place], column) for column in columns]
        lead = _lead_alone(model, features, place, target)
        changes = smallest_changes(features[place], ranker.feature_names, ranges, breaks, lead)
    document, title, score = shown
    return ToPass(
        document_id=document, title=title, rank=target + 1, score=score, changes=changes, seen=seen
    )


def _lead_alone(model: Model, features: Matrix, place: int, target: int) -> Lead:
    """The lead where each document has a score of its own."""
    mark = float(model.score(features[target : target + 1])[0])

    def lead(columns: NDArray[np.int64], values: Single) -> tuple[Vector, Vector]:
        rows = np.repeat(features[place : place + 1], len(columns), axis=0)
        rows[np.arange(len(columns)), columns] = values
        scores = model.score(rows)
        return scores - mark, scores

    return lead


def _lead_in_list(
    ranker: ReorderingModel, features: Matrix, fields: Fields, place: int, target: int
) -> Lead:
    """The lead where a change of one document may move all others."""
    size = len(features)
    most = max(1, _ROWS // size)

    def some(columns: NDArray[np.int64], values: Single) -> tuple[Vector, Vector]:
        count = len(columns)
        lists = np.tile(features, (count, 1))
        lists[np.arange(count) * size + place, columns] = values
        again = {name: list(each) * count for name, each in fields.items()}
        scores = ranker.rerank(lists, np.arange(count + 1) * size, again).reshape(count, size)
        return scores[:, place] - scores[:, target], scores[:, place]

    def lead(columns: NDArray[np.int64], values: Single) -> tuple[Vector, Vector]:
        cuts = range(0, len(columns), most)
        parts = [some(columns[c : c + most], values[c : c + most]) for c in cuts]
        if not parts:
            return np.zeros(0), np.zeros(0)
        leads, scores = zip(*parts, strict=True)
        return np.concatenate(leads), np.concatenate(scores)

    return lead


def _ranges(ranker: Model | ReorderingModel, features: Matrix) -> tuple[Vector, str]:
    """Lowest and highest values (2, n_features) of each feature, and where they were seen."""
    records = [ranker.record]
    if isinstance(ranker, ReorderingModel):
        records.append(ranker.base.record)
    for record in records:
        ranges = _recorded(record, features.shape[1])
        if ranges is not None:
            return ranges, "in training"
    present = ~np.isnan(features)
    low = np.where(present, features, np.inf).min(axis=0)
    high = np.where(present, features, -np.inf).max(axis=0)
    nothing = ~present.any(axis=0)
    ends = np.stack([np.where(nothing, 0.0, low), np.where(nothing, 0.0, high)])
    return ends.astype(np.float64), "in this list"


def _recorded(record: Mapping[str, object], width: int) -> Vector | None:
    """The ranges that training saw, where the record has them."""
    try:
        ranges = np.asarray(record.get("feature_ranges"), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    fit = (
        ranges.shape == (2, width) and np.isfinite(ranges).all() and (ranges[0] <= ranges[1]).all()
    )
    return ranges if fit else None
