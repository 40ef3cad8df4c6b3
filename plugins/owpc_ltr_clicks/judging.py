"""Judgments from behaviour: a grade and a weight for every document that was shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.judgments.types import CLICKS, JUDGED_BY
from owpc_ltr.errors import UsageError
from owpc_ltr.files.output import open_output
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.grading import grades, worth, worth_of_any
from owpc_ltr_clicks.models import Chosen
from owpc_ltr_clicks.report import report_of, warnings_of

Weights = Literal["certainty", "impressions", "none"]
"""What a document counts: how sure its grade is, from 0 to 1; its impressions; all the same."""
QueryWeights = Literal["people", "none"]


@dataclass(frozen=True, eq=False)
class ClickJudgments:
    """Judgments as columns, one row a document of a query, and what they were made of.

    `asked` are the names and values of what was asked for, as people read them.
    """

    behaviour: Behaviour
    chosen: Chosen
    table: pa.Table
    asked: tuple[tuple[str, str], ...] = ()

    @property
    def n_queries(self) -> int:
        """How many queries have judgments."""
        return len(self.behaviour.counts.queries)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to doubt."""
        return tuple(warnings_of(self.behaviour, self.chosen))

    def as_dict(self) -> dict[str, Any]:
        """What was found, as JSON; see `owpc_ltr_clicks.report`."""
        given = np.asarray(self.table["grade"])
        return {
            **report_of(self.behaviour, self.chosen),
            "grades": _histogram(given),
            "warnings": list(self.warnings),
        }

    def write(self, path: Path | str) -> None:
        """A judgment list: Parquet, or TSV by its name. No user or session is in it."""
        write_columns(self.table, path)


def judge(
    behaviour: Behaviour,
    chosen: Chosen,
    top: int | None = 4,
    weights: Weights = "certainty",
    query_weights: QueryWeights = "none",
) -> ClickJudgments:
    """The judgments of a fit; with `query_weights=people` a query weighs as many as asked it."""
    counts = behaviour.counts
    of = counts, chosen.fit, behaviour.options.greatest
    found = grades(worth(*of), top, worth_of_any(*of))
    columns = judged_pairs(behaviour, found)
    if weights != "none":
        kinds: dict[str, Vector] = {
            "certainty": chosen.fit.certainty,
            "impressions": chosen.fit.trials,
        }
        if weights not in kinds:
            raise UsageError(f"there are no weights '{weights}': use certainty, impressions, none")
        columns["weight"] = _above_zero(kinds[weights])
    if query_weights not in {"people", "none"}:
        raise UsageError(f"there are no query weights '{query_weights}': use people or none")
    if query_weights == "people":
        columns["query_weight"] = counts.people[counts.pair_query].astype(np.float64)
    asked = (
        ("grades", "probabilities" if top is None else f"0 to {top}"),
        ("weights of documents", weights),
        ("weights of queries", query_weights),
    )
    return ClickJudgments(behaviour, chosen, pa.table(columns), asked)


def judged_pairs(behaviour: Behaviour, values: Vector) -> dict[str, Any]:
    """The columns that every judgment list has."""
    counts = behaviour.counts
    return {
        "query": counts.queries.take(pa.array(counts.pair_query)),
        "doc_id": counts.documents.take(pa.array(counts.pair_document)),
        "grade": pa.array(values),
        JUDGED_BY: pa.repeat(CLICKS, counts.n_pairs),
    }


def write_columns(table: pa.Table, path: Path | str) -> None:
    """A table as Parquet, or as TSV where the name ends in .tsv."""
    sink = pa.BufferOutputStream()
    if str(path).endswith(".tsv"):
        import pyarrow.csv

        options = pyarrow.csv.WriteOptions(delimiter="\t", quoting_style="needed")
        pyarrow.csv.write_csv(table, sink, options)
    else:
        import pyarrow.parquet as pq

        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    with open_output(path, binary=not str(path).endswith(".tsv")) as file:
        file.write(sink.getvalue())


def _histogram(given: Vector) -> dict[str, int]:
    """How many have each grade; of probabilities, in tenths."""
    whole = bool((given == np.floor(given)).all())
    values, counts = np.unique(given if whole else np.floor(given * 10) / 10, return_counts=True)
    return {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}


def _above_zero(values: NDArray[np.float64]) -> pa.Array:
    """Weights of which none is 0, so that no document is lost."""
    return pa.array(np.maximum(values, 1e-6))
