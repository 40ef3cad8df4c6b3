"""The loop without a person: `owpc-ltr keep`, for cron, a timer or a workflow.

- `plan`: what a plan may say, in the project file
- `keep`: one run, how it ends, and who is told; `rounds`: the steps from judgments to a promoted
  model, and the watches; `workflow`: the jobs of the core and of other plugins that they call
- `state`: what survives between runs; no guarantee rests on it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command

if TYPE_CHECKING:
    from owpc_ltr.host.report_parts import ReportPart


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr keep`."""
    summary = "Keep a ranker up to date: train, compare, try and promote, or roll back."
    return [Command("keep", "owpc_ltr_keep.keep:keep", summary)]


@hookimpl
def ltr_report_parts() -> list[ReportPart]:
    """What a report says of a run of `keep`."""
    from owpc_ltr_keep.keep import report_part

    return [report_part()]
