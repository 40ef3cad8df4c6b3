"""The features: what the model makes of each, where they are missing, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.data.columns import ColumnFacts, column_facts
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.models.feature_use import features_used, importances
from owpc_ltr.protocols import Model
from owpc_ltr_report.blocks import Block, Cell, Chart, Gallery, Section, Table
from owpc_ltr_report.charts.bars import bars
from owpc_ltr_report.charts.curve import curve
from owpc_ltr_report.figures import plain
from owpc_ltr_report.shapes import Shape, has_own_curves, shapes_of

_DRAWN = 20
_CURVES = 9
_WHAT = {
    "weight": "weight × spread",
    "gain": "share of the gain",
    "span": "span of its curve",
    "splits": "splits",
}

_SAID = {
    "weight × spread": "weight times the feature's standard deviation",
    "share of the gain": "each feature's share of all that splits gained",
    "span of its curve": "how far apart the highest and the lowest are that its curve gives",
    "splits": "the number of splits that read a feature",
}


@dataclass(frozen=True)
class Importance:
    """One number for each feature, the largest first, and what it is."""

    what: str
    values: tuple[tuple[str, float], ...]


def features_section(
    name: str,
    model: Model,
    data: RankingDataset | None,
    costs: Mapping[str, float] | None = None,
    number: int = 0,
) -> Section | None:
    """What the model makes of its features; None of a kind that mixes them without telling."""
    found = importance_of(model, data)
    shapes = [] if data is None else shapes_of(model, data.features)
    blocks: list[Block] = []
    if found is not None:
        blocks.append(_drawn(found, number))
    if shapes:
        blocks.append(_curves(model, shapes, number))
    blocks.append(_table(model, found, data, costs or {}))
    used = len(features_used(model))
    return Section(
        "features" if number == 0 else f"features-{number}",
        "Features" if number == 0 else f"Features of {name}",
        f"What does {name} look at?",
        f"The model uses {used} of {len(model.feature_names)} features.",
        tuple(blocks),
    )


def importance_of(model: Model, data: RankingDataset | None) -> Importance | None:
    """One number a feature: of a linear model comparable ones, where the data tell the spread."""
    facts = importances(model)
    if not facts:
        return None
    keys = [
        key for key in ("weight", "gain", "span", "splits") if key in next(iter(facts.values()))
    ]
    if not keys:
        return None
    key = keys[0]
    values = {name: float(each.get(key, 0.0)) for name, each in facts.items()}
    what = _WHAT[key]
    if key == "weight":
        if data is None:
            what = "weight"
        else:
            spread = np.nan_to_num(data.features, nan=0.0).std(axis=0, dtype=np.float64)
            of_feature = dict(zip(data.feature_names, spread.tolist(), strict=True))
            values = {name: value * of_feature[name] for name, value in values.items()}
    ordered = sorted(values.items(), key=lambda item: -abs(item[1]))
    return Importance(what, tuple(item for item in ordered if item[1] != 0.0))


def _drawn(found: Importance, number: int) -> Chart:
    shown = found.values[:_DRAWN]
    told = ", ".join(f"{name} ({plain(value)})" for name, value in shown[:3])
    more = len(found.values) - len(shown)
    rest = f" Of {len(found.values)} the first {_DRAWN} are drawn." if more > 0 else ""
    return Chart(
        f"importance-{number}",
        "What weighs most",
        bars(shown, found.what),
        f"By {_SAID.get(found.what, found.what)}: most of all {told}.{rest}",
        Table("Features by what they weigh", ("feature", found.what), found.values),
    )


def _curves(model: Model, shapes: list[Shape], number: int) -> Gallery:
    shown = shapes[:_CURVES]
    low = min(float(shape.given.min()) for shape in shown)
    high = max(float(shape.given.max()) for shape in shown)
    charts = tuple(
        _curve(shape, (low, high), f"shape-{number}-{place}") for place, shape in enumerate(shown)
    )
    own = has_own_curves(model)
    title = (
        "The curves of the model: its score is their sum"
        if own
        else "The mean score, with one feature set to each value in turn"
    )
    more = f"Of {len(shapes)} the {_CURVES} with the largest span. " if shapes[_CURVES:] else ""
    note = f"{more}Zero is the middle of a curve; dashed is what a missing value gives."
    return Gallery(title, note, charts)


def _curve(shape: Shape, ends: tuple[float, float], name: str) -> Chart:
    points = list(zip(shape.values.tolist(), shape.gives.tolist(), strict=True))
    rows: list[tuple[Cell, ...]] = [(value, gives) for value, gives in points]
    if shape.missing is not None:
        rows.append(("missing", shape.missing))
    first, last = shape.gives[0], shape.gives[-1]
    way = "rises" if last > first else "falls" if last < first else "ends where it began"
    missing = "" if shape.missing is None else f"; missing gives {plain(shape.missing)}"
    return Chart(
        name,
        shape.feature,
        curve(points, shape.missing, ends),
        f"{way} from {plain(float(first))} to {plain(float(last))}{missing}",
        Table(f"Score by {shape.feature}", ("value", "score"), tuple(rows)),
    )


def _table(
    model: Model, found: Importance | None, data: RankingDataset | None, costs: Mapping[str, float]
) -> Table:
    facts = None if data is None else column_facts(data.features)
    used = features_used(model)
    weighs = dict(found.values) if found else {}
    order = [*weighs, *(name for name in model.feature_names if name not in weighs)]
    headers = ["feature", "used"]
    headers += [found.what] if found else []
    headers += ["lowest", "highest", "missing"] if facts else []
    headers += ["costs, ms"] if costs else []
    rows = []
    for name in order:
        row: list[Any] = [name, "yes" if name in used else "no"]
        row += [weighs.get(name, 0.0)] if found else []
        row += _facts_of(facts, model.feature_names.index(name)) if facts else []
        row += [costs.get(name)] if costs else []
        rows.append(tuple(row))
    return Table("All features", tuple(headers), tuple(rows))


def _facts_of(facts: ColumnFacts, column: int) -> list[Cell]:
    missing = facts.missing[column] / max(facts.rows, 1)
    return [float(facts.lowest[column]), float(facts.highest[column]), f"{missing:.1%}"]
