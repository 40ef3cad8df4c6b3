"""Judgments from clicks: a grade and a weight for every document that was shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ranks_vary
from owpc_ltr.data.judgments.types import CLICKS, JUDGED_BY
from owpc_ltr.errors import UsageError
from owpc_ltr.files.output import open_output
from owpc_ltr.files.text import shown
from owpc_ltr.protocols import ClickFit
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.encoding import ID
from owpc_ltr_clicks.grading import (
    CLIP,
    EffectiveSample,
    grades,
    propensity_weights,
    worth,
    worth_of_any,
)
from owpc_ltr_clicks.model_selection import ChosenModel

_MANY = 0.1
"""The share of events, or clicks, above which a fault is warned of."""
_FEW_CLICKS = 1000

Weights = Literal["certainty", "impressions", "none"]
"""The weight of a document: the certainty of its grade (0 to 1), its impressions, or none."""
QueryWeights = Literal["people", "none"]
"""The weight of a query: how many people asked it, or none."""


@dataclass(frozen=True, eq=False)
class ClickJudgments:
    """Judgments as a table, one row per document of a query, and what they were made from.

    `settings` are the names and values of the options, for people to read.
    """

    behaviour: Behaviour
    chosen: ChosenModel
    table: pa.Table
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def n_queries(self) -> int:
        """The number of queries with judgments."""
        return len(self.behaviour.counts.queries)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the judgments."""
        return tuple(warnings_of(self.behaviour, self.chosen))

    def as_dict(self) -> dict[str, Any]:
        """Events, queries, examination, held-out scores and grades as JSON."""
        given = np.asarray(self.table["grade"])
        return {
            **report_of(self.behaviour, self.chosen),
            "grades": _histogram(given),
            "warnings": list(self.warnings),
        }

    def write(self, path: Path | str) -> None:
        """Write a judgment list: Parquet, or TSV by its name. It has no user and no session."""
        write_columns(self.table, path)


def judge(
    behaviour: Behaviour,
    chosen: ChosenModel,
    top: int | None = 4,
    weights: Weights = "certainty",
    query_weights: QueryWeights = "none",
) -> ClickJudgments:
    """The judgments of a fit; with `query_weights` "people" a query weighs as many as asked it."""
    counts = behaviour.counts
    of = counts, chosen.fit, behaviour.options.greatest_value
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
    settings = (
        ("grades", "probabilities" if top is None else f"0 to {top}"),
        ("weights of documents", weights),
        ("weights of queries", query_weights),
    )
    return ClickJudgments(behaviour, chosen, pa.table(columns), settings)


def weighted_judgments(
    behaviour: Behaviour, fit: ClickFit, clip: float = CLIP
) -> tuple[pa.Table, EffectiveSample]:
    """Clicks as a judgment list, with weights inverse to the examination of their ranks."""
    graded, weights, effective = propensity_weights(behaviour.counts, fit, clip)
    columns = judged_pairs(behaviour, graded)
    columns["weight"] = pa.array(weights)
    return pa.table(columns), effective


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
    """The number of documents of each grade; of probabilities, in tenths."""
    whole = bool((given == np.floor(given)).all())
    values, counts = np.unique(given if whole else np.floor(given * 10) / 10, return_counts=True)
    return {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}


def _above_zero(values: NDArray[np.float64]) -> pa.Array:
    """Weights above 0, so that no document is dropped."""
    return pa.array(np.maximum(values, 1e-6))


def report_of(behaviour: Behaviour, chosen: ChosenModel) -> dict[str, Any]:
    """Events, queries, examination, how well each model predicts."""
    counts, fit = behaviour.counts, chosen.fit
    shown, clicks = counts.by_rank(counts.shown), counts.by_rank(counts.clicked)
    rates = np.divide(clicks, shown, out=np.zeros_like(shown), where=shown > 0)
    return {
        "events": behaviour.event_counts.as_dict(),
        "queries": len(counts.queries),
        "documents": counts.n_pairs,
        "impressions": int(shown.sum()),
        "clicks": int(clicks.sum()),
        "clicked_documents": int((counts.by_pair(counts.clicked) > 0).sum()),
        "model": chosen.name,
        "prior": list(fit.prior),
        "ranks": [
            {"rank": rank, "shown": int(n), "click_through": float(rate), "examination": float(e)}
            for rank, n, rate, e in zip(
                range(1, len(shown) + 1), shown, rates, fit.examination, strict=False
            )
        ],
        "ranks_vary": ranks_vary(counts),
        "held_out": [one.as_dict() for one in chosen.held_out],
    }


def warnings_of(behaviour: Behaviour, chosen: ChosenModel) -> Iterator[str]:
    """What to know before the judgments are used."""
    event_counts, counts = behaviour.event_counts, behaviour.counts
    lost = event_counts.unusable["no position"]
    if lost > _MANY * max(event_counts.read, 1):
        yield (
            f"{lost:,} of {event_counts.read:,} events have no position: log it, or the lists that "
            "were shown"
        )
    field = event_counts.document_field
    if field not in {None, ID} and not event_counts.looked_up:
        yield (
            f"documents are named by {shown(field or '')}, and log-features asks for them by _id: "
            "find them with --index"
        )
    clicks = int(counts.clicked.sum())
    if event_counts.implied > _MANY * max(clicks, 1):
        yield (
            f"{event_counts.implied:,} of {clicks:,} clicks are on results that nothing says were "
            "shown: what was passed over may be missing too"
        )
    if clicks < _FEW_CLICKS:
        yield f"{clicks:,} clicks are few: most of each grade is the prior"
    if not event_counts.first_position_given and event_counts.first_position == 0:
        yield "positions are taken to begin with 0: say --first-position 1 if they do not"
    if not ranks_vary(counts):
        yield _unidentified(counts.moved, chosen)
    yield from chosen.fit.notes


def _unidentified(moved: float, chosen: ChosenModel) -> str:
    """That a ranking which never changes identifies no examination; which model judges instead."""
    begin = (
        f"only {moved:.1%} of the impressions show a document at another rank than usual: where "
        "the ranking never changes, clicks do not identify examination"
    )
    relying = [one.model for one in chosen.held_out if not one.identified]
    if not chosen.fit.identified:
        why = f"the grades of {chosen.name} are no better than a guess at it"
    elif relying:
        why = f"auto chose {chosen.name}, as {' and '.join(relying)} would compare ranks"
    else:
        why = f"{chosen.name} does not rely on it"
    if (chosen.fit.examination == chosen.fit.examination.max()).all():
        why += " (it corrects nothing: what stood high keeps a high grade)"
    return f"{begin}; {why}; let rankers take turns, and judge the top by people"
