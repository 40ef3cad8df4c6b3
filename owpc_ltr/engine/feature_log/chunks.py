"""Chunks: the judgments cut into parts that are logged, checked and stored as one file each.

Each judged document is logged, absent or rejected, and LogCounts has them all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.errors import Refused


@dataclass(frozen=True)
class LogCounts:
    """judged = logged + absent + rejected, else Refused."""

    judged: int = 0
    logged: int = 0
    absent: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    """Number of documents by reason."""

    def __post_init__(self) -> None:
        parts = (self.logged, self.absent, *self.rejected.values())
        if self.judged != sum(parts) or min(parts) < 0:
            raise Refused(
                f"the counts do not add up: {self.judged} judged, but {self.logged} logged + "
                f"{self.absent} absent + {self.n_rejected} rejected; please report this"
            )

    @property
    def n_rejected(self) -> int:
        """Rejected documents, for whatever reason."""
        return sum(self.rejected.values())

    def __add__(self, other: LogCounts) -> LogCounts:
        rejected = Counter(self.rejected) + Counter(other.rejected)
        return LogCounts(
            self.judged + other.judged,
            self.logged + other.logged,
            self.absent + other.absent,
            dict(sorted(rejected.items())),
        )

    def as_json(self) -> dict[str, Any]:
        """The four figures, rejected ones by reason."""
        return {
            "judged": self.judged,
            "logged": self.logged,
            "absent": self.absent,
            "rejected": dict(sorted(self.rejected.items())),
        }


def check_shares(
    counts: LogCounts, judged: int, index: str, max_absent: float, *, allow_rejected: bool
) -> None:
    """Refuse counts, also running ones, where too many of `judged` documents are missing.

    Running counts that are over the limit cannot come back under it.
    """
    if counts.absent > max_absent * judged:
        raise Refused(
            f"{counts.absent} of {judged} judged documents ({counts.absent / judged:.1%}) are "
            f"not in '{index}', and at most {max_absent:.1%} may be: is it the right index and id "
            f"field? Otherwise allow it: --max-absent {_rounded_up(counts.absent / judged)}"
        )
    if counts.rejected and not allow_rejected:
        reasons = ", ".join(f"{n} ({reason})" for reason, n in sorted(counts.rejected.items()))
        raise Refused(
            f"documents were rejected: {reasons}; fix the feature set, or leave them out: "
            "--allow-rejected"
        )


def _rounded_up(share: float) -> float:
    return min(1.0, (int(share * 100) + 1) / 100)


class Fate(IntEnum):
    """What became of a judged document."""

    UNKNOWN = 0
    LOGGED = 1
    ABSENT = 2
    REJECTED = 3


@dataclass(frozen=True)
class Chunk:
    """Consecutive queries, and the rows that their documents have among all judged documents."""

    number: int
    queries: range
    rows: range


def cut(sizes: Sequence[int], documents: int) -> list[Chunk]:
    """Chunks of whole queries with at least so many documents each; the last may have fewer."""
    chunks: list[Chunk] = []
    ends = list(accumulate(sizes))
    first, row = 0, 0
    for query, end in enumerate(ends):
        if end - row >= documents or query == len(ends) - 1:
            chunks.append(Chunk(len(chunks), range(first, query + 1), range(row, end)))
            first, row = query + 1, end
    return chunks


@dataclass(frozen=True, eq=False)
class Values:
    """What became of some judged documents, in their order; nothing is known at first."""

    fates: NDArray[np.uint8]
    features: Matrix
    """float32 (n_documents, n_features), NaN where there is no value."""
    reasons: dict[int, str]
    """Why a rejected document (by position) was rejected."""

    @classmethod
    def unknown(cls, documents: int, features: int) -> Values:
        """Room for the values of some documents."""
        return cls(
            np.zeros(documents, np.uint8), np.full((documents, features), np.nan, np.float32), {}
        )

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        """The parts one after the other."""
        starts = accumulate((len(part.fates) for part in parts), initial=0)
        return cls(
            np.concatenate([part.fates for part in parts]),
            np.concatenate([part.features for part in parts]),
            {
                start + position: reason
                for start, part in zip(starts, parts, strict=False)
                for position, reason in sorted(part.reasons.items())
            },
        )

    def counts(self, judged: int) -> LogCounts:
        """The counts of these documents, of which so many were judged; Refused if it fails."""
        counts = np.bincount(self.fates, minlength=len(Fate))
        if counts[Fate.REJECTED] != len(self.reasons):
            raise Refused("a document was rejected without a reason; please report this")
        return LogCounts(
            judged,
            int(counts[Fate.LOGGED]),
            int(counts[Fate.ABSENT]),
            dict(sorted(Counter(self.reasons.values()).items())),
        )


def to_bytes(values: Values) -> bytes:
    """The values as an Arrow file."""
    columns = values.features.shape[1]
    flat = pa.array(np.ascontiguousarray(values.features).reshape(-1), pa.float32())
    features = pa.FixedSizeListArray.from_arrays(flat, columns)
    fates = pa.array(values.fates, pa.uint8())
    table = pa.table({"fate": fates, "features": features})
    table = table.replace_schema_metadata(
        {"reasons": json.dumps(sorted(values.reasons.items()), ensure_ascii=True)}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(content: bytes) -> Values:
    """What `to_bytes` wrote."""
    with pa.ipc.open_file(pa.py_buffer(content)) as reader:
        table = reader.read_all()
        table.validate(full=True)
        table = table.combine_chunks()
    features = table.column("features").combine_chunks()
    flat = features.flatten().to_numpy(zero_copy_only=True)
    return Values(
        table.column("fate").combine_chunks().to_numpy(zero_copy_only=True),
        flat.reshape(-1, features.type.list_size),
        dict(json.loads(table.schema.metadata[b"reasons"])),
    )
