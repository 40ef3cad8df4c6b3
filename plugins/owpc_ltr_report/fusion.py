"""A learned fusion of the legs of a hybrid search: whether to fuse, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator

from owpc_ltr.evaluation.significance import Comparison, Outcome
from owpc_ltr.fusion.evaluation import LEARNED
from owpc_ltr.fusion.result import Fusion
from owpc_ltr_report.charts import Chart, Table, drawing
from owpc_ltr_report.comparison import forest_plot
from owpc_ltr_report.figures import amount, interval, p_cell, plain, signed
from owpc_ltr_report.page import Section


def fusion_section(found: Fusion) -> Section:
    """Every ranker against the best leg, and what limits fusion."""
    rankers = {one.name: one.means[found.metric] for one in found.comparison.rankers}
    means = [
        (name, amount(mean.mean), interval(mean, plus=False)) for name, mean in rankers.items()
    ]
    pairs = list(_pairs(found))
    differences = [
        (name, signed(one.mean_difference), interval(one), p_cell(p), outcome)
        for name, one, p, outcome in pairs
    ]
    drawn = [(name, one.mean_difference, one.low, one.high, is_) for name, one, _, is_ in pairs]
    title = f"{found.metric}: rankers against {found.best_leg} alone"
    caption = f"Differences from {found.best_leg} alone"
    forest = forest_plot("fusion", title, {found.metric}, drawn, caption, "ranker")
    weights = [
        (name, plain(weight), f"{found.shares[name]:.0%}") for name, weight in found.weights.items()
    ]
    words = {
        "found": found, "learned": LEARNED,
        "means": means, "differences": differences, "weights": weights,
    }  # fmt: skip
    return Section("fusion", [forest, _recall(found)], words)


def _pairs(found: Fusion) -> Iterator[tuple[str, Comparison, float, Outcome]]:
    """Each ranker against the best leg; for the learned weights, the comparison that decides."""
    for pair in found.comparison.pairs:
        if pair.a == LEARNED:
            yield LEARNED, found.decision, found.decision.p_permutation, found.verdict.outcome
        else:
            yield pair.a, pair.comparison, pair.p_holm, pair.verdict.outcome


def _recall(found: Fusion) -> Chart:
    recall = found.recall
    rows = [*recall.legs.items(), ("all legs", recall.union), ("the one request", recall.request)]
    sentence = (
        f"{recall.unreachable:,} of {recall.relevant:,} relevant documents are in none, and no "
        "fusion brings them."
    )
    title = "The share of the relevant documents that are candidates"
    table = Table("Recall of the candidates", ("found by", "recall"), rows)
    spec = drawing("bars", rows, title="recall", digits=".2f")
    return Chart("recall", title, spec, sentence, table)
