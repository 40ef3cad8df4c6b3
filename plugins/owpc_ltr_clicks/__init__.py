"""Judgments from clicks: logs, click models, grades.

- `cleaning`: which events count; the limits above which a session or client is a bot
- `log_files`: logs in files; `ubi`: User Behavior Insights out of a cluster
- `encoding`, `events`, `sessions`, `counting`: from events to counts by query, document and rank
- `models`: the shipped click models; `model_selection`: the one that predicts held-out clicks best
- `grading`, `judgments`: grades and weights; `judge_clicks`: the public functions
- `report_part`: what a report says of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command

if TYPE_CHECKING:
    from owpc_ltr.host.report_parts import ReportPart


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr judge clicks`."""
    function = "owpc_ltr_clicks.judge_clicks:judge_clicks"
    return [Command("judge clicks", function, "Make judgments from clicks, with a click model.")]


@hookimpl
def ltr_report_parts() -> list[ReportPart]:
    """What a report says of judgments from clicks."""
    from owpc_ltr_clicks.report_part import report_part

    return [report_part()]
