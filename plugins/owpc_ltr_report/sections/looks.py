"""Looks: how far down users look, as the click model that judges found, and as the others did."""

from __future__ import annotations

import numpy as np
from owpc_ltr_clicks.model_selection import GROUPS, ChosenModel, examination_interval

from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr_report.blocks import Block, Chart, Section, Table
from owpc_ltr_report.charts.by_rank import by_rank
from owpc_ltr_report.charts.lines import lines

_DRAWN = 30


def looks_section(counts: ClickCounts, chosen: ChosenModel) -> Section:
    """The chance of a look at each rank, relative to the greatest one."""
    blocks: list[Block] = [_own(counts, chosen)]
    if len(chosen.held_out) > 1:
        blocks.append(_all(chosen))
    lead = (
        "Users click on what they look at, and they look at what stands high. Clicks become "
        "judgments by taking this out; 100 % is the rank that they look at most."
    )
    return Section("looks", "Looks", "How far down do users look?", lead, tuple(blocks))


def _own(counts: ClickCounts, chosen: ChosenModel) -> Chart:
    looked = chosen.fit.examination
    shown, clicks = counts.by_rank(counts.shown), counts.by_rank(counts.clicked)
    size = min(len(looked), len(shown))
    found = examination_interval(chosen.model, counts, looked)
    low, high = (looked, looked) if found is None else found
    rates = np.divide(clicks, shown, out=np.zeros_like(shown), where=shown > 0)
    ranks = range(1, size + 1)
    drawn = list(zip(ranks, looked.tolist(), low.tolist(), high.tolist(), strict=False))[:_DRAWN]
    half = next((rank for rank, value in zip(ranks, looked, strict=False) if value < 0.5), None)
    sure = (
        "There are too few clicks to say how sure that is."
        if found is None
        else f"The band holds it with 95 % confidence, by fits to {GROUPS} groups of queries."
    )
    falls = (
        "At every rank users look more than half as often as at the first."
        if half is None
        else f"From rank {half} on users look less than half as often as where they look most."
    )
    ends = ("–", "–") if found is None else None
    return Chart(
        "looks",
        f"Looks at each rank, by {chosen.name}",
        by_rank(drawn, "looks"),
        f"{falls} {sure}",
        Table(
            "Looks at each rank",
            ("rank", "looked at", "95 % low", "95 % high", "shown", "clicked"),
            tuple(
                (
                    rank,
                    f"{looked[rank - 1]:.1%}",
                    *(ends or (f"{low[rank - 1]:.1%}", f"{high[rank - 1]:.1%}")),
                    int(shown[rank - 1]),
                    f"{rates[rank - 1]:.2%}",
                )
                for rank in ranks
            ),
        ),
    )


def _all(chosen: ChosenModel) -> Chart:
    """What each model found without the people who are held out."""
    found = {one.model: one.examination for one in chosen.held_out}
    points = {
        name: [(float(n), float(value)) for n, value in enumerate(looked[:_DRAWN], 1)]
        for name, looked in found.items()
    }
    size = max(map(len, found.values()))
    return Chart(
        "looks-by-model",
        "Looks at each rank, by every model",
        lines(points, "rank", "looks", marks=False, zero=True),
        "Each model's own idea of it, from four of five people. A click-through rate knows of no "
        "looks, and takes every rank for looked at.",
        Table(
            "Looks at each rank, by model",
            ("rank", *found),
            tuple(
                (
                    rank,
                    *(
                        f"{one[rank - 1]:.1%}" if rank <= len(one) else None
                        for one in found.values()
                    ),
                )
                for rank in range(1, size + 1)
            ),
        ),
    )
