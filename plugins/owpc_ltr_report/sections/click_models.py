"""Click models: how well each predicts the clicks of people whom it has not seen."""

from __future__ import annotations

from owpc_ltr_clicks.model_selection import ChosenModel, HeldOutScore

from owpc_ltr_report.blocks import Block, Chart, Section, Table
from owpc_ltr_report.charts.lines import lines
from owpc_ltr_report.figures import signed

_DRAWN = 30


def models_section(chosen: ChosenModel) -> Section:
    """Likelihood of whole sessions and perplexity of each, over all and by rank."""
    told = sorted(chosen.held_out, key=lambda one: -one.session_log_likelihood)
    blocks: list[Block] = [
        Table(
            f"Sessions of held-out people, {told[0].lists:,} lists",
            ("model", "log likelihood of a session", "perplexity", ""),
            tuple(
                (
                    one.model, signed(one.session_log_likelihood, 4), f"{one.perplexity:.4f}",
                    _role(one, chosen),
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
            "The nearer to 1, the better the clicks at a rank are predicted. What is hardly "
            "clicked is easily predicted: compare models at one rank.",
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
        "One person in five is held out of the fits. The likelihood is that of all clicks in a "
        "list together, each given the clicks above it. A perplexity of 1 is certainty, one of 2 "
        "a coin."
    )
    return Section(
        "click-models", "Click models", "Which model predicts clicks best?", lead, tuple(blocks)
    )


def _role(one: HeldOutScore, chosen: ChosenModel) -> str:
    if one.model == chosen.name:
        return "judges"
    return "" if one.identified else "examination not identified"
