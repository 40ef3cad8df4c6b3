"""The figures of one ranker, and of a baseline beside it, in tables, text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.compared_pair import (
    disagreements,
    pair_table,
    ranker_letters,
    verdict_lines,
)
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.measurement import Measured
from owpc_ltr.evaluation.options import split_in_words
from owpc_ltr.metrics import Metric
from owpc_ltr.text import text_table, wrapped_text

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
            "earlier_comparisons": self.earlier_comparisons,
            "metrics": self.table,
            **({"weighted": True} if self.weighted else {}),
            "baseline": self.baseline,
            "comparisons": [one.as_dict() for one in self.pairs],
            **({"verdict": self.verdict().as_dict()} if self.pairs else {}),
            "warnings": list(self.warnings),
        }

    @property
    def _title(self) -> str:
        of = f" of {self.data_name}" if self.data_name else ""
        name, split = self.rankers[0].name, split_in_words(self.split)
        weighted = ", weighted by the importance of queries" if self.weighted else ""
        return f"{name} on {self._queries}{of} ({split}){weighted}"

    @property
    def _first_lines(self) -> list[str]:
        means = [
            f"{one.metric!s:<12} {one.mean:.4f}  (all-tied baseline {one.all_tied_baseline:.4f})"
            for one in self.measured
        ]
        return [self._title, *means, *self._warning_lines]

    @property
    def _lines_below(self) -> list[str]:
        return [*verdict_lines(self.pairs), *disagreements(self.pairs, self.split)]

    def _text_lines(self) -> Iterator[str]:
        if self.pairs:
            yield wrapped_text(self._opening)
        yield wrapped_text(self._title)
        by_metric = zip(*(ranker.measured for ranker in self.rankers), strict=True)
        yield text_table(
            ["METRIC", "VALUE", *("OTHER" for _ in self.rankers[1:]), "ALL TIED"],
            [
                (str(one.metric), *(of.mean for of in all_of), one.all_tied_baseline)
                for all_of in by_metric
                for one in all_of[:1]
            ],
        )
        notes = [
            "all tied: the baseline of scoring all documents the same",
            *(metric.convention for metric in self.metrics),
        ]
        yield from (wrapped_text(note, "  ", "    ") for note in notes)
        if self.pairs:
            yield from self._pair_lines()
        yield from map(wrapped_text, self._warning_lines)

    def _pair_lines(self) -> Iterator[str]:
        a, b = self.headline
        compared = self.pairs[0].comparison.n_queries
        yield ""
        yield wrapped_text(f"A {a} against B {b}, on the same {compared:,} queries:")
        yield pair_table(self.pairs, ranker_letters((a, b)))
        lines = [*self._verdict_lines, *self._live_lines, *self.correction(always=False)]
        yield from map(wrapped_text, lines)
