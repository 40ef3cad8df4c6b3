"""Sections on models: how each was trained and where it is from, and how it uses its features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeGuard

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.blocks import WARNING, FactList, Row, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.host.report_parts import configured, plain
from owpc_ltr.inspection.measures import column_facts
from owpc_ltr.models.analysis import features_used, importances
from owpc_ltr.models.combined import AverageModel, ReorderingModel
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.model_file import warnings_of
from owpc_ltr.protocols import Model
from owpc_ltr.training.plan import C
from owpc_ltr_report.page import (
    Chart,
    PageBlock,
    PageVerdict,
    Section,
    amount,
    drawing,
    finite,
    kind_verdict,
    known,
    lines,
    part_of,
    section_of,
)

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


_C_AXIS = "C (less regularised to the right)"
_ORIGIN = {
    "owpc_ltr": "trained by owpc-ltr",
    "seed": "seed",
    "normalise": "features scaled",
    "missing": "missing values",
    "fingerprint": "training data",
    "featureset_hash": "feature set",
}
_CERTIFICATE = {
    "objective": "training objective",
    "gap": "duality gap",
    "relative_gap": "duality gap / gain of training",
    "risk_ratio": "risk / risk of the all-tied baseline",
    "passes": "passes",
    "nonzero_duals": "non-zero duals",
    "stop_reason": "reason for stopping",
}
Record = Mapping[str, Any]
"""The training record of a model file, of which any part may be absent or malformed."""


def training_section(ranker: NamedModel, number: int) -> Section | None:
    """How a ranker was trained; None without a record."""
    record, tried = ranker.model.record, _objects(ranker.model.record, "table")
    if not tried and not _parts(record):
        return None
    metric, value = _metric(record), finite(record.get("validation"))
    lead = "The settings were given: none were selected."
    if isinstance(record.get("kinds"), Mapping):
        lead = f"Folds of the queries chose the kind of model and its settings by {metric}."
    elif len(tried) > 1:
        lead = (
            f"{len(tried)} candidates were tried; the one with the best {metric} on validation "
            "queries was selected."
        )
    facts = FactList(
        [
            *_parts(record),
            (f"validation {metric}", amount(value) if isinstance(value, float) else None),
            *_fit_facts(record),
        ]
    )
    charts = *_candidates(tried, record), *_by_pass(record)
    blocks: list[PageBlock] = [
        facts,
        *(f"{WARNING}{message}" for message in warnings_of(record)),
        *(replace(chart, name=f"{chart.name}-{number}") for chart in charts),
    ]
    title, name = f"How was {ranker.name} trained?", ranker.name
    return section_of("training", title, lead, blocks, number=number, name=name)


def _fit_facts(record: Record) -> Iterator[tuple[str, str | None]]:
    """The queries of the training, the basis, and how the fit ended."""
    basis, certificate = part_of(record, "basis"), part_of(record, "certificate")
    if record.get("queries") is not None:
        sizes = f"{plain(record['queries'])} queries, {plain(record.get('documents'))} documents"
        yield "trained on", sizes
    if basis:
        yield "basis", f"{basis.get('name')} of {basis.get('knots')} knots"
    for name, words in _CERTIFICATE.items():
        yield words, known(certificate, name)


def training_verdict(ranker: NamedModel) -> PageVerdict | None:
    """The verdict of a page of a trained model alone; None without a record."""
    record = ranker.model.record
    words = {"metric": _metric(record), "value": finite(record.get("validation"))}
    return kind_verdict("training", ranker, **words) if _parts(record) else None


def origin(record: Record) -> list[tuple[str, str]]:
    """Program, seed, data and feature set; of a digest the first characters."""
    rows = [
        (words, f"{text[:12]}…" if len(text) == 64 else text)
        for key, words in _ORIGIN.items()
        if record.get(key) is not None
        for text in [plain(record[key])]
    ]
    source, imported = part_of(record, "source"), record.get("imported")
    if source.get("data"):
        rows.append(("file", str(source["data"])))
    if isinstance(split := source.get("split"), Mapping):
        parts = ", ".join(f"{name} {plain(value)}" for name, value in split.items())
        rows.append(("split of queries by hash", parts))
    if isinstance(imported, Mapping):
        rows.append(("imported from", str(imported.get("format", "another library"))))
    return rows


def _parts(record: Record) -> list[tuple[str, str]]:
    """Loss, optimizer and reranker with their settings, of each part where they are several."""
    several = part_of(record, "parts")
    return [
        (f"{kind} of {name}" if name else kind, configured(part.get("name"), settings))
        for name, own in [("", record), *several.items()]
        if isinstance(own, Mapping)
        for kind in ("loss", "optimizer", "reranker")
        if isinstance(part := own.get(kind), Mapping)
        for settings in [part_of(part, "settings")]
    ]


def _metric(record: Record) -> str:
    """The metric that selected the settings."""
    return str(record.get("select", "the metric"))


def _objects(record: Record, key: str) -> list[Record]:
    rows = record.get(key)
    rows = rows if isinstance(rows, list | tuple) else []
    return [row for row in rows if isinstance(row, Mapping)]


def c_of(settings: Record) -> float:
    """C of a candidate as a number, whatever its type; 0 where it is none.

    >>> c_of({"optimizer.C": "1e-3"}), c_of({"optimizer.C": 10}), c_of({"optimizer.C": "auto"})
    (0.001, 10.0, 0.0)
    """
    try:
        value = float(settings[C])
    except (LookupError, TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def _candidates(tried: Sequence[Record], record: Record) -> Iterator[Chart]:
    """Validation over C, a line for each combination of the other settings; or bars without C."""
    rows = [(row, value) for row in tried if (value := finite(row.get("validation"))) is not None]
    # The settings in which candidates differ.
    varied = [
        name
        for name in dict.fromkeys(chain(*tried))
        if "." in name and all(name in row for row in tried)
        if len({str(row[name]) for row in tried}) > 1
    ]
    if len(rows) < 2 or not varied:
        return
    metric, others = f"validation {_metric(record)}", [name for name in varied if name != C]
    figures = "validation", "relative_gap", "passes"
    cells = [
        (*(plain(row[name]) for name in varied), *(finite(row.get(name)) for name in figures))
        for row, _ in rows
    ]
    if others != varied and all(c_of(row) > 0 for row, _ in rows):
        series: dict[str, list[tuple[float, float]]] = {}
        for row, value in rows:
            line = ", ".join(f"{name.partition('.')[2]}={plain(row[name])}" for name in others)
            series.setdefault(line or "validation", []).append((c_of(row), float(value)))
        ordered = {name: sorted(points) for name, points in series.items()}
        spec = lines(ordered, _C_AXIS, metric, log_x=True)
    else:
        bars = [(", ".join(plain(row[name]) for name in varied), float(v)) for row, v in rows]
        spec = drawing("bars", bars, title=metric)
    # The selected one is the first whose validation value is the model's.
    best = next((row for row in tried if row.get("validation") == record.get("validation")), None)
    settings = ", ".join(f"{name}={plain(best[name])}" for name in varied) if best else "none"
    sentence = f"The best of {len(rows)} is {settings}."
    table = Table((*varied, metric, "relative duality gap", "passes"), cells, "Candidates")
    yield Chart("candidates", "Candidates", spec, sentence, table)


def _by_pass(record: Record) -> Iterator[Chart]:
    """The duality gap after each pass, and validation after each tree or epoch."""
    gaps = [(n, gap) for n, gap in _history(record, "gap") if gap > 0]
    if len(gaps) > 1:
        spec = lines({"gap": gaps}, "pass", "duality gap", log_y=True, marks=len(gaps) <= 60)
        sentence = (
            f"The duality gap fell {_from_to(gaps)}: no linear model is better by more, by the "
            "training objective."
        )
        table = Table(("pass", "duality gap"), gaps, "Duality gap by pass")
        yield Chart("gap", "Duality gap", spec, sentence, table)
    values = _history(record, "validation")
    if len(values) > 1:
        metric, title = f"validation {_metric(record)}", "Validation by pass"
        spec = lines({metric: values}, "pass (tree, or epoch)", metric, marks=len(values) <= 30)
        table = Table(("pass", metric), values, title)
        yield Chart("by-pass", title, spec, f"It went {_from_to(values)}.", table)


def _history(record: Record, key: str) -> list[tuple[int, float]]:
    """A figure of the passes, as far as they were recorded."""
    rows = ((finite(row.get("pass")), finite(row.get(key))) for row in _objects(record, "history"))
    return [(int(n), float(value)) for n, value in rows if n is not None and value is not None]


def _from_to(rows: Sequence[tuple[int, float]]) -> str:
    (first, start), (last, end) = rows[0], rows[-1]
    return f"from {plain(start)} after pass {first} to {plain(end)} after pass {last}"


def provenance_section(models: Sequence[NamedModel]) -> Section | None:
    """The origin of each named model."""
    origins = [
        FactList([("model", model.name), *rows])
        for model in models
        if (rows := origin(model.model.record))
    ]
    lead = "What reproduces a model, and shows whether two models have the same origin."
    return section_of("provenance", "Where is it from?", lead, origins) if origins else None
