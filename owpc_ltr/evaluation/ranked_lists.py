"""The lists that rankers make of judged queries: what metrics are of, and what makes them doubtful.

A model ranks the documents of a dataset. A run is read as trec_eval reads it: a judged document
that it lacks is not retrieved, so that it has no rank, and still counts in what a metric divides
by; a judged query that it lacks counts 0 (trec_eval -c); its other queries are left out. Its
documents that are not judged are irrelevant, or are taken out (condensed lists).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.runs import RankedDocuments, TrecRun, document_names
from owpc_ltr.metrics import RankedQueries
from owpc_ltr.models.reordering import ReorderingModel, dataset_scores
from owpc_ltr.protocols import Model

Ranking = Model | ReorderingModel | TrecRun


class ListFacts(NamedTuple):
    """What makes lists doubtful, in numbers that add up over parts.

    `tied` of the `ranked` documents share their score with another of their query. `missing` of the
    `judged` documents, and all documents of `absent` of the `queries`, are not in a run; `unjudged`
    of its documents of these queries are not judged. `lowest` and `highest` are scores.
    """

    ranked: int
    tied: int
    judged: int
    missing: int
    queries: int
    absent: int
    unjudged: int
    lowest: float
    highest: float

    def joined(self, other: ListFacts) -> ListFacts:
        """Both together."""
        return ListFacts(
            self.ranked + other.ranked,
            self.tied + other.tied,
            self.judged + other.judged,
            self.missing + other.missing,
            self.queries + other.queries,
            self.absent + other.absent,
            self.unjudged + other.unjudged,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
        )


class Lists(NamedTuple):
    """The lists of judged queries; `scores` are of the data's documents, NaN if not retrieved.

    `found` is what a run has for the queries; None for a model.
    """

    queries: RankedQueries
    scores: Vector
    facts: ListFacts
    found: RankedDocuments | None = None


def lists_of(ranker: Ranking, data: RankingDataset, *, condensed: bool = False) -> Lists:
    """A ranker's lists of the queries; `condensed`: without the documents that are not judged."""
    if isinstance(ranker, TrecRun):
        return _lists_of_run(ranker, data, condensed=condensed)
    scores = dataset_scores(ranker, data)
    queries = RankedQueries(scores, data.labels, data.offsets)
    return Lists(queries, scores, _facts(queries, scores, data))


class WholeLists(NamedTuple):
    """Query by query the judged documents, and a run's others with the label 0.

    `places` are those of the run's lines; −1, and the score NaN, where it lacks the document.
    """

    scores: Vector
    labels: Labels
    offsets: NDArray[np.int64]
    places: NDArray[np.int64]
    document_ids: pa.StringArray


def whole_lists(run: TrecRun, found: RankedDocuments, data: RankingDataset) -> WholeLists:
    """All documents of the queries that are judged, or in the run, or both."""
    rows, query = found.rows[~found.judged], found.query[~found.judged]
    scores = np.concatenate([found.scores, run.scores[rows]])
    places = np.concatenate([found.places, rows])
    labels = np.concatenate([data.labels, np.zeros(len(rows), np.float32)])
    ids = pa.concat_arrays([document_names(data), run.document_ids.take(pa.array(rows))])
    of = np.concatenate([np.repeat(np.arange(data.n_queries), np.diff(data.offsets)), query])
    order = np.argsort(of, kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(of, minlength=data.n_queries)))
    by_query = ids.take(pa.array(order))
    return WholeLists(scores[order], labels[order], offsets, places[order], by_query)


def list_warnings(
    ranker: Ranking, parts: Sequence[ListFacts], *, tell_unjudged: bool = False
) -> list[str]:
    """What makes figures of a ranker's lists doubtful: ties, and what a run lacks.

    Raises BadInput for a run that has none of the judged documents.
    """
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.joined(part)
    if isinstance(ranker, TrecRun) and whole.missing == whole.judged:
        raise ranker.of_other_data(whole.judged)
    alike = whole.tied > 0 and whole.lowest == whole.highest
    told = tie_warnings(whole.tied / max(whole.ranked, 1), alike=alike)
    if whole.absent:
        told.append(
            f"{whole.absent:,} of {whole.queries:,} queries are not in it: they count 0 (as "
            "trec_eval -c has it)"
        )
    if whole.missing:
        told.append(
            f"{whole.missing:,} of {whole.judged:,} judged documents are not in it: they count as "
            "not retrieved"
        )
    if whole.unjudged and tell_unjudged:
        told.append(f"{whole.unjudged:,} of its documents are not judged: they count as irrelevant")
    return told


def tie_warnings(share: float, *, alike: bool) -> list[str]:
    """What ties make doubtful, by the share of tied documents and whether all scores are alike."""
    if alike:
        return ["all scores are equal: the figures are those of a random order"]
    if share > 0.05:
        return [
            f"{share:.0%} of the documents share their score with another of the same query; "
            "figures are expected values over the orders of tied documents"
        ]
    return []


def _lists_of_run(run: TrecRun, data: RankingDataset, *, condensed: bool) -> Lists:
    found = run.ranked(data)
    if condensed:
        scores, labels, offsets = found.scores, data.labels, data.offsets
    else:
        scores, labels, offsets, *_ = whole_lists(run, found, data)
    queries = RankedQueries(scores, labels, offsets, ~np.isnan(scores))
    facts = _facts(queries, run.scores[found.rows], data)._replace(
        missing=int(np.isnan(found.scores).sum()),
        absent=data.n_queries - len(np.unique(found.query)),
        unjudged=int((~found.judged).sum()),
    )
    return Lists(queries, found.scores, facts, found)


def _facts(queries: RankedQueries, scores: Vector, data: RankingDataset) -> ListFacts:
    size = queries.ranking("expected").size
    return ListFacts(
        ranked=int(size.sum()),
        tied=int(size[size > 1].sum()),
        judged=data.n_documents,
        missing=0,
        queries=data.n_queries,
        absent=0,
        unjudged=0,
        lowest=float(scores.min(initial=np.inf)),
        highest=float(scores.max(initial=-np.inf)),
    )
