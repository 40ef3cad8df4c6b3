"""The inspection: what is wrong with the data, and how many judgments are enough."""

from __future__ import annotations

from owpc_ltr.inspection.figures import LearningCurve
from owpc_ltr.inspection.result import Inspection
from owpc_ltr_report.blocks import Block, Chart, Facts, Section, Table, Text
from owpc_ltr_report.charts.learning import learning
from owpc_ltr_report.figures import amount, interval
from owpc_ltr_report.names import short_name
from owpc_ltr_report.verdict import NEUTRAL, Verdict


def inspection_section(found: Inspection) -> Section:
    """The findings, the worst first; the learning curve and the trial of shuffled labels."""
    blocks: list[Block] = []
    if found.findings:
        blocks.append(
            Table(
                "Findings, the worst first",
                ("severity", "finding, and what to do"),
                tuple(
                    (one.severity, (one.message, one.advice) if one.advice else one.message)
                    for one in found.findings
                ),
            )
        )
    else:
        blocks.append(Text("No check found anything.", "good"))
    if found.canary is not None:
        canary = found.canary
        blocks.append(
            Facts(
                (
                    (
                        f"{canary.metric} gained by true labels",
                        f"{amount(canary.true.mean)} "
                        f"({interval(canary.true.low, canary.true.high)})",
                    ),
                    (
                        "gained by shuffled labels (should be about 0)",
                        f"{amount(canary.shuffled.mean)} "
                        f"({interval(canary.shuffled.low, canary.shuffled.high)})",
                    ),
                )
            )
        )
    if found.learning_curve is not None and len(found.learning_curve.points) > 1:
        blocks.append(_curve(found.learning_curve))
    count = len(found.warnings)
    lead = (
        f"{count} warning{'s' if count != 1 else ''} that figures or models may suffer from."
        if count
        else "Nothing that figures or models would suffer from was found."
    )
    return Section("inspection", "Data checks", "Can the data be trusted?", lead, tuple(blocks))


def inspection_verdict(found: Inspection) -> Verdict:
    """The verdict of a page that is of this alone."""
    data, names = found.data, ", ".join(map(short_name, found.data.names))
    sizes = f"{data.queries:,} queries and {data.documents:,} documents"
    if not found.warnings:
        said = f"In the {sizes} of {names} nothing was found that figures or models suffer from."
        return Verdict(NEUTRAL, said, (), heading="No warnings")
    first = found.warnings[0]
    more = f" {len(found.warnings) - 1:,} more are below." if len(found.warnings) > 1 else ""
    said = f"In the {sizes} of {names}: {first.line}.{more}"
    return Verdict("worse", said, (), heading="Mend the data first")


def _curve(curve: LearningCurve) -> Chart:
    rows = tuple((one.queries, one.mean, one.low, one.high) for one in curve.points)
    return Chart(
        "learning-curve",
        "Are there enough judgments?",
        learning(rows, "queries to train on", curve.metric),
        curve.told,
        Table(
            f"{curve.metric} on {curve.held_out:,} held-out queries",
            ("training queries", "mean", "95 % low", "95 % high"),
            rows,
        ),
    )
