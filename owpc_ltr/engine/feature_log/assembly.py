"""Finished chunks as the output: one dataset, or a folder of parts, with a manifest.

A folder of parts may be larger than memory, or written by several runs: each logs the queries of
its own buckets, out of a snapshot of its own. What they say of the index and the engine must be
equal, or no reader takes the parts together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.columns import ColumnFacts, column_facts, facts_together
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.types import judges_of
from owpc_ltr.data.judgments.weights import Weighed, importance_of, weights_of
from owpc_ltr.data.options import DEFAULT_BUCKETS
from owpc_ltr.data.partitioned.manifest import SALT, Share, Told, bucket_of, check_buckets
from owpc_ltr.data.partitioned.writing import check_folder, write_partitioned
from owpc_ltr.data.splits import positions_of
from owpc_ltr.engine.feature_log.chunks import Chunk, Fate, LogCounts, Values, from_bytes
from owpc_ltr.engine.feature_log.environment import Environment
from owpc_ltr.engine.feature_log.job import canonical, fingerprint
from owpc_ltr.engine.feature_log.run_folder import RunFolder, remove
from owpc_ltr.errors import BadInput, Refused, UsageError

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.columns import ExternalValues
    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.judgments.types import JudgedQuery
    from owpc_ltr.engine.feature_log.job import LogJob


def assemble(
    folder: RunFolder,
    chunks: Sequence[Chunk],
    judgments: Judgments,
    params: Sequence[dict[str, Any]],
    environment: Environment,
    job: dict[str, Any],
    joined: ExternalValues | None = None,
) -> tuple[RankingDataset, ColumnFacts]:
    """The dataset of all logged documents, and its columns; queries without one are left out.

    The columns of `joined`, whose rows are the judged pairs, stand after those of the feature set.
    Nothing in it depends on time, on the machine, or on how often the run was resumed.
    """
    judged, counts = chunks[-1].rows.stop, LogCounts()
    own = len(environment.featureset.features)
    names = environment.featureset.feature_names + (joined.feature_names if joined else ())
    fates = np.zeros(judged, np.uint8)
    features = np.full((judged, len(names)), np.nan, np.float32)
    for chunk in chunks:
        values = from_bytes(folder.read(chunk.number))
        fates[chunk.rows.start : chunk.rows.stop] = values.fates
        features[chunk.rows.start : chunk.rows.stop, :own] = values.features
        counts += values.counts(len(chunk.rows))
    if joined is not None:
        features[:, own:] = joined.values
    logged = fates == Fate.LOGGED
    queries = judgments.queries
    weighed = Weighed.among(queries)
    dataset = logged_dataset(queries, params, logged, features, names, environment, weighed)
    if dataset is None:
        raise Refused(f"none of the {judged} judged documents could be logged")
    facts = column_facts(dataset.features)
    manifest = {
        **counts.as_json(),
        "queries": {"judged": len(queries), "logged": dataset.n_queries},
        **job,
        "missing": dict(zip(names, facts.missing.tolist(), strict=True)),
    }
    return replace(dataset, manifest=manifest), facts


def logged_dataset(
    queries: Sequence[JudgedQuery],
    params: Sequence[dict[str, Any]],
    logged: NDArray[np.bool_],
    features: Matrix,
    names: tuple[str, ...],
    environment: Environment,
    weighed: Weighed,
) -> RankingDataset | None:
    """The documents that were `logged`, of these queries; None where there is none.

    `weighed` says which weights the dataset has, which other queries may have.
    """
    starts = np.cumsum([0, *(len(query.document_ids) for query in queries)])
    sizes = np.add.reduceat(logged, starts[:-1], dtype=np.int64)
    ranked: list[int] = np.flatnonzero(sizes).tolist()
    if not ranked:
        return None
    return RankingDataset(
        features=features[logged],
        labels=np.concatenate([query.grades for query in queries])[logged],
        offsets=np.concatenate(([0], np.cumsum(sizes[ranked]))).astype(np.int64),
        query_ids=pa.array([queries[q].query_id for q in ranked], pa.string()),
        feature_names=names,
        document_ids=pa.array(
            [document for query in queries for document in query.document_ids], pa.string()
        ).filter(pa.array(logged)),
        featureset_hash=environment.featureset.hash,
        query_params=pa.array([canonical(params[q]) for q in ranked], pa.string()),
        query_weights=(
            np.array([importance_of(queries[q]) for q in ranked]) if weighed.queries else None
        ),
        document_weights=(
            np.concatenate([weights_of(query) for query in queries])[logged]
            if weighed.documents
            else None
        ),
    )


@dataclass(frozen=True)
class PartitionedOutput:
    """A folder of parts in so many buckets, of which this run writes its share."""

    buckets: int = DEFAULT_BUCKETS
    share: Share = field(default_factory=Share)

    def check(self, out: Path, joined: Sequence[ExternalTable]) -> None:
        """Refuse what could not be written in the end. Raises UsageError."""
        check_buckets(self.buckets)
        if self.share.of > self.buckets:
            raise UsageError(
                f"{self.buckets} buckets cannot be shared by {self.share.of}: give --buckets "
                f"{self.share.of} or more"
            )
        if self.share.of > 1 and joined:
            raise UsageError(
                "--extra-features counts a table's rows once for all queries: log without --part"
            )
        check_folder(out, self.share)

    def own(self, judgments: Judgments) -> Judgments:
        """The queries of this run. Raises BadInput where there is none."""
        if self.share.of == 1:
            return judgments
        positions = positions_of((query.query_id for query in judgments.queries), SALT)
        buckets = bucket_of(positions, self.buckets).tolist()
        pairs = zip(judgments.queries, buckets, strict=True)
        own = [query for query, bucket in pairs if self.share.has(bucket)]
        if not own:
            raise BadInput(
                f"none of the {len(judgments.queries)} queries is in part {self.share.number}/"
                f"{self.share.of}: log them in fewer parts"
            )
        return replace(judgments, queries=own)

    def of_the_whole(self, job: LogJob, judgments: Judgments) -> LogJob:
        """The job, said to be of all judgments."""
        about = {
            **job.description["judgments"],
            "fingerprint": fingerprint(judgments),
            **judges_of(judgments.queries),
        }
        # Parts of several writers have the same columns.
        weighed = Weighed.among(judgments.queries)
        return replace(job, description={**job.description, "judgments": about}, weighed=weighed)

    def beside(self, out: Path) -> Path:
        """What half-done work is kept beside: each writer's own."""
        return out.with_name(f"{out.name}{self.share.suffix()}")


def publish_parts(
    folder: RunFolder,
    job: LogJob,
    description: dict[str, Any],
    out: Path,
    parted: PartitionedOutput,
) -> tuple[dict[str, Any], ColumnFacts]:
    """Write the folder, chunk after chunk; its manifest, and the facts of its columns."""
    tally, told = _Tally(), Told(description)

    def stream() -> Iterator[RankingDataset]:
        for chunk in job.chunks:
            values = from_bytes(folder.read(chunk.number))
            dataset = _dataset(job, chunk, values)
            tally.add(chunk, values, dataset)
            if dataset is not None:
                yield dataset
        told.counts = tally.counts(job)

    written = write_partitioned(
        stream(), out, buckets=parted.buckets, told=told, share=parted.share
    )
    remove(folder.path)
    return dict(written.whole_source or {}), tally.known(job)


class _Tally:
    """What the chunks so far add up to."""

    def __init__(self) -> None:
        self.logged, self.queries = LogCounts(), 0
        self.facts: ColumnFacts | None = None

    def add(self, chunk: Chunk, values: Values, dataset: RankingDataset | None) -> None:
        self.logged += values.counts(len(chunk.rows))
        if dataset is not None:
            self.queries += dataset.n_queries
            own = column_facts(dataset.features)
            self.facts = own if self.facts is None else facts_together(self.facts, own)

    def known(self, job: LogJob) -> ColumnFacts:
        """The facts of all columns. Raises Refused where nothing could be logged."""
        if self.facts is None:
            judged = job.chunks[-1].rows.stop
            raise Refused(f"none of the {judged} judged documents could be logged")
        return self.facts

    def counts(self, job: LogJob) -> dict[str, Any]:
        """What adds up over several writers."""
        missing = self.known(job).missing.tolist()
        return {
            **self.logged.as_json(),
            "queries": {"judged": len(job.judgments.queries), "logged": self.queries},
            "missing": dict(zip(job.feature_names, missing, strict=True)),
        }


def _dataset(job: LogJob, chunk: Chunk, values: Values) -> RankingDataset | None:
    """The documents of a chunk that were logged."""
    rows = slice(chunk.rows.start, chunk.rows.stop)
    features = values.features
    if job.joined is not None:
        features = np.hstack((features, job.joined.values[rows]))
    queries = slice(chunk.queries.start, chunk.queries.stop)
    return logged_dataset(
        job.judgments.queries[queries],
        job.params[queries],
        values.fates == Fate.LOGGED,
        features,
        job.feature_names,
        job.environment,
        job.weighed,
    )
