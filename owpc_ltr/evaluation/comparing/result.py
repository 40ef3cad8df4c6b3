"""RankerComparison: rankers on the same queries, each pair's difference, and what it may be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.comparing.figures import ComparedPair, ComparedRanker, Figures
from owpc_ltr.evaluation.comparing.shown import html_block, text
from owpc_ltr.evaluation.latex import LatexColumn, latex_table
from owpc_ltr.evaluation.sign_flips import ROUNDING
from owpc_ltr.metrics import Metric

__all__ = ["ComparedPair", "ComparedRanker", "RankerComparison"]


@dataclass(frozen=True, eq=False, repr=False)
class RankerComparison(Figures):
    """Rankers side by side on the same queries.

    `pairs` are all pairs, or each ranker against the `baseline`, of every metric. `side` says which
    queries of the data these are, `notes` why. Where it is `weighted`, means, differences and their
    tests weigh each query by its importance. `unjudged` is what unjudged documents were taken for:
    `zero` (irrelevant), `skip` (their queries left out), `condensed` (taken out of the lists).
    `query_texts` are what users typed, where the data know it. With cheap judgments of all queries,
    these are the ones that people judged, and `powered` are the pairs by both.
    """

    @cached_property
    def per_query(self) -> pa.Table:
        """One row a query: its id, text and importance, and `METRIC RANKER` for each value.

        A query that a metric leaves out has none.
        """
        columns: dict[str, Any] = {"query_id": self.query_ids}
        if self.query_texts is not None:
            columns["query"] = self.query_texts
        if self.importance is not None:
            columns["importance"] = self.importance
        for ranker in self.rankers:
            for one in ranker.measured:
                values = pa.array(one.per_query, from_pandas=True)
                columns[f"{one.metric} {ranker.name}"] = values
        return pa.table(columns)

    def ranker(self, name: str) -> ComparedRanker:
        """The ranker of this name. Raises UsageError where there is none."""
        for one in self.rankers:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.rankers)
        raise UsageError(f"no ranker is called '{name}': there are {known}")

    def worst(
        self, a: str, b: str, metric: Metric | str | None = None, n: int = 10
    ) -> list[dict[str, Any]]:
        """The queries in which ranker `a` loses most to `b`, the worst first, and no others.

        Each has its id, its text where that is known, and both values. By the first metric unless
        one is named.
        """
        number = self._metric_number(metric)
        mine, theirs = (self.ranker(name).measured[number].per_query for name in (a, b))
        sign = 1.0 if self.metrics[number].higher_is_better else -1.0
        gains = np.nan_to_num(sign * (mine - theirs))
        texts = self.query_texts
        return [
            {
                "query_id": self.query_ids[query].as_py(),
                "query": None if texts is None else texts[query].as_py(),
                "a": float(mine[query]),
                "b": float(theirs[query]),
            }
            for query in np.argsort(gains, kind="stable")[:n].tolist()
            if gains[query] < -ROUNDING
        ]

    def as_dict(self) -> dict[str, Any]:
        """Every figure but those of single queries, as JSON; `verdict` is that of the headline."""
        a, b = self.headline
        return {
            "verdict": {"a": a, "b": b, **self.verdict(a, b).as_dict()},
            "n_queries": self.n_queries,
            "queries": self.side,
            "weighted": self.weighted,
            "unjudged": self.unjudged,
            "baseline": self.baseline,
            "rankers": [one.as_dict() for one in self.rankers],
            "pairs": [one.as_dict() for one in self.pairs],
            "corrected_over": len(self.pairs),
            **(
                {
                    "powered": [one.as_dict() for one in self.powered],
                    "ideal_of": "human-labelled documents",
                }
                if self.powered
                else {}
            ),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_frame(self, per_query: bool = False) -> Any:
        """The pairs, or the values of each query, as a pandas DataFrame."""
        import pandas as pd

        if per_query:
            return self.per_query.to_pandas()
        return pd.DataFrame([one.as_dict() for one in self.pairs])

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        """Means as bars, pairs as a table, notes and warnings below."""
        return html_block(self)

    def to_latex(self) -> str:
        """The means as a LaTeX table (booktabs): rankers × metrics, the best of each bold.

        A dagger marks what is better or worse than the baseline, by the verdict.
        """
        places = {one.name: number for number, one in enumerate(self.rankers)}
        marked: dict[str, set[int]] = {}
        for pair in self.pairs:
            if self.baseline is not None and pair.better is not None:
                other = pair.a if pair.b == self.baseline else pair.b
                marked.setdefault(pair.metric, set()).add(places[other])
        columns = [
            LatexColumn(
                str(metric),
                [one.means[str(metric)].mean for one in self.rankers],
                metric.higher_is_better,
                marked.get(str(metric), set()),
            )
            for metric in self.metrics
        ]
        dagger = (
            f"dagger: better or worse than {self.baseline}, p < .05, corrected (Holm), and the "
            "95 % interval excludes 0"
        )
        notes = [f"{self.n_queries:,} queries", *([dagger] if self.baseline is not None else [])]
        return latex_table([one.name for one in self.rankers], columns, notes)

    def _metric_number(self, metric: Metric | str | None) -> int:
        texts = [str(one) for one in self.metrics]
        if metric is None:
            return 0
        if str(metric) not in texts:
            raise UsageError(f"{metric} was not measured: there are {', '.join(texts)}")
        return texts.index(str(metric))
