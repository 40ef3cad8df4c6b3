"""The papers' protocols and risk bounds on LETOR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command

if TYPE_CHECKING:
    from owpc_ltr.host.report_parts import ReportPart


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer both."""
    summaries = {
        "reproduce": "Run a paper's protocol on your LETOR folder.",
        "bounds": "Evaluate the papers' risk bounds for a linear model.",
    }
    return [
        Command(name, f"owpc_ltr_papers.{name}:{name}", summary)
        for name, summary in summaries.items()
    ]


@hookimpl
def ltr_report_parts() -> list[ReportPart]:
    """What a report says of risk bounds."""
    from owpc_ltr.host.report_parts import ReportPart
    from owpc_ltr_papers.bounds import RiskBounds, report_sections

    return [ReportPart(RiskBounds, report_sections)]
