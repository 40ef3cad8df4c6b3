"""Provenance: where a model is from, and what theory promises of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from owpc_ltr.evaluation.risk_bounds import Bound
from owpc_ltr_report.blocks import Block, Facts, Section, Table
from owpc_ltr_report.record import Record


def provenance_section(
    records: Sequence[tuple[str, Record]], bounds: Sequence[Bound] = ()
) -> Section | None:
    """Each model's origin; with the papers' bounds of its risk, where they were reckoned."""
    blocks: list[Block] = []
    for name, record in records:
        rows = record.provenance()
        if rows:
            blocks.append(Facts((("model", name), *rows)))
    if bounds:
        blocks.append(_bounds(bounds))
    if not blocks:
        return None
    lead = "What is needed to make it again, and to know whether two models are of one origin."
    return Section("provenance", "Origin", "Where is it from?", lead, tuple(blocks))


def _bounds(bounds: Sequence[Bound]) -> Table:
    return Table(
        "What theory promises of the risk on other queries, at 95 %",
        ("bound", "of", "risk at most", "says something", "queries until it does"),
        tuple(
            (
                bound.name,
                bound.about,
                _power(bound.log_value),
                "no: no ranking has a larger risk" if bound.vacuous else "yes",
                _power(math.log(bound.queries_needed)) if bound.vacuous else "–",
            )
            for bound in bounds
        ),
    )


def _power(logarithm: float) -> str:
    """e^logarithm, also where that is larger than any number."""
    if not math.isfinite(logarithm):
        return "no number"
    tens = logarithm / math.log(10.0)
    if abs(tens) < 5:
        return f"{math.exp(logarithm):.3g}"
    return f"10^{tens:.1f}"
