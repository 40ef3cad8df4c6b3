"""The queries: each one before and after, the largest losses first."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr_report.blocks import Block, Chart, QueryList, QueryRow, Section, Table
from owpc_ltr_report.charts.changes import changes
from owpc_ltr_report.charts.dumbbells import dumbbells
from owpc_ltr_report.contest import Contest, Measure

MOST = 10_000
"""So many queries stand on a page: of more, those that changed most."""
SHOWN = 20
"""Queries that are drawn at a time."""
_LONGEST = 90
ROUNDING = 1e-12
_STEPS = (0.0, 0.05, 0.2, 0.5)


def queries_section(contest: Contest) -> Section | None:
    """Each query before and after; None without a baseline."""
    if contest.baseline is None or not contest.main_pairs:
        return None
    measure = contest.measures[0]
    after = contest.new.per_query[measure.name]
    before = contest.contestant(contest.baseline).per_query[measure.name]
    counted = np.flatnonzero(np.isfinite(after) & np.isfinite(before))
    if not len(counted):
        return None
    # Equal rankings summed in another order are equal.
    after = np.where(np.abs(after - before) <= ROUNDING, before, after)
    rows = _rows(contest, measure, before, after, counted)
    blocks: tuple[Block, ...] = (
        _changes(measure, (after - before)[counted]),
        QueryList(
            "per-query",
            measure.name,
            contest.baseline,
            contest.new.name,
            measure.higher_is_better,
            rows,
            len(counted),
            dumbbells(
                rows[:SHOWN],
                measure.name,
                higher_is_better=measure.higher_is_better,
                ends=measure.ends,
            ),
        ),
    )
    lead = (
        f"Each query's {measure.name} before ({contest.baseline}) and after ({contest.new.name}), "
        "the largest losses first: where it loses is where to look."
    )
    return Section("queries", "Queries", "Where does it win, and where does it lose?", lead, blocks)


def _rows(
    contest: Contest,
    measure: Measure,
    before: Vector,
    after: Vector,
    counted: np.ndarray[tuple[int], np.dtype[np.intp]],
) -> tuple[QueryRow, ...]:
    """The queries, the largest losses first; of too many, those in the middle are left out."""
    sign = 1.0 if measure.higher_is_better else -1.0
    order = counted[np.argsort(sign * (after - before)[counted], kind="stable")]
    if len(order) > MOST:
        order = np.concatenate([order[: MOST // 2], order[-(MOST // 2) :]])
    ids, texts = contest.query_ids, contest.query_texts
    return tuple(
        QueryRow(
            ids[place],
            _short(texts[place] if texts else ""),
            float(before[place]),
            float(after[place]),
        )
        for place in order.tolist()
    )


def _changes(measure: Measure, difference: Vector) -> Chart:
    """How many queries changed by how much."""
    gain = difference if measure.higher_is_better else -difference
    steps = np.array(_STEPS) * (measure.ends[1] - measure.ends[0])
    size = np.sign(gain) * np.searchsorted(steps, np.abs(gain), side="left")
    places = range(-len(_STEPS), len(_STEPS) + 1)
    rows = [
        (_change(place, steps), int((size == place).sum()), int(np.sign(place))) for place in places
    ]
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    same = len(gain) - better - worse
    return Chart(
        "changes",
        f"How many queries change, and by how much ({measure.name})",
        changes(rows),
        f"{better:,} queries get better, {worse:,} worse, {same:,} stay as they were.",
        Table("Queries by their change", ("change", "queries"), tuple(row[:2] for row in rows)),
    )


def _change(place: int, steps: Vector) -> str:
    """A step in words."""
    if not place:
        return "same"
    low = steps[abs(place) - 1]
    side = "better" if place > 0 else "worse"
    if abs(place) == len(steps):
        return f"{side} by > {low:g}"
    high = steps[abs(place)]
    return f"{side} by {low:g} to {high:g}" if low else f"{side} by ≤ {high:g}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
