"""Training: a model's record, its candidates and duality gap, the selection over folds, origin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from owpc_ltr_papers.risk_bounds import Bound

from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.model_file import warnings_of
from owpc_ltr.protocols import Loss
from owpc_ltr.training.cross_validation import Selection, family_name
from owpc_ltr_report.blocks import (
    NEUTRAL,
    Block,
    Chart,
    Facts,
    PageVerdict,
    Section,
    Table,
    Text,
    amount,
    plain,
)
from owpc_ltr_report.charts import bars, columns, folds_and_means, lines

RANKS = 20
"""Irrelevant documents above the relevant one, of which rank weights are computed."""
_SCORE_RANGE = 1e-3
_FAMILIES_IN_CHART = 5
_C = "optimizer.C"
_C_AXIS = "C (less regularised to the right)"
_PARTS = ("loss", "optimizer", "reranker")
_CERTIFICATE = {
    "objective": "training objective",
    "gap": "duality gap",
    "relative_gap": "duality gap / gain of training",
    "risk_ratio": "risk / risk of the all-tied baseline",
    "passes": "passes",
    "nonzero_duals": "non-zero duals",
    "stop_reason": "reason for stopping",
}
_ORIGIN = {
    "owpc_ltr": "trained by owpc-ltr",
    "seed": "seed",
    "normalise": "features scaled",
    "missing": "missing values",
    "fingerprint": "training data",
    "featureset_hash": "feature set",
}
Record = Mapping[str, Any]
"""The training record of a model file, of which any part may be absent or malformed."""


def training_section(
    name: str, record: Record, weights: Sequence[float] = (), number: int = 0
) -> Section | None:
    """How a ranker was trained; None without a record. `weights` are those of `rank_weights`."""
    rows = _objects(record, "table")
    if not rows and not _parts(record):
        return None
    lead = "The settings were given: none were selected."
    if len(rows) > 1:
        lead = (
            f"{len(rows)} candidates were tried; the one with the best {_metric(record)} on "
            "validation queries was selected."
        )
    blocks: list[Block] = [Facts(facts(record))]
    blocks += [Text(warning, "warning") for warning in warnings_of(record)]
    blocks += _candidates(record, number)
    blocks += _by_pass(record, number)
    blocks += _weights(record, weights, number)
    anchor = "training" if number == 0 else f"training-{number}"
    short = "Training" if number == 0 else f"Training of {name}"
    return Section(anchor, short, f"How was {name} trained?", lead, blocks)


def training_verdict(name: str, record: Record) -> PageVerdict | None:
    """The verdict of a page of a trained model alone; None without a record."""
    if not _parts(record):
        return None
    value, reached = record.get("validation"), ""
    if _is_number(value):
        reached = f": {_metric(record)} {value:.4f} on validation queries"
    sentence = (
        f"{name} is trained{reached}. Validation queries selected its settings, so this value is "
        "optimistic for other queries: whether it is better than the current ranking is not "
        "measured."
    )
    details = ("Measure it on held-out queries, as in owpc-ltr report --data.",)
    return PageVerdict(NEUTRAL, sentence, details, heading="Trained, not measured yet")


def facts(record: Record) -> list[tuple[str, str]]:
    """The settings, the training data, and the certificate."""
    rows, validation = _parts(record), record.get("validation")
    if isinstance(validation, float) and math.isfinite(validation):
        rows.append((f"validation {_metric(record)}", f"{validation:.4f}"))
    queries, documents = record.get("queries"), record.get("documents")
    if queries is not None:
        rows.append(("trained on", f"{plain(queries)} queries, {plain(documents)} documents"))
    if basis := _object(record, "basis"):
        rows.append(("basis", f"{basis.get('name')} of {basis.get('knots')} knots"))
    certificate = _object(record, "certificate")
    known = {words: certificate.get(key) for key, words in _CERTIFICATE.items()}
    return [*rows, *((words, plain(value)) for words, value in known.items() if value)]


def origin(record: Record) -> list[tuple[str, str]]:
    """Program, seed, data and feature set."""
    rows = [
        (words, plain(record[key])) for key, words in _ORIGIN.items() if record.get(key) is not None
    ]
    # Of a digest the first characters.
    rows = [(words, f"{text[:12]}…" if len(text) == 64 else text) for words, text in rows]
    source = _object(record, "source")
    if source.get("data"):
        rows.append(("file", str(source["data"])))
    if isinstance(source.get("split"), Mapping):
        rows.append(("split of queries by hash", _listed(source["split"], " ")))
    if isinstance(record.get("imported"), Mapping):
        imported = record["imported"].get("format", "another library")
        rows.append(("imported from", str(imported)))
    return rows


def _parts(record: Record) -> list[tuple[str, str]]:
    """Loss, optimizer and reranker with their settings."""
    found = []
    for part in _PARTS:
        if isinstance(record.get(part), Mapping):
            name, settings = record[part].get("name"), _object(record[part], "settings")
            found.append((part, f"{name} ({_listed(settings, '=')})" if settings else str(name)))
    return found


def _metric(record: Record) -> str:
    """The metric that selected the settings."""
    return str(record.get("select", "the metric"))


def _object(record: Record, key: str) -> Record:
    value = record.get(key)
    return value if isinstance(value, Mapping) else {}


def _objects(record: Record, key: str) -> list[Record]:
    value = record.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [row for row in value if isinstance(row, Mapping)]


def _listed(values: Mapping[str, Any], sign: str) -> str:
    return ", ".join(f"{name}{sign}{plain(value)}" for name, value in values.items())


def _is_number(value: Any) -> bool:
    """Whether a value of a record is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def c_of(settings: Mapping[str, Any]) -> float:
    """C of a candidate as a number, whatever its type; 0 where it is none.

    >>> c_of({"optimizer.C": "1e-3"}), c_of({"optimizer.C": 10}), c_of({"optimizer.C": "auto"})
    (0.001, 10.0, 0.0)
    """
    try:
        value = float(settings[_C])
    except (LookupError, TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def _candidates(record: Record, number: int) -> Iterator[Chart]:
    """Validation over C, a line for each combination of the other settings; or bars without C."""
    tried = _objects(record, "table")
    rows = [row for row in tried if _is_number(row.get("validation"))]
    # The settings in which candidates differ.
    varied = [
        name
        for name in dict.fromkeys(name for row in tried for name in row if "." in name)
        if all(name in row for row in tried) and len({str(row[name]) for row in tried}) > 1
    ]
    if len(rows) < 2 or not varied:
        return
    metric = f"validation {_metric(record)}"
    headers = (*varied, metric, "relative duality gap", "passes")
    cells = [
        (
            *(plain(row[name]) for name in varied), row["validation"],
            *(row[n] if _is_number(row.get(n)) else None for n in ("relative_gap", "passes")),
        )
        for row in rows
    ]  # fmt: skip
    points = [(c_of(row), float(row["validation"])) for row in rows]
    if _C in varied and all(c > 0 for c, _ in points):
        series: dict[str, list[tuple[float, float]]] = {}
        for row, point in zip(rows, points, strict=True):
            rest = [f"{name.partition('.')[2]}={plain(row[name])}" for name in varied if name != _C]
            series.setdefault(", ".join(rest) or "validation", []).append(point)
        ordered = {name: sorted(of) for name, of in series.items()}
        spec = lines(ordered, _C_AXIS, metric, log_x=True)
    else:
        names = [", ".join(plain(row[name]) for name in varied) for row in rows]
        spec = bars([(n, value) for n, (_, value) in zip(names, points, strict=True)], metric)
    # The selected one is the first whose validation value is the model's.
    best = next((row for row in tried if row.get("validation") == record.get("validation")), None)
    settings = ", ".join(f"{name}={plain(best[name])}" for name in varied) if best else "none"
    sentence = f"The best of {len(rows)} is {settings}."
    table = Table("Candidates", headers, cells)
    yield Chart(f"candidates-{number}", "Candidates", spec, sentence, table)


def _by_pass(record: Record, number: int) -> Iterator[Chart]:
    """The duality gap after each pass, and validation after each tree or epoch."""
    gaps = [(n, gap) for n, gap in _history(record, "gap") if gap > 0]
    if len(gaps) > 1:
        spec = lines({"gap": gaps}, "pass", "duality gap", log_y=True, marks=len(gaps) <= 60)
        sentence = (
            f"The duality gap fell {_from_to(gaps)}: no linear model is better by more, by the "
            "training objective."
        )
        table = Table("Duality gap by pass", ("pass", "duality gap"), gaps)
        yield Chart(f"gap-{number}", "Duality gap", spec, sentence, table)
    values = _history(record, "validation")
    if len(values) > 1:
        metric, title = f"validation {_metric(record)}", "Validation by pass"
        few = len(values) <= 30
        spec = lines({metric: values}, "pass (tree, or epoch)", metric, marks=few)
        table = Table(title, ("pass", metric), values)
        yield Chart(f"by-pass-{number}", title, spec, f"It went {_from_to(values)}.", table)


def _history(record: Record, key: str) -> list[tuple[int, float]]:
    """A figure of the passes, as far as they were recorded."""
    return [
        (int(row["pass"]), float(row[key]))
        for row in _objects(record, "history")
        if _is_number(row.get("pass")) and _is_number(row.get(key))
    ]


def _from_to(rows: Sequence[tuple[int, float]]) -> str:
    (first, start), (last, end) = rows[0], rows[-1]
    return f"from {plain(start)} after pass {first} to {plain(end)} after pass {last}"


def _weights(record: Record, weights: Sequence[float], number: int) -> Iterator[Chart]:
    if len(weights) < 2:
        return
    half = next((n for n in range(1, len(weights) + 1) if sum(weights[:n]) >= 0.5), len(weights))
    rows = list(enumerate(weights, 1))
    loss = str(_object(record, "loss").get("name")) if "loss" in record else "?"
    spec = columns(rows, "rank of an irrelevant document", "share of the weight")
    sentence = (
        f"The weight of the loss {loss} on an irrelevant document at each rank above a "
        f"relevant one: half of it is on the first {half} of {len(weights)} ranks."
    )
    cells = [(rank, f"{weight:.2%}") for rank, weight in rows]
    table = Table("Weight of each rank", ("rank", "share"), cells)
    yield Chart(f"rank-weights-{number}", "Weight of the loss by rank", spec, sentence, table)


def rank_weights(loss: Loss, ranks: int = RANKS) -> list[float]:
    """Shares of a loss's gradient on irrelevant documents above one relevant document.

    The scores are nearly equal, so that the gradient depends on ranks alone: for OWPC with the
    hinge the shares are the weights α_j of its generator. Empty where the gradient is zero.
    """
    scores = np.asarray(-_SCORE_RANGE / ranks * np.arange(ranks + 1), dtype=np.float64)
    labels = np.zeros(ranks + 1, dtype=np.float32)
    labels[-1] = 1.0
    _, gradient = loss.value_and_gradient(scores, labels, np.ones(ranks + 1, dtype=np.float32))
    positive = np.maximum(np.asarray(gradient[:ranks], dtype=np.float64), 0.0)
    total = positive.sum()
    return (positive / total).tolist() if np.isfinite(total) and total > 0 else []


def selection_section(found: Selection) -> Section:
    """The test values of each family of settings by fold; validation over C."""
    metric = next(iter(found.choices[0].test))
    lead = (
        f"Validation queries selected the settings of each fold; values are {metric} on test "
        f"queries, which selected nothing, over {len(found.folds)} folds."
    )
    title = "What was selected over folds?"
    blocks = (_families(found, metric), *_over_c(found))
    return Section("selection", "Selection", title, lead, blocks)


def selection_verdict(found: Selection) -> PageVerdict:
    """The verdict of a page of a selection alone."""
    # The last choice is what validation selected of all.
    figures = ", ".join(f"{name} {amount(value)}" for name, value in found.choices[-1].test.items())
    sentence = (
        f"Of {len(found.rows):,} fits over {len(found.folds)} folds, those that validation "
        f"selected in each fold have {figures} on its test queries, which selected nothing (means "
        "over folds)."
    )
    return PageVerdict(NEUTRAL, sentence, heading="What validation selected")


def _families(found: Selection, metric: str) -> Chart:
    """A dot for each fold, and the mean."""
    dots = [
        (choice.name, fold, row.test[metric])
        for choice in found.choices
        for fold in found.folds
        if fold in choice.chosen
        for row in _chosen_row(found, choice.chosen[fold], fold)
    ]
    means = {choice.name: choice.test[metric] for choice in found.choices}
    sentence = (
        f"The mean of what validation selected in each fold is "
        f"{amount(found.choices[-1].test[metric])}; dots are folds, strokes their means."
    )
    metrics = list(found.choices[0].test)
    table = Table(
        "Means over folds of the folds' test means",
        ("settings", "validation", *metrics),
        [(one.name, one.validation, *map(one.test.get, metrics)) for one in found.choices],
    )
    spec = folds_and_means(dots, means, metric)
    return Chart("families", f"{metric} of each choice", spec, sentence, table)


def _chosen_row(found: Selection, chosen: Mapping[str, object], fold: str) -> list[Any]:
    """The fit that was selected in a fold, if it is there."""
    settings = {name: value for name, value in chosen.items() if name != "loss"}
    of_fold = (row for row in found.rows if row.fold == fold and row.loss == chosen["loss"])
    return [row for row in of_fold if row.settings == settings][:1]


def _over_c(found: Selection) -> Iterator[Chart]:
    """Validation over C, the mean of the folds; of many families the best."""
    by_family: dict[str, dict[float, list[float]]] = {}
    for row in found.rows:
        if (c := c_of(row.settings)) > 0:
            by_family.setdefault(family_name(row), {}).setdefault(c, []).append(row.validation)
    means = {
        name: sorted((c, float(np.mean(values))) for c, values in by_c.items())
        for name, by_c in by_family.items()
        if len(by_c) > 1
    }
    if not means:
        return
    sign = 1.0 if parse_metric(found.select).higher_is_better else -1.0
    best = sorted(means, key=lambda name: -max(sign * value for _, value in means[name]))
    best = best[:_FAMILIES_IN_CHART]
    c, value = max(means[best[0]], key=lambda point: sign * point[1])
    sentence = f"The best mean over folds is {amount(value)}, of {best[0]} at C = {c:g}."
    if len(means) > _FAMILIES_IN_CHART:
        sentence += f" The chart has the best {_FAMILIES_IN_CHART} of {len(means)}."
    rows = [(name, *point) for name, points in means.items() for point in points]
    table = Table("Validation, mean over folds", ("settings", "C", "validation"), rows)
    series = {name: means[name] for name in means if name in best}
    spec = lines(series, _C_AXIS, f"validation {found.select}", log_x=True)
    yield Chart("over-c", "Validation over C", spec, sentence, table)


def provenance_section(
    records: Sequence[tuple[str, Record]], bounds: Sequence[Bound] = ()
) -> Section | None:
    """The origin of each named model, and risk bounds where they were computed."""
    blocks: list[Block] = [
        Facts((("model", name), *rows)) for name, record in records if (rows := origin(record))
    ]
    if bounds:
        caption = "Theoretical bounds of the risk on other queries, at 95 %"
        headers = "bound", "of", "risk at most", "informative", "queries until it is"
        cells = [
            (
                one.name, one.about, _power(one.log_value),
                "no: no ranking has a larger risk" if one.vacuous else "yes",
                _power(math.log(one.queries_needed)) if one.vacuous else "–",
            )
            for one in bounds
        ]  # fmt: skip
        blocks.append(Table(caption, headers, cells))
    if not blocks:
        return None
    lead = "What reproduces a model, and shows whether two models have the same origin."
    return Section("provenance", "Origin", "Where is it from?", lead, blocks)


def _power(logarithm: float) -> str:
    """e^logarithm, also where that overflows."""
    if not math.isfinite(logarithm):
        return "no number"
    tens = logarithm / math.log(10.0)
    return f"{math.exp(logarithm):.3g}" if abs(tens) < 5 else f"10^{tens:.1f}"
