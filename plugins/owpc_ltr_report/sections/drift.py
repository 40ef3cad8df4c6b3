"""The drift: whether a model in a cluster still meets there what it met when it was uploaded."""

from __future__ import annotations

from owpc_ltr.engine.deployment.drift import Verified
from owpc_ltr_report.blocks import Block, Chart, Facts, Section, Table, Text
from owpc_ltr_report.charts.bars import bars
from owpc_ltr_report.figures import plain, signed
from owpc_ltr_report.verdict import NEUTRAL, Verdict

_DRAWN = 20


def drift_section(found: Verified) -> Section:
    """What `verify` found: what drifted in words, how far features moved, and rankings with it."""
    blocks: list[Block] = [Text(line, "warning") for line in found.drift]
    blocks += [Text(line) for line in found.notes]
    rows = [("model", found.model), ("index", found.index)]
    if found.parity is not None:
        parity = found.parity
        rows += [
            ("judged queries asked", plain(parity.queries)),
            ("judged documents asked", plain(parity.documents)),
            ("largest difference of a score", plain(parity.largest_difference)),
            ("pairs that engine and laptop order differently", plain(parity.swapped)),
        ]
    if found.rankings is not None:
        rows.append(("rankings of the judged documents", found.rankings.words))
    blocks.append(Facts(tuple(rows)))
    moved = [one for one in found.features if one.by > 0][:_DRAWN]
    if moved:
        blocks.append(
            Chart(
                "moved",
                "How far features moved",
                bars([(one.feature, one.by) for one in moved], "standard deviations"),
                f"Most of all {moved[0].feature}, by {plain(moved[0].by)} standard deviations in "
                "the mean.",
                Table(
                    "Features then and now",
                    ("feature", "moved by", "mean then", "mean now", "newly missing"),
                    tuple(
                        (
                            one.feature, one.by, one.mean_before, one.mean_now,
                            f"{one.newly_missing:.1%}",
                        )
                        for one in found.features
                    ),
                ),
            )
        )  # fmt: skip
    lead = (
        f"{found.model} has drifted since it was uploaded."
        if found.drift
        else f"{found.model} is what it was when it was uploaded."
    )
    return Section("drift", "Drift", "Is it still what it was?", lead, tuple(blocks))


def drift_verdict(found: Verified) -> Verdict:
    """The verdict of a page that is of this alone."""
    known = None if found.rankings is None else found.rankings.ndcg_difference
    moved = "" if known is None else f" NDCG@10 of its judged documents moved by {signed(known)}."
    if found.drift:
        said = f"{found.model} in {found.index} has drifted: {'; '.join(found.drift)}.{moved}"
        return Verdict("worse", said, (), heading="It has drifted")
    said = f"{found.model} in {found.index} is what it was when it was uploaded.{moved}"
    return Verdict(NEUTRAL, said, (), heading="It is what it was")
