"""Finished chunks as a folder of parts: a log larger than memory, or one that several write.

Each of several writers logs the queries of its own buckets, out of a moment of its own: what they
say of the index and the engine must be the same, or no reader takes them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.columns import ColumnFacts, column_facts, facts_together
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.types import judges_of
from owpc_ltr.data.judgments.weights import Weighed
from owpc_ltr.data.options import DEFAULT_BUCKETS
from owpc_ltr.data.partitioned.manifest import SALT, Share, Told, bucket_of, check_buckets
from owpc_ltr.data.partitioned.writing import check_folder, write_partitioned
from owpc_ltr.data.splits import positions_of
from owpc_ltr.engine.feature_log.account import Account
from owpc_ltr.engine.feature_log.assembly import fingerprint, logged_dataset
from owpc_ltr.engine.feature_log.chunks import Chunk, Fate, Values, from_bytes
from owpc_ltr.engine.feature_log.folder import RunFolder, remove
from owpc_ltr.errors import BadInput, Refused, UsageError

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import JoinedTable
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.feature_log.job import Job


@dataclass(frozen=True)
class Parted:
    """A folder of parts in so many buckets, of which this run writes its share."""

    buckets: int = DEFAULT_BUCKETS
    share: Share = field(default_factory=Share)

    def check(self, out: Path, joined: Sequence[JoinedTable]) -> None:
        """Refuse what could not be written in the end. Raises UsageError."""
        check_buckets(self.buckets)
        if self.share.of > self.buckets:
            raise UsageError(
                f"{self.buckets} buckets cannot be shared by {self.share.of}: give --buckets "
                f"{self.share.of} or more"
            )
        if self.share.of > 1 and joined:
            raise UsageError(
                "--join accounts for a table's rows once for all queries: log without --part"
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

    def of_the_whole(self, job: Job, judgments: Judgments) -> Job:
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
    folder: RunFolder, job: Job, description: dict[str, Any], out: Path, parted: Parted
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
        self.account, self.queries = Account(), 0
        self.facts: ColumnFacts | None = None

    def add(self, chunk: Chunk, values: Values, dataset: RankingDataset | None) -> None:
        self.account += values.account(len(chunk.rows))
        if dataset is not None:
            self.queries += dataset.n_queries
            own = column_facts(dataset.features)
            self.facts = own if self.facts is None else facts_together(self.facts, own)

    def known(self, job: Job) -> ColumnFacts:
        """The facts of all columns. Raises Refused where nothing could be logged."""
        if self.facts is None:
            judged = job.chunks[-1].rows.stop
            raise Refused(f"none of the {judged} judged documents could be logged")
        return self.facts

    def counts(self, job: Job) -> dict[str, Any]:
        """What adds up over several writers."""
        missing = self.known(job).missing.tolist()
        return {
            **self.account.as_json(),
            "queries": {"judged": len(job.judgments.queries), "logged": self.queries},
            "missing": dict(zip(job.feature_names, missing, strict=True)),
        }


def _dataset(job: Job, chunk: Chunk, values: Values) -> RankingDataset | None:
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
