"""How models use features: their importance, and curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.blocks import Row, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.host.report_parts import plain
from owpc_ltr.inspection.measures import column_facts
from owpc_ltr.models.analysis import features_used, importances
from owpc_ltr.models.combined import AverageModel, ReorderingModel
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.protocols import Model
from owpc_ltr_report.page import Chart, Section, drawing

CURVE_POINTS, CURVE_DOCUMENTS = 24, 300
"""Values of a feature at which a mean curve is computed, and documents that it is the mean of."""
_BARS = 20
_CURVES = 9
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


@dataclass(frozen=True)
class NamedModel:
    """A model or reranker, and what the page calls it."""

    name: str
    model: Model | ReorderingModel


def is_model(value: object) -> TypeGuard[Model | ReorderingModel]:
    """Whether it is a model or reranker, of any kind."""
    return all(hasattr(value, name) for name in ("kind", "feature_names", "record"))


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
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest output, that for a missing value too."""
        every = [*self.outputs.tolist(), *([] if self.missing is None else [self.missing])]
        return min(every), max(every)


def features_section(
    ranker: NamedModel, data: RankingDataset | None, costs: Mapping[str, float], number: int
) -> Section:
    """How the model uses its features; `costs` are milliseconds by feature."""
    model = ranker.model.base if isinstance(ranker.model, ReorderingModel) else ranker.model
    what, values = importance_of(model, data)
    bars_of = [_importance_chart(what, list(values.items()), number)] if what else []
    all_curves = [] if data is None else curves_of(model, data.features)
    curves = _curve_charts(all_curves[:_CURVES], number)
    used, names = features_used(model), model.feature_names
    order = [*values, *(name for name in names if name not in values)]
    columns: dict[str, Row] = {
        "feature": order,
        "used": ["yes" if name in used else "no" for name in order],
        **({what: [values.get(name, 0.0) for name in order]} if what else {}),
    }
    if data is not None:
        facts, places = column_facts(data.features), [names.index(name) for name in order]
        for header, ends in {"lowest": facts.lowest, "highest": facts.highest}.items():
            columns[header] = ends[places].astype(float).tolist()
        shares = facts.missing[places] / max(facts.rows, 1)
        columns["missing"] = [f"{share:.1%}" for share in shares]
    if costs:
        columns["cost, ms"] = [costs.get(name) for name in order]
    words = {
        "name": ranker.name,
        "used": len(used),
        "of": len(names),
        "n_curves": len(all_curves),
        "additive": isinstance(model, AdditiveModel),
        "bars": bars_of,
        "curves": curves,
        "columns": list(columns),
        "rows": list(zip(*columns.values(), strict=True)),
    }
    return Section("features", [*bars_of, *curves], words, number, macro="features")


def importance_of(model: Model, data: RankingDataset | None) -> tuple[str, dict[str, float]]:
    """What measures importance ("": nothing), and one number per feature, the largest first.

    Weights of a linear model are scaled by the spread in the data.
    """
    measures_of = importances(model)
    measured = {name for measures in measures_of.values() for name in measures}
    key = next((key for key in _IMPORTANCE if key in measured), None)
    if key is None:
        return "", {}
    values = {name: float(measures.get(key, 0.0)) for name, measures in measures_of.items()}
    if key == "weight" and data is not None:
        spread = np.nan_to_num(data.features, nan=0.0).std(axis=0, dtype=np.float64).tolist()
        for name, of_feature in zip(data.feature_names, spread, strict=True):
            values[name] *= of_feature
    ordered = sorted(values.items(), key=lambda item: -abs(item[1]))
    what = key if key == "weight" and data is None else _IMPORTANCE[key][0]
    return what, {name: value for name, value in ordered if value != 0.0}


def _importance_chart(what: str, rows: list[tuple[str, float]], number: int) -> Chart:
    first = ", ".join(f"{name} ({plain(value)})" for name, value in rows[:3])
    sentence = f"By {dict(_IMPORTANCE.values()).get(what, what)}: {first}."
    if len(rows) > _BARS:
        sentence += f" The chart has the first {_BARS} of {len(rows)}."
    table = Table(("feature", what), rows, "Features by importance")
    spec = drawing("bars", rows[:_BARS], title=what)
    return Chart(f"importance-{number}", "The most important features", spec, sentence, table)


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
        named = ((name, model.curves[name]) for name in model.feature_names if name in model.curves)
        curves = [_centred(name, curve.knots, curve.values, curve.missing) for name, curve in named]
    else:
        curves = list(_mean_curves(model, features, seed))
    spans = [(high - low, curve) for curve in curves for low, high in [curve.ends]]
    return [curve for span, curve in sorted(spans, key=lambda item: -item[0]) if span > 0]


def _centred(name: str, values: Vector, outputs: Vector, missing: float | None) -> FeatureCurve:
    middle = float(np.median(outputs))
    missing = None if missing is None else missing - middle
    return FeatureCurve(name, values, outputs - middle, missing)


def _mean_curves(model: Model, features: Matrix, seed: int) -> Iterator[FeatureCurve]:
    """Each feature in turn is set to each of its values, in all documents of the sample at once."""
    random, shares = np.random.default_rng(seed), np.linspace(0.0, 1.0, CURVE_POINTS)
    rows = random.choice(len(features), min(CURVE_DOCUMENTS, len(features)), replace=False)
    sample = np.ascontiguousarray(features[np.sort(rows)])
    for column, name in enumerate(model.feature_names):
        inputs = features[:, column].astype(np.float64)
        finite, gaps = inputs[np.isfinite(inputs)], bool(np.isnan(inputs).any())
        values = np.unique(np.quantile(finite, shares)) if len(finite) else finite
        if len(values) + gaps < 2:
            continue
        inputs = np.append(values, np.nan) if gaps else values
        many = np.tile(sample, (len(inputs), 1))
        many[:, column] = np.repeat(inputs, len(sample)).astype(many.dtype)
        means = model.score(many).reshape(len(inputs), len(sample)).mean(axis=1)
        missing = float(means[-1]) if gaps else None
        yield _centred(name, values, means[: len(values)], missing)


def _curve_charts(curves: Sequence[FeatureCurve], number: int) -> list[Chart]:
    """Curves on the same vertical axis."""
    charts, outputs = [], [end for curve in curves for end in curve.ends]
    for place, curve in enumerate(curves):
        rows: list[Row] = list(zip(curve.values.tolist(), curve.outputs.tolist(), strict=True))
        domain = min(outputs), max(outputs)
        spec = drawing("feature_curve", rows, missing=curve.missing, domain=domain)
        first, last = float(curve.outputs[0]), float(curve.outputs[-1])
        way = "rises" if last > first else "falls" if last < first else "returns"
        sentence = f"{way} from {plain(first)} to {plain(last)}"
        if curve.missing is not None:
            sentence += f"; missing gives {plain(curve.missing)}"
            rows.append(("missing", curve.missing))
        table = Table(("value", "score"), rows, f"Score by {curve.feature}")
        charts.append(Chart(f"shape-{number}-{place}", curve.feature, spec, sentence, table))
    return charts
