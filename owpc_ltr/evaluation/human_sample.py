"""A sample of queries that people judged, beside all queries, which somebody cheap judged.

People's judgments are a dataset of its own, or a list: then its documents have the features of the
same documents in the cheap dataset, and a ranker is shown those that people judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.types import Judgments
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.metrics import Metric

_BETWEEN = "\n"
"""Stands between query and document in a key."""


@dataclass(frozen=True, eq=False)
class HumanSample:
    """People's judgments of queries of the cheap data, and what was left out of them."""

    data: RankingDataset
    notes: tuple[str, ...] = ()

    def among(self, query_ids: pa.StringArray) -> tuple[RankingDataset, NDArray[np.int64]]:
        """Those of these queries, and where each stands. Raises Refused for fewer than two."""
        places = pc.fill_null(pc.index_in(self.data.query_ids, value_set=query_ids), -1)
        there = np.array(places).astype(np.int64)
        kept = np.flatnonzero(there >= 0)
        if len(kept) < 2:
            raise Refused(
                f"people judged {len(kept)} of the {len(query_ids)} queries that are compared, and "
                "an interval needs 2 at least: judge more (owpc-ltr judge next)"
            )
        if len(kept) == self.data.n_queries:
            return self.data, there
        return self.data.select(kept), there[kept]


def human_sample(cheap: RankingDataset, human: Judgments | RankingDataset) -> HumanSample:
    """The sample. Raises BadInput where people judged nothing that the cheap data have."""
    if isinstance(human, Judgments):
        data, unknown, alone = _judged_rows(cheap, human)
    else:
        data, unknown = human, 0
        shared = pc.sum(pc.is_in(human.query_ids, value_set=cheap.query_ids)).as_py()
        alone = human.n_queries - shared
        if not shared:
            raise _other("queries", "among the cheap judgments")
    return HumanSample(data, tuple(_notes(alone, unknown)))


def check_counted(metric: Metric, cheap: Vector, human: Vector) -> None:
    """Refuse differences of a metric that leaves out queries."""
    if np.isnan(cheap).any() or np.isnan(human).any():
        raise UsageError(
            f"{metric} leaves out queries, and what is left of a random sample then is none: "
            "choose a metric that counts all (empty=zero), and --unjudged zero or condensed"
        )


def in_all(values: Vector, places: NDArray[np.int64], n_queries: int) -> Vector:
    """A sample's values where their queries stand, NaN elsewhere."""
    spread: Vector = np.full(n_queries, np.nan)
    spread[places] = values
    return spread


def strata_of(query_ids: pa.StringArray, strata: Mapping[str, str] | None) -> list[str] | None:
    """The stratum of each query. Raises BadInput for a query that is in none."""
    if strata is None:
        return None
    names = query_ids.to_pylist()
    for name in names:
        if name not in strata:
            raise BadInput(
                f"query '{name}' is in no stratum: give the strata that judge next wrote for these "
                "cheap judgments"
            )
    return [strata[name] for name in names]


def sample_weights(
    weights: Vector | None, places: NDArray[np.int64], strata: list[str] | None
) -> Vector | None:
    """How much each sampled query counts alone: its importance, and how many it stands for."""
    own = None if weights is None else weights[places]
    if strata is None:
        return own
    _, codes = np.unique(strata, return_inverse=True)
    sizes = np.bincount(codes)
    counts = np.bincount(codes[places], minlength=len(sizes))
    stands: Vector = (sizes / np.maximum(counts, 1))[codes[places]]
    return stands if own is None else own * stands


def _other(what: str, where: str) -> BadInput:
    return BadInput(
        f"none of the {what} that people judged is {where}: are these other {what}, or other ids?"
    )


def _notes(alone: int, unknown: int) -> Iterator[str]:
    if alone:
        yield (
            f"{alone:,} queries that people judged are not among the cheap judgments: they are "
            "left out"
        )
    if unknown:
        yield (
            f"{unknown:,} documents that people judged are not in the cheap data, so that nothing "
            "is known of their features: they are left out"
        )


def _judged_rows(cheap: RankingDataset, human: Judgments) -> tuple[RankingDataset, int, int]:
    """The rows of documents that people judged, with their grades; who is not there, counted."""
    if cheap.document_ids is None:
        raise BadInput(
            "the cheap data do not know their documents, so that people's judgments cannot be "
            "joined: give data that log-features wrote, or people's as a dataset"
        )
    of = np.repeat(np.arange(cheap.n_queries), np.diff(cheap.offsets))
    known = {name: number for number, name in enumerate(cheap.query_ids.to_pylist())}
    shared = [query for query in human.queries if query.query_id in known]
    if not shared:
        raise _other("queries", "among the cheap judgments")
    names = [f"{query.query_id}{_BETWEEN}{one}" for query in shared for one in query.document_ids]
    keys = pa.array(names, pa.string())
    ids = cheap.query_ids.take(pa.array(of))
    own = pc.binary_join_element_wise(ids, cheap.document_ids, _BETWEEN)
    places = pc.index_in(own, value_set=keys)
    rows = np.flatnonzero(np.array(pc.is_valid(places)))
    alone = len(human.queries) - len(shared)
    if not len(rows):
        raise _other("documents", "in the cheap data")
    grades = np.concatenate([np.asarray(query.grades, np.float32) for query in shared])
    queries, sizes = np.unique(of[rows], return_counts=True)
    whole = cheap.select(queries)
    data = replace(
        whole,
        features=cheap.features[rows],
        labels=grades[places.take(pa.array(rows)).to_numpy()],
        offsets=np.append(0, np.cumsum(sizes)).astype(np.int64),
        document_ids=cheap.document_ids.take(pa.array(rows)),
        document_weights=None,
        comments=None,
        document_fields=(
            None if cheap.document_fields is None
            else {name: part.take(pa.array(rows)) for name, part in cheap.document_fields.items()}
        ),
        manifest=None,
    )  # fmt: skip
    return data, len(keys) - len(rows), alone
