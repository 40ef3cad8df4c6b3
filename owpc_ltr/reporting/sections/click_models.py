"""Click models: how well each foretells the clicks of people whom it has not seen."""

from __future__ import annotations

from owpc_ltr.behaviour.models import Chosen
from owpc_ltr.reporting.blocks import Block, Chart, Section, Table
from owpc_ltr.reporting.charts.lines import lines
from owpc_ltr.reporting.figures import signed

_DRAWN = 30


def models_section(chosen: Chosen) -> Section:
    """Perplexity and likelihood of each, over all and by rank."""
    told = sorted(chosen.held_out, key=lambda one: -one.log_likelihood)
    blocks: list[Block] = [
        Table(
            f"Clicks of held-out people, {told[0].impressions:,} impressions",
            ("model", "perplexity", "log likelihood", ""),
            tuple(
                (
                    one.model, f"{one.perplexity:.4f}", signed(one.log_likelihood, 5),
                    "judges" if one.model == chosen.name else "",
                )
                for one in told
            ),
        ),
        Chart(
            "perplexity",
            "Perplexity by rank",
            lines(
                {
                    one.model: [(float(n), float(v)) for n, v in enumerate(one.by_rank[:_DRAWN], 1)]
                    for one in told
                },
                "rank", "perplexity", marks=False,
            ),
            "The nearer to 1, the better the clicks at a rank are foretold. What is hardly clicked "
            "is easily foretold, so that only models at one rank are to be compared.",
            Table(
                "Perplexity by rank",
                ("rank", *(one.model for one in told)),
                tuple(
                    (rank, *(f"{one.by_rank[rank - 1]:.4f}" for one in told))
                    for rank in range(1, min(len(one.by_rank) for one in told) + 1)
                ),
            ),
        ),
    ]  # fmt: skip
    lead = (
        "One person in five is held out of the fits. A perplexity of 1 is certainty, one of 2 a "
        "coin."
    )
    return Section(
        "click-models", "Click models", "Who foretells clicks best?", lead, tuple(blocks)
    )
