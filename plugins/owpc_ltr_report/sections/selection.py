"""The selection: losses, optimizers and settings over folds, and what validation chose."""

from __future__ import annotations

import numpy as np

from owpc_ltr.metrics import parse_metric
from owpc_ltr.training.cross_validation import Choice, Selection, family_name
from owpc_ltr_report.blocks import Block, Chart, Section, Table
from owpc_ltr_report.charts.lines import lines
from owpc_ltr_report.charts.spread import spread
from owpc_ltr_report.figures import amount
from owpc_ltr_report.record import c_of
from owpc_ltr_report.verdict import NEUTRAL, Verdict

_LINES = 5


def selection_section(found: Selection) -> Section:
    """What each family of settings reaches on test queries, fold by fold; validation over C."""
    metric = next(iter(found.choices[0].test))
    blocks: list[Block] = [_families(found, metric)]
    curves = _over_c(found)
    if curves is not None:
        blocks.append(curves)
    lead = (
        f"Validation queries chose the settings of each fold; what is shown is {metric} on test "
        f"queries that chose nothing, over {len(found.folds)} folds."
    )
    return Section("selection", "Selection", "What was chosen over folds?", lead, tuple(blocks))


def selection_verdict(found: Selection) -> Verdict:
    """The verdict of a page that is of this alone."""
    best = _chosen(found)
    figures = ", ".join(f"{name} {amount(value)}" for name, value in best.test.items())
    said = (
        f"Of {len(found.rows):,} fits over {len(found.folds)} folds, what validation chose in each "
        f"fold reaches {figures} on its test queries, which chose nothing (means over folds)."
    )
    return Verdict(NEUTRAL, said, (), heading="What validation chose")


def _families(found: Selection, metric: str) -> Chart:
    """A dot for each fold, and the mean."""
    rows = [
        (choice.name, fold, _test_of(found, choice.chosen[fold], fold, metric))
        for choice in found.choices
        for fold in found.folds
        if fold in choice.chosen
    ]
    known = [(name, fold, value) for name, fold, value in rows if value is not None]
    means = [(choice.name, choice.test[metric]) for choice in found.choices]
    best = _chosen(found)
    metrics = list(found.choices[0].test)
    return Chart(
        "families",
        f"{metric} of each choice",
        spread(known, means, metric),
        f"What validation chose in each fold has {amount(best.test[metric])} in the mean; dots are "
        "folds, strokes their means.",
        Table(
            "Means over folds of the folds' test means",
            ("settings", "validation", *metrics),
            tuple(
                (one.name, one.validation, *(one.test[name] for name in metrics))
                for one in found.choices
            ),
        ),
    )


def _chosen(found: Selection) -> Choice:
    """What validation chose of all: in each fold for itself, where there are several families."""
    return found.choices[-1]


def _sign(found: Selection) -> float:
    return 1.0 if parse_metric(found.select).higher_is_better else -1.0


def _test_of(found: Selection, chosen: dict[str, object], fold: str, metric: str) -> float | None:
    """The test figure of the row that was chosen in a fold."""
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
    sign = _sign(found)
    best = sorted(means, key=lambda name: -max(sign * value for _, value in means[name]))[:_LINES]
    shown = {name: means[name] for name in means if name in best}
    first = best[0]
    at = max(means[first], key=lambda point: sign * point[1])
    few = f" Of {len(means)} the best {_LINES} are drawn." if len(means) > _LINES else ""
    return Chart(
        "over-c",
        "Validation over C",
        lines(shown, "C (less regularised to the right)", f"validation {found.select}", log_x=True),
        f"The best mean over folds is {amount(at[1])}, of {first} at C = {at[0]:g}.{few}",
        Table(
            "Validation, mean over folds",
            ("settings", "C", "validation"),
            tuple((name, c, value) for name, points in means.items() for c, value in points),
        ),
    )
