"""Training: candidates, the duality gap, the loss's weight by rank, the selection over folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Loss
from owpc_ltr.training.cross_validation import Choice, Selection, family_name
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
from owpc_ltr_report.record import C, TrainingRecord, c_of, is_number

RANKS = 20
"""Irrelevant documents above the relevant one, of which rank weights are computed."""
_SCORE_RANGE = 1e-3
_FAMILIES_IN_CHART = 5


def training_section(
    name: str, record: TrainingRecord, weights: Sequence[float] = (), number: int = 0
) -> Section | None:
    """How a ranker was trained; None without a record. `weights` are those of `rank_weights`."""
    rows = record.candidates
    if not rows and not record.parts:
        return None
    charts = (
        _candidates(record, number), _gap(record, number), _by_pass(record, number),
        _weights(record, weights, number),
    )  # fmt: skip
    lead = "The settings were given: none were selected."
    if len(rows) > 1:
        lead = (
            f"{len(rows)} candidates were tried; the one with the best {record.select_metric} on "
            "validation queries was selected."
        )
    blocks: list[Block] = [Facts(record.facts())]
    blocks += [Text(warning, "warning") for warning in record.warnings]
    blocks += [chart for chart in charts if chart is not None]
    return Section(
        "training" if number == 0 else f"training-{number}",
        "Training" if number == 0 else f"Training of {name}",
        f"How was {name} trained?",
        lead,
        tuple(blocks),
    )


def training_verdict(name: str, record: TrainingRecord) -> PageVerdict | None:
    """The verdict of a page of a trained model alone; None without a record."""
    if not record.parts:
        return None
    value = record.validation
    reached = "" if value is None else f": {record.select_metric} {value:.4f} on validation queries"
    return PageVerdict(
        NEUTRAL,
        f"{name} is trained{reached}. Validation queries selected its settings, so this value is "
        "optimistic for other queries: whether it is better than the current ranking is not "
        "measured.",
        ("Measure it on held-out queries, as in owpc-ltr report --data.",),
        heading="Trained, not measured yet",
    )


def _candidates(record: TrainingRecord, number: int) -> Chart | None:
    """Validation over C, a line for each combination of the other settings; or bars without C."""
    rows = [row for row in record.candidates if is_number(row.get("validation"))]
    varied = record.varied
    if len(rows) < 2 or not varied:
        return None
    metric = f"validation {record.select_metric}"
    table = Table(
        "Candidates",
        (*varied, metric, "relative duality gap", "passes"),
        tuple(
            (
                *(plain(row[name]) for name in varied),
                row["validation"],
                *(
                    row[key] if is_number(row.get(key)) else None
                    for key in ("relative_gap", "passes")
                ),
            )
            for row in rows
        ),
    )
    best = record.best
    settings = ", ".join(f"{name}={plain(best[name])}" for name in varied) if best else "none"
    if C in varied and all(c_of(row) > 0 for row in rows):
        spec = lines(_by_c(rows, varied), "C (less regularised to the right)", metric, log_x=True)
    else:
        names = [", ".join(plain(row[name]) for name in varied) for row in rows]
        values = [(name, float(row["validation"])) for name, row in zip(names, rows, strict=True)]
        spec = bars(values, metric)
    sentence = f"The best of {len(rows)} is {settings}."
    return Chart(f"candidates-{number}", "Candidates", spec, sentence, table)


def _by_c(
    rows: Sequence[Mapping[str, Any]], varied: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        rest = [f"{name.partition('.')[2]}={plain(row[name])}" for name in varied if name != C]
        name = ", ".join(rest) or "validation"
        found.setdefault(name, []).append((c_of(row), float(row["validation"])))
    return {name: sorted(points) for name, points in found.items()}


def _by_pass_of(record: TrainingRecord, key: str) -> list[tuple[int, float]]:
    return [
        (int(row["pass"]), float(row[key]))
        for row in record.passes
        if is_number(row.get("pass")) and is_number(row.get(key))
    ]


def _gap(record: TrainingRecord, number: int) -> Chart | None:
    """The duality gap after each pass; None where fewer than two were recorded."""
    rows = [row for row in _by_pass_of(record, "gap") if row[1] > 0]
    if len(rows) < 2:
        return None
    points = [(float(n), gap) for n, gap in rows]
    few = len(rows) <= 60
    return Chart(
        f"gap-{number}",
        "Duality gap",
        lines({"gap": points}, "pass", "duality gap", log_y=True, marks=few),
        f"The duality gap fell {_from_to(rows)}: no linear model is better by more, by the "
        "training objective.",
        Table("Duality gap by pass", ("pass", "duality gap"), tuple(rows)),
    )


def _by_pass(record: TrainingRecord, number: int) -> Chart | None:
    """Validation after each tree or epoch, where the optimizer measured it."""
    rows = _by_pass_of(record, "validation")
    if len(rows) < 2:
        return None
    metric = f"validation {record.select_metric}"
    points = [(float(n), value) for n, value in rows]
    return Chart(
        f"by-pass-{number}",
        "Validation by pass",
        lines({metric: points}, "pass (tree, or epoch)", metric, marks=len(rows) <= 30),
        f"It went {_from_to(rows)}.",
        Table("Validation by pass", ("pass", metric), tuple(rows)),
    )


def _from_to(rows: Sequence[tuple[int, float]]) -> str:
    (first, start), (last, end) = rows[0], rows[-1]
    return f"from {plain(start)} after pass {first} to {plain(end)} after pass {last}"


def _weights(record: TrainingRecord, weights: Sequence[float], number: int) -> Chart | None:
    if len(weights) < 2:
        return None
    half = next((n for n in range(1, len(weights) + 1) if sum(weights[:n]) >= 0.5), len(weights))
    rows = list(enumerate(weights, 1))
    return Chart(
        f"rank-weights-{number}",
        "Weight of the loss by rank",
        columns(rows, "rank of an irrelevant document", "share of the weight"),
        f"The weight of the loss {record.loss_name} on an irrelevant document at each rank above a "
        f"relevant one: half of it is on the first {half} of {len(weights)} ranks.",
        Table(
            "Weight of each rank",
            ("rank", "share"),
            tuple((rank, f"{weight:.2%}") for rank, weight in rows),
        ),
    )


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
    if not (np.isfinite(total) and total > 0):
        return []
    return [float(share) for share in positive / total]


def selection_section(found: Selection) -> Section:
    """The test values of each family of settings by fold; validation over C."""
    metric = next(iter(found.choices[0].test))
    blocks: list[Block] = [_families(found, metric)]
    curves = _over_c(found)
    if curves is not None:
        blocks.append(curves)
    lead = (
        f"Validation queries selected the settings of each fold; values are {metric} on test "
        f"queries, which selected nothing, over {len(found.folds)} folds."
    )
    title = "What was selected over folds?"
    return Section("selection", "Selection", title, lead, tuple(blocks))


def selection_verdict(found: Selection) -> PageVerdict:
    """The verdict of a page of a selection alone."""
    figures = ", ".join(f"{name} {amount(value)}" for name, value in _selected(found).test.items())
    sentence = (
        f"Of {len(found.rows):,} fits over {len(found.folds)} folds, those that validation "
        f"selected in each fold have {figures} on its test queries, which selected nothing (means "
        "over folds)."
    )
    return PageVerdict(NEUTRAL, sentence, heading="What validation selected")


def _selected(found: Selection) -> Choice:
    """What validation selected of all: in each fold for itself, where there are more families."""
    return found.choices[-1]


def _families(found: Selection, metric: str) -> Chart:
    """A dot for each fold, and the mean."""
    rows = [
        (choice.name, fold, _test_value(found, choice.chosen[fold], fold, metric))
        for choice in found.choices
        for fold in found.folds
        if fold in choice.chosen
    ]
    known = [(name, fold, value) for name, fold, value in rows if value is not None]
    means = [(choice.name, choice.test[metric]) for choice in found.choices]
    metrics = list(found.choices[0].test)
    return Chart(
        "families",
        f"{metric} of each choice",
        folds_and_means(known, means, metric),
        f"The mean of what validation selected in each fold is "
        f"{amount(_selected(found).test[metric])}; dots are folds, strokes their means.",
        Table(
            "Means over folds of the folds' test means",
            ("settings", "validation", *metrics),
            tuple(
                (one.name, one.validation, *(one.test[name] for name in metrics))
                for one in found.choices
            ),
        ),
    )


def _test_value(
    found: Selection, chosen: dict[str, object], fold: str, metric: str
) -> float | None:
    """The test value of the row that was selected in a fold."""
    settings = {name: value for name, value in chosen.items() if name != "loss"}
    for row in found.rows:
        if row.fold == fold and row.loss == chosen["loss"] and row.settings == settings:
            return row.test[metric]
    return None


def _over_c(found: Selection) -> Chart | None:
    """Validation over C, the mean of the folds; of many families the best."""
    by_family: dict[str, dict[float, list[float]]] = {}
    for row in found.rows:
        c = c_of(row.settings)
        if c > 0:
            by_c = by_family.setdefault(family_name(row), {})
            by_c.setdefault(c, []).append(row.validation)
    means = {
        name: sorted((c, float(np.mean(values))) for c, values in by_c.items())
        for name, by_c in by_family.items()
        if len(by_c) > 1
    }
    if not means:
        return None
    sign = 1.0 if parse_metric(found.select).higher_is_better else -1.0
    best = sorted(means, key=lambda name: -max(sign * value for _, value in means[name]))
    best = best[:_FAMILIES_IN_CHART]
    series = {name: means[name] for name in means if name in best}
    at = max(means[best[0]], key=lambda point: sign * point[1])
    rest = ""
    if len(means) > _FAMILIES_IN_CHART:
        rest = f" The chart has the best {_FAMILIES_IN_CHART} of {len(means)}."
    metric = f"validation {found.select}"
    return Chart(
        "over-c",
        "Validation over C",
        lines(series, "C (less regularised to the right)", metric, log_x=True),
        f"The best mean over folds is {amount(at[1])}, of {best[0]} at C = {at[0]:g}.{rest}",
        Table(
            "Validation, mean over folds",
            ("settings", "C", "validation"),
            tuple((name, c, value) for name, points in means.items() for c, value in points),
        ),
    )
