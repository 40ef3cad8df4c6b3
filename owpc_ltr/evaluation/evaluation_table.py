"""The figures of one ranker, and of a baseline beside it, in tables, text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.compared_pair import (
    corrected_over,
    disagreements,
    measured_live_by,
    pair_table,
    ranker_letters,
    small_gain_lines,
    verdict_lines,
)
from owpc_ltr.evaluation.comparison_table import (
    RankerComparison,
    html_of,
    opening,
    queries_in_words,
    short_text,
    warning_lines,
)
from owpc_ltr.evaluation.measurement import Measured
from owpc_ltr.evaluation.options import split_in_words
from owpc_ltr.metrics import Metric
from owpc_ltr.plain_text import text_table, wrapped_text

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Evaluation(RankerComparison):
    """The figures of a ranker on some queries, and its comparison with a baseline, if any.

    `evaluation["map"]` has those of one metric, `evaluation["map"].interval` the 95 % interval of
    its mean. `scores` has one score a document of `data`, NaN where a run did not retrieve it; None
    where these are a folder of parts.
    """

    data: RankingDataset | PartitionedDataset
    scores: Vector | None

    @property
    def measured(self) -> tuple[Measured, ...]:
        """The ranker's figures, by metric."""
        return self.rankers[0].measured

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row a metric: its value, all-tied baseline, convention, and how many queries."""
        return [one.as_dict() for one in self.measured]

    def __getitem__(self, metric: Metric | str) -> Measured:
        """The figures of a metric: its mean, and each query's value."""
        for one in self.measured:
            if str(one.metric) == str(metric):
                return one
        metrics = ", ".join(str(one.metric) for one in self.measured)
        raise KeyError(f"{metric} was not measured: there are {metrics}")

    def to_frame(self, per_query: bool = False) -> Any:
        """The table, or the values of each query, as a pandas DataFrame."""
        import pandas as pd

        return super().to_frame(per_query=True) if per_query else pd.DataFrame(self.table)

    def as_dict(self) -> dict[str, Any]:
        """Every figure but those of single queries, as JSON."""
        return {
            "model": self.rankers[0].name,
            "data": self.data_name,
            "split": self.split,
            "n_queries": self.n_queries,
            "on_judged_documents": self.on_judged_documents,
            "n_independent": self.n_independent,
            "earlier_comparisons": self.looks,
            "metrics": self.table,
            **({"weighted": True} if self.weighted else {}),
            "baseline": self.baseline,
            "comparisons": [one.as_dict() for one in self.pairs],
            **({"verdict": self.verdict().as_dict()} if self.pairs else {}),
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """The verdict first, then each figure with its convention."""
        return "\n".join(_text_lines(self))

    def __repr__(self) -> str:
        means = [
            f"{one.metric!s:<12} {one.mean:.4f}  (all-tied baseline {one.all_tied_baseline:.4f})"
            for one in self.measured
        ]
        return short_text(self, [_title(self), *means, *warning_lines(self)])

    def _repr_html_(self) -> str:
        """Values as bars, the comparison as a table, warnings below."""
        lines = [*verdict_lines(self.pairs), *disagreements(self.pairs, self.split)]
        return html_of(self, _title(self), lines)


def _text_lines(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.pairs:
        yield wrapped_text(opening(evaluation))
    yield wrapped_text(_title(evaluation))
    others = evaluation.rankers[1:]
    yield text_table(
        ["METRIC", "VALUE", *("OTHER" for _ in others), "ALL TIED"],
        [
            (
                str(one.metric), one.mean, *(other.measured[number].mean for other in others),
                one.all_tied_baseline,
            )
            for number, one in enumerate(evaluation.measured)
        ],
    )  # fmt: skip
    notes = [
        "all tied: the baseline of scoring all documents the same",
        *(metric.convention for metric in evaluation.metrics),
    ]
    yield from (wrapped_text(note, "  ", "    ") for note in notes)
    if evaluation.pairs:
        yield from _pair_lines(evaluation)
    yield from map(wrapped_text, warning_lines(evaluation))


def _pair_lines(evaluation: Evaluation) -> Iterator[str]:
    pairs, (a, b) = evaluation.pairs, evaluation.headline
    compared = pairs[0].comparison.n_queries
    yield ""
    yield wrapped_text(f"A {a} against B {b}, on the same {compared:,} queries:")
    yield pair_table(pairs, ranker_letters((a, b)))
    lines = [
        *verdict_lines(pairs),
        *disagreements(pairs, evaluation.split),
        *small_gain_lines(pairs),
    ]
    if evaluation.on_judged_documents:
        lines.append(measured_live_by((a, b)))
    if evaluation.looks or evaluation.split == "folds":
        lines.append(corrected_over(len(pairs), evaluation.looks, evaluation.split))
    yield from map(wrapped_text, lines)


def _title(evaluation: Evaluation) -> str:
    of = f" of {evaluation.data_name}" if evaluation.data_name else ""
    ranker, queries = evaluation.rankers[0].name, queries_in_words(evaluation)
    title = f"{ranker} on {queries}{of} ({split_in_words(evaluation.split)})"
    return f"{title}, weighted by the importance of queries" if evaluation.weighted else title
