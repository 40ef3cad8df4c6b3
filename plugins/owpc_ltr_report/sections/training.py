"""The training: what was tried, what validation chose, how near the optimum it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from owpc_ltr_report.blocks import Block, Chart, Facts, Section, Table, Text
from owpc_ltr_report.charts.bars import bars, columns
from owpc_ltr_report.charts.lines import lines
from owpc_ltr_report.figures import plain
from owpc_ltr_report.record import C, Record, c_of
from owpc_ltr_report.verdict import NEUTRAL, Verdict


def training_section(
    name: str, record: Record, weights: Sequence[float] = (), number: int = 0
) -> Section | None:
    """How a ranker was trained, by its record; None of one that does not tell.

    `weights` are the shares of the loss's pull on the ranks of a list (see `rank_weights`).
    """
    rows = record.candidates
    if not rows and not record.parts:
        return None
    blocks: list[Block] = [Facts(record.facts())]
    blocks += [Text(warning, "warning") for warning in record.warnings]
    blocks += [
        chart
        for chart in (
            _candidates(record, number),
            _gap(record, number),
            _by_pass(record, number),
            _weights(record, weights, number),
        )
        if chart is not None
    ]
    return Section(
        "training" if number == 0 else f"training-{number}",
        "Training" if number == 0 else f"Training of {name}",
        f"How was {name} trained?",
        f"{len(rows)} candidate{'s were' if len(rows) != 1 else ' was'} tried; what ranks the "
        f"validation queries best by {record.chosen_by} was kept."
        if len(rows) > 1
        else "With settings that were given, so that nothing had to be chosen.",
        tuple(blocks),
    )


def _candidates(record: Record, number: int) -> Chart | None:
    """Validation over C, a line for each combination of the other settings; or bars without C."""
    rows = [row for row in record.candidates if _is_number(row.get("validation"))]
    varied = record.varied
    if len(rows) < 2 or not varied:
        return None
    metric = f"validation {record.chosen_by}"
    table = Table(
        "Candidates",
        (*varied, metric, "relative duality gap", "passes"),
        tuple(
            (
                *(plain(row[name]) for name in varied),
                row["validation"],
                _number(row.get("relative_gap")),
                _number(row.get("passes")),
            )
            for row in rows
        ),
    )
    best = record.best
    told = ", ".join(f"{name}={plain(best[name])}" for name in varied) if best else "none"
    sentence = f"The best of {len(rows)} is {told}."
    if C in varied and all(c_of(row) > 0 for row in rows):
        spec = lines(_by_c(rows, varied), "C (less regularised to the right)", metric, log_x=True)
    else:
        names = [", ".join(plain(row[name]) for name in varied) for row in rows]
        values = [(name, float(row["validation"])) for name, row in zip(names, rows, strict=True)]
        spec = bars(values, metric)
    return Chart(f"candidates-{number}", "What was tried", spec, sentence, table)


def _by_c(
    rows: Sequence[Mapping[str, Any]], varied: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        rest = [f"{name.partition('.')[2]}={plain(row[name])}" for name in varied if name != C]
        name = ", ".join(rest) or "validation"
        found.setdefault(name, []).append((c_of(row), float(row["validation"])))
    return {name: sorted(points) for name, points in found.items()}


def _gap(record: Record, number: int) -> Chart | None:
    """The duality gap after each pass; nothing where no bound was kept, or there is one pass."""
    rows = [
        (int(row["pass"]), float(row["gap"]))
        for row in record.passes
        if _is_number(row.get("pass")) and _is_number(row.get("gap")) and row["gap"] > 0
    ]
    if len(rows) < 2:
        return None
    first, last = rows[0], rows[-1]
    return Chart(
        f"gap-{number}",
        "How near the optimum it came",
        lines(
            {"gap": [(float(n), gap) for n, gap in rows]}, "pass", "duality gap", log_y=True,
            marks=len(rows) <= 60,
        ),
        f"The duality gap fell from {plain(first[1])} after pass {first[0]} to {plain(last[1])} "
        f"after pass {last[0]}: no linear model is better by more, by the training objective.",
        Table("Duality gap by pass", ("pass", "duality gap"), tuple(rows)),
    )  # fmt: skip


def _by_pass(record: Record, number: int) -> Chart | None:
    """Validation after each tree or epoch, where the optimizer measured it."""
    rows = [
        (int(row["pass"]), float(row["validation"]))
        for row in record.passes
        if _is_number(row.get("pass")) and _is_number(row.get("validation"))
    ]
    if len(rows) < 2:
        return None
    metric = f"validation {record.chosen_by}"
    points = [(float(n), value) for n, value in rows]
    return Chart(
        f"by-pass-{number}",
        "Validation while it learned",
        lines({metric: points}, "pass (tree, or epoch)", metric, marks=len(rows) <= 30),
        f"From {plain(rows[0][1])} after {rows[0][0]} to {plain(rows[-1][1])} after {rows[-1][0]}.",
        Table("Validation by pass", ("pass", metric), tuple(rows)),
    )


def training_verdict(name: str, record: Record) -> Verdict | None:
    """The verdict of a page that is of a trained model alone; None of one without a record."""
    value = record.content.get("validation")
    if not record.parts:
        return None
    reached = f": {record.chosen_by} {value:.4f} on validation queries" if _is_number(value) else ""
    return Verdict(
        NEUTRAL,
        f"{name} is trained{reached}. Validation queries chose its settings, so that this says "
        "little of other queries: whether it is better than what is there is not measured.",
        ("Measure it on queries that it never saw, as in owpc-ltr report --data.",),
        heading="Trained, not measured yet",
    )


def _weights(record: Record, weights: Sequence[float], number: int) -> Chart | None:
    if len(weights) < 2:
        return None
    half = next((n for n in range(1, len(weights) + 1) if sum(weights[:n]) >= 0.5), len(weights))
    return Chart(
        f"rank-weights-{number}",
        "What the loss cares for",
        columns(
            [(rank, weight) for rank, weight in enumerate(weights, 1)],
            "rank of an irrelevant document", "share of the weight",
        ),
        f"How strongly the loss {record.loss_name} pushes down an irrelevant document at each rank "
        f"above a relevant one: half of the weight lies on the first {half} of {len(weights)}.",
        Table(
            "Weight of each rank",
            ("rank", "share"),
            tuple((rank, f"{weight:.2%}") for rank, weight in enumerate(weights, 1)),
        ),
    )  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number(value: Any) -> float | int | None:
    return value if _is_number(value) else None
