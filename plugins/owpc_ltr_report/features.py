"""Features and scores: importance, curves, and the scores of relevant documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.columns import ColumnFacts, column_facts
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.models.additive import AdditiveModel
from owpc_ltr.models.average import AverageModel
from owpc_ltr.models.feature_use import features_used, importances
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Model
from owpc_ltr_report.blocks import Block, Cell, Chart, Gallery, Section, Table, plain
from owpc_ltr_report.charts import bars, feature_curve, histogram

CURVE_POINTS = 24
"""Values of a feature at which a mean curve is computed."""
CURVE_DOCUMENTS = 300
"""Documents over which a mean curve is the mean."""
_BARS = 20
_CURVES = 9
_BINS = 40
_TAIL = 0.002
_IMPORTANCE = {
    "weight": "weight × spread",
    "gain": "share of the gain",
    "span": "span of its curve",
    "splits": "splits",
}
_IMPORTANCE_WORDS = {
    "weight × spread": "weight times the feature's standard deviation",
    "share of the gain": "each feature's share of the gain of all splits",
    "span of its curve": "the distance between the highest and the lowest point of its curve",
    "splits": "the number of splits that read a feature",
}


@dataclass(frozen=True)
class Importance:
    """One number for each feature, the largest first, and what it measures."""

    what: str
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class FeatureCurve:
    """A model's output by the value of one feature; `missing` for a missing one.

    The median of the outputs is 0: only differences rank.
    """

    feature: str
    values: Vector
    outputs: Vector
    missing: float | None

    @property
    def all_outputs(self) -> Vector:
        """All outputs, that for a missing value too."""
        return self.outputs if self.missing is None else np.append(self.outputs, self.missing)

    @property
    def span(self) -> float:
        """The distance between the lowest and the highest output."""
        return float(np.ptp(self.all_outputs))


def features_section(
    name: str,
    model: Model,
    data: RankingDataset | None,
    costs: Mapping[str, float] | None = None,
    number: int = 0,
) -> Section:
    """How the model uses its features; `costs` are milliseconds by feature."""
    importance = importance_of(model, data)
    curves = [] if data is None else curves_of(model, data.features)
    blocks: list[Block] = []
    if importance is not None:
        blocks.append(_importance_chart(importance, number))
    if curves:
        blocks.append(_gallery(model, curves, number))
    blocks.append(_table(model, importance, data, costs or {}))
    used = len(features_used(model))
    return Section(
        "features" if number == 0 else f"features-{number}",
        "Features" if number == 0 else f"Features of {name}",
        f"Which features does {name} use?",
        f"The model uses {used} of {len(model.feature_names)} features.",
        tuple(blocks),
    )


def importance_of(model: Model, data: RankingDataset | None) -> Importance | None:
    """One number per feature; weights of a linear model are scaled by the spread in the data."""
    facts = importances(model)
    first = next(iter(facts.values()), {})
    key = next((key for key in _IMPORTANCE if key in first), None)
    if key is None:
        return None
    values = {name: float(each.get(key, 0.0)) for name, each in facts.items()}
    what = _IMPORTANCE[key]
    if key == "weight":
        if data is None:
            what = "weight"
        else:
            spread = np.nan_to_num(data.features, nan=0.0).std(axis=0, dtype=np.float64)
            of_feature = dict(zip(data.feature_names, spread.tolist(), strict=True))
            values = {name: value * of_feature[name] for name, value in values.items()}
    ordered = sorted(values.items(), key=lambda item: -abs(item[1]))
    return Importance(what, tuple(item for item in ordered if item[1] != 0.0))


def _importance_chart(found: Importance, number: int) -> Chart:
    first = ", ".join(f"{name} ({plain(value)})" for name, value in found.values[:3])
    rest = ""
    if len(found.values) > _BARS:
        rest = f" The chart has the first {_BARS} of {len(found.values)}."
    return Chart(
        f"importance-{number}",
        "The most important features",
        bars(found.values[:_BARS], found.what),
        f"By {_IMPORTANCE_WORDS.get(found.what, found.what)}: {first}.{rest}",
        Table("Features by importance", ("feature", found.what), found.values),
    )


def curves_of(model: Model, features: Matrix, seed: int = 0) -> list[FeatureCurve]:
    """The curves of the features that the model uses, the largest span first.

    Of an additive model its own curves. Of trees, averages and networks the mean score over some
    documents whose feature is set to each value in turn (partial dependence; Friedman 2001). Of a
    linear model none: its weights suffice.
    """
    parts = model.parts if isinstance(model, AverageModel) else (model,)
    if all(isinstance(part, LinearModel) for part in parts):
        return []
    if isinstance(model, AdditiveModel):
        found = [_own_curve(model, name) for name in model.feature_names if name in model.curves]
    else:
        found = _mean_curves(model, features, seed)
    return sorted((curve for curve in found if curve.span > 0), key=lambda curve: -curve.span)


def _own_curve(model: AdditiveModel, name: str) -> FeatureCurve:
    curve = model.curves[name]
    middle = float(np.median(curve.values))
    return FeatureCurve(name, curve.knots, curve.values - middle, curve.missing - middle)


def _mean_curves(model: Model, features: Matrix, seed: int) -> list[FeatureCurve]:
    """Each feature in turn is set to each of its values, in all documents of the sample at once."""
    random = np.random.default_rng(seed)
    rows = random.choice(len(features), min(CURVE_DOCUMENTS, len(features)), replace=False)
    sample = np.ascontiguousarray(features[np.sort(rows)])
    found = []
    for column, name in enumerate(model.feature_names):
        values = _quantiles(features[:, column])
        gaps = bool(np.isnan(features[:, column]).any())
        if len(values) + gaps < 2:
            continue
        inputs = np.append(values, np.nan) if gaps else values
        many = np.tile(sample, (len(inputs), 1))
        many[:, column] = np.repeat(inputs, len(sample)).astype(many.dtype)
        means = model.score(many).reshape(len(inputs), len(sample)).mean(axis=1)
        middle = float(np.median(means[: len(values)]))
        missing = float(means[-1]) - middle if gaps else None
        found.append(FeatureCurve(name, values, means[: len(values)] - middle, missing))
    return found


def _quantiles(column: Vector | Matrix) -> Vector:
    """Evenly spaced quantiles of a column, the lowest and the highest value included."""
    known = column[np.isfinite(column)].astype(np.float64)
    if not len(known):
        return np.zeros(0)
    return np.asarray(np.unique(np.quantile(known, np.linspace(0.0, 1.0, CURVE_POINTS))))


def _gallery(model: Model, curves: list[FeatureCurve], number: int) -> Gallery:
    first = curves[:_CURVES]
    low = min(float(curve.all_outputs.min()) for curve in first)
    high = max(float(curve.all_outputs.max()) for curve in first)
    charts = tuple(
        _curve_chart(curve, (low, high), f"shape-{number}-{place}")
        for place, curve in enumerate(first)
    )
    title = "The mean score, with one feature set to each value in turn"
    if isinstance(model, AdditiveModel):
        title = "The curves of the model: its score is their sum"
    more = f"The {_CURVES} of {len(curves)} with the largest span. " if curves[_CURVES:] else ""
    note = f"{more}Zero is the median of a curve; the dashed line is a missing value."
    return Gallery(title, note, charts)


def _curve_chart(curve: FeatureCurve, domain: tuple[float, float], name: str) -> Chart:
    points = list(zip(curve.values.tolist(), curve.outputs.tolist(), strict=True))
    rows: list[tuple[Cell, ...]] = list(points)
    if curve.missing is not None:
        rows.append(("missing", curve.missing))
    first, last = float(curve.outputs[0]), float(curve.outputs[-1])
    way = "rises" if last > first else "falls" if last < first else "returns"
    missing = "" if curve.missing is None else f"; missing gives {plain(curve.missing)}"
    return Chart(
        name,
        curve.feature,
        feature_curve(points, curve.missing, domain),
        f"{way} from {plain(first)} to {plain(last)}{missing}",
        Table(f"Score by {curve.feature}", ("value", "score"), tuple(rows)),
    )


def _table(
    model: Model, found: Importance | None, data: RankingDataset | None, costs: Mapping[str, float]
) -> Table:
    facts = None if data is None else column_facts(data.features)
    used = features_used(model)
    values = dict(found.values) if found else {}
    order = [*values, *(name for name in model.feature_names if name not in values)]
    headers = ["feature", "used"]
    headers += [found.what] if found else []
    headers += ["lowest", "highest", "missing"] if facts else []
    headers += ["cost, ms"] if costs else []
    rows = []
    for name in order:
        row: list[Any] = [name, "yes" if name in used else "no"]
        row += [values.get(name, 0.0)] if found else []
        row += _facts_of(facts, model.feature_names.index(name)) if facts else []
        row += [costs.get(name)] if costs else []
        rows.append(tuple(row))
    return Table("All features", tuple(headers), tuple(rows))


def _facts_of(facts: ColumnFacts, column: int) -> list[Cell]:
    missing = facts.missing[column] / max(facts.rows, 1)
    return [float(facts.lowest[column]), float(facts.highest[column]), f"{missing:.1%}"]


def scores_section(name: str, scores: Vector, data: RankingDataset) -> Section | None:
    """Scores of relevant documents and of others, each less its query's mean.

    None where one of the two has no document.
    """
    relevant = data.labels > 0
    if not relevant.any() or relevant.all() or not np.isfinite(scores).all():
        return None
    centred = centred_scores(scores, data)
    edges, shares = score_histogram(centred, relevant)
    title = "Scores of relevant documents and of the others"
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (float(edge), *(f"{share[place]:.2%}" for share in shares.values()))
        for place, edge in enumerate(edges[:-1])
    )
    chart = Chart(
        "scores",
        title,
        histogram(edges.tolist(), shares, "score less the mean of its query", "share"),
        f"Of a relevant document and another one of the same query, the relevant one has the "
        f"higher score in {_right_pairs(centred, relevant, data):.1%} of all pairs.",
        Table(title, ("score from", *(f"share of {group}" for group in shares)), rows),
    )
    lead = (
        f"The further the two are apart, the better {name} separates relevant documents. Scores "
        "are less the mean of their query, since a ranking compares documents of one query alone."
    )
    question = "Does the score separate relevant documents from others?"
    return Section("scores", "Scores", question, lead, (chart,))


def centred_scores(scores: Vector, data: RankingDataset) -> Vector:
    """Each score less the mean of its query."""
    sizes = np.diff(data.offsets)
    means = np.add.reduceat(scores, data.offsets[:-1]) / sizes
    return np.asarray(scores - np.repeat(means, sizes))


def score_histogram(
    scores: Vector, relevant: NDArray[np.bool_]
) -> tuple[Vector, dict[str, list[float]]]:
    """Edges of bins, and the share of each group in them; outliers count in the outer bins."""
    low, high = np.quantile(scores, [_TAIL, 1 - _TAIL])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, _BINS + 1)
    clipped = np.clip(scores, low, high)
    groups = {"other documents": ~relevant, "relevant documents": relevant}
    shares = {
        name: (np.histogram(clipped[group], edges)[0] / group.sum()).tolist()
        for name, group in groups.items()
    }
    return edges, shares


def _right_pairs(scores: Vector, relevant: NDArray[np.bool_], data: RankingDataset) -> float:
    """The share of pairs of one query that the scores order rightly; a tie counts half.

    By the ranks in one sort over all queries (Mann & Whitney 1947).
    """
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    order = np.lexsort((scores, query))
    sorted_query, sorted_scores = query[order], scores[order]
    starts = np.flatnonzero(
        np.r_[True, (np.diff(sorted_query) != 0) | (np.diff(sorted_scores) != 0)]
    )
    sizes = np.diff(np.r_[starts, len(order)])
    rank = np.empty(len(order))
    within = starts - data.offsets[:-1][sorted_query[starts]]
    rank[order] = np.repeat(within + (sizes - 1) / 2, sizes)
    n_relevant = np.add.reduceat(relevant.astype(np.int64), data.offsets[:-1])
    n_other = np.diff(data.offsets) - n_relevant
    sums = np.add.reduceat(np.where(relevant, rank, 0.0), data.offsets[:-1])
    right = sums - n_relevant * (n_relevant - 1) / 2
    return float(right.sum() / (n_relevant * n_other).sum())
