"""Events: what became of each one, and why some were of no use."""

from __future__ import annotations

from owpc_ltr_clicks.judgments import ClickJudgments

from owpc_ltr_report.blocks import Block, Chart, Facts, Section, Table, Text
from owpc_ltr_report.charts.bars import bars


def events_section(found: ClickJudgments) -> Section:
    """Used, or unusable for a reason; what is doubtful stands first."""
    account = found.behaviour.event_counts
    told = account.as_dict()
    blocks: list[Block] = [Text(warning, "warning") for warning in found.warnings]
    rows = [("used", account.used), *told["unusable"].items()]
    share = account.used / max(account.read, 1)
    if len(rows) > 1:
        blocks.append(
            Chart(
                "unused-events",
                "Events that were of no use",
                bars([(reason, float(count)) for reason, count in rows[1:]], "events", digits=","),
                f"{account.read - account.used:,} of {account.read:,} events were of no use, most "
                f"of them for this reason: {rows[1][0]}.",
                Table(
                    "What became of every event",
                    ("what", "events", "share"),
                    tuple((what, n, f"{n / max(account.read, 1):.2%}") for what, n in rows),
                ),
            )
        )
    else:
        blocks.append(Text("Every event was used.", "good"))
    how = "given" if account.first_position_given else "found"
    blocks.append(
        Facts(
            (
                ("events read", f"{account.read:,}"),
                ("used", f"{account.used:,} ({share:.1%})"),
                ("clicks without an impression", f"{account.implied:,}"),
                ("positions begin with", f"{account.first_position} ({how})"),
            )
        )
    )
    if account.others:
        blocks.append(
            Table(
                "Actions that nobody asked for, which are left out",
                ("action", "events"),
                tuple((name or "(none)", n) for name, n in told["other_actions"].items()),
            )
        )
    lead = "Every event was used, or left out for a reason: nothing is lost in silence."
    return Section("events", "Events", "What became of the log?", lead, tuple(blocks))
