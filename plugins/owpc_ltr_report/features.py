"""Features and scores: importance, curves, and the scores of relevant documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.columns import column_facts
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.models.average import AverageModel
from owpc_ltr.models.feature_use import features_used, importances
from owpc_ltr.models.linear import AdditiveModel, LinearModel
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
    "weight": ("weight × spread", "weight times the feature's standard deviation"),
    "gain": ("share of the gain", "each feature's share of the gain of all splits"),
    "span": (
        "span of its curve",
        "the distance between the highest and the lowest point of its curve",
    ),
    "splits": ("splits", "the number of splits that read a feature"),
}
"""The name of each measure of importance, and what it is."""


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
    what, values = importance_of(model, data)
    curves = [] if data is None else curves_of(model, data.features)
    blocks: list[Block] = []
    if what:
        blocks.append(_importance_chart(what, list(values.items()), number))
    if curves:
        blocks.append(_gallery(model, curves, number))
    blocks.append(_table(model, what, values, data, costs or {}))
    anchor = "features" if number == 0 else f"features-{number}"
    short = "Features" if number == 0 else f"Features of {name}"
    used = len(features_used(model))
    lead = f"The model uses {used} of {len(model.feature_names)} features."
    return Section(anchor, short, f"Which features does {name} use?", lead, blocks)


def importance_of(model: Model, data: RankingDataset | None) -> tuple[str, dict[str, float]]:
    """What measures importance ("": nothing), and one number per feature, the largest first.

    Weights of a linear model are scaled by the spread in the data.
    """
    found = importances(model)
    first = next(iter(found.values()), {})
    key = next((key for key in _IMPORTANCE if key in first), None)
    if key is None:
        return "", {}
    values = {name: float(each.get(key, 0.0)) for name, each in found.items()}
    what, _ = _IMPORTANCE[key]
    if key == "weight" and data is None:
        what = key
    elif key == "weight" and data is not None:
        spread = np.nan_to_num(data.features, nan=0.0).std(axis=0, dtype=np.float64)
        of_feature = dict(zip(data.feature_names, spread.tolist(), strict=True))
        values = {name: value * of_feature[name] for name, value in values.items()}
    ordered = sorted(values.items(), key=lambda item: -abs(item[1]))
    return what, {name: value for name, value in ordered if value != 0.0}


def _importance_chart(what: str, rows: list[tuple[str, float]], number: int) -> Chart:
    words = dict(_IMPORTANCE.values()).get(what, what)
    first = ", ".join(f"{name} ({plain(value)})" for name, value in rows[:3])
    sentence = f"By {words}: {first}."
    if len(rows) > _BARS:
        sentence += f" The chart has the first {_BARS} of {len(rows)}."
    table = Table("Features by importance", ("feature", what), rows)
    title = "The most important features"
    return Chart(f"importance-{number}", title, bars(rows[:_BARS], what), sentence, table)


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
        own = ((name, model.curves[name]) for name in model.feature_names if name in model.curves)
        found = [_centred(name, one.knots, one.values, one.missing) for name, one in own]
    else:
        found = list(_mean_curves(model, features, seed))
    return sorted((curve for curve in found if curve.span > 0), key=lambda curve: -curve.span)


def _centred(name: str, values: Vector, outputs: Vector, missing: float | None) -> FeatureCurve:
    middle = float(np.median(outputs))
    return FeatureCurve(
        name, values, outputs - middle, None if missing is None else missing - middle
    )


def _mean_curves(model: Model, features: Matrix, seed: int) -> Iterator[FeatureCurve]:
    """Each feature in turn is set to each of its values, in all documents of the sample at once."""
    random = np.random.default_rng(seed)
    rows = random.choice(len(features), min(CURVE_DOCUMENTS, len(features)), replace=False)
    sample = np.ascontiguousarray(features[np.sort(rows)])
    for column, name in enumerate(model.feature_names):
        known = features[:, column][np.isfinite(features[:, column])].astype(np.float64)
        shares = np.linspace(0.0, 1.0, CURVE_POINTS)
        values = np.unique(np.quantile(known, shares)) if len(known) else known
        gaps = bool(np.isnan(features[:, column]).any())
        if len(values) + gaps < 2:
            continue
        inputs = np.append(values, np.nan) if gaps else values
        many = np.tile(sample, (len(inputs), 1))
        many[:, column] = np.repeat(inputs, len(sample)).astype(many.dtype)
        means = model.score(many).reshape(len(inputs), len(sample)).mean(axis=1)
        missing = float(means[-1]) if gaps else None
        yield _centred(name, values, means[: len(values)], missing)


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
    (_, first), (_, last) = points[0], points[-1]
    way = "rises" if last > first else "falls" if last < first else "returns"
    sentence, rows = f"{way} from {plain(first)} to {plain(last)}", [*points]
    if curve.missing is not None:
        sentence += f"; missing gives {plain(curve.missing)}"
        rows.append(("missing", curve.missing))
    table = Table(f"Score by {curve.feature}", ("value", "score"), rows)
    spec = feature_curve(points, curve.missing, domain)
    return Chart(name, curve.feature, spec, sentence, table)


def _table(
    model: Model,
    what: str,
    values: Mapping[str, float],
    data: RankingDataset | None,
    costs: Mapping[str, float],
) -> Table:
    """A row per feature: those of importance first."""
    used = features_used(model)
    order = [*values, *(name for name in model.feature_names if name not in values)]
    columns: dict[str, list[Cell]] = {
        "feature": [*order], "used": ["yes" if name in used else "no" for name in order]
    }  # fmt: skip
    if what:
        columns[what] = [values.get(name, 0.0) for name in order]
    if data is not None:
        known = column_facts(data.features)
        places = [model.feature_names.index(name) for name in order]
        columns["lowest"] = [float(known.lowest[place]) for place in places]
        columns["highest"] = [float(known.highest[place]) for place in places]
        of = max(known.rows, 1)
        columns["missing"] = [f"{known.missing[place] / of:.1%}" for place in places]
    if costs:
        columns["cost, ms"] = [costs.get(name) for name in order]
    return Table("All features", tuple(columns), tuple(zip(*columns.values(), strict=True)))


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
    rows: list[tuple[Cell, ...]] = [
        (float(edge), *(f"{share:.2%}" for share in of_bin))
        for edge, *of_bin in zip(edges[:-1], *shares.values(), strict=True)
    ]
    sentence = (
        "Of a relevant document and another one of the same query, the relevant one has the "
        f"higher score in {_right_pairs(centred, relevant, data):.1%} of all pairs."
    )
    spec = histogram(edges.tolist(), shares, "score less the mean of its query", "share")
    table = Table(title, ("score from", *(f"share of {group}" for group in shares)), rows)
    lead = (
        f"The further the two are apart, the better {name} separates relevant documents. Scores "
        "are less the mean of their query, since a ranking compares documents of one query alone."
    )
    question = "Does the score separate relevant documents from others?"
    chart = Chart("scores", title, spec, sentence, table)
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
