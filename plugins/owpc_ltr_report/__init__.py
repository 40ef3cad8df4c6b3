"""The HTML report."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr report`."""
    summary = "Write a self-contained HTML page about rankers."
    function = "owpc_ltr_report.report:report"
    return [Command("report", function, summary, extra="owpc-ltr[report]")]
