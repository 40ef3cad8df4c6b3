"""The sample: whole queries of all files, in memory, for checks that need values together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.columns import listed
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.inspection import thresholds

Data = RankingDataset | PartitionedDataset
_SEED = 0


@dataclass(frozen=True)
class Block:
    """A stretch of queries as they stand in a file, or in a part of a folder."""

    source: str
    first: str
    last: str


@dataclass(frozen=True, eq=False)
class Sample:
    """Whole queries, each of a block; `block` has one number a query, never decreasing."""

    data: RankingDataset
    block: NDArray[np.int64]
    blocks: tuple[Block, ...]

    @cached_property
    def query(self) -> NDArray[np.int64]:
        """The query number of each document."""
        return np.repeat(np.arange(self.data.n_queries), np.diff(self.data.offsets))

    def place(self, first: int, last: int) -> str:
        """The blocks from `first` to before `last` in words."""
        one, other = self.blocks[first], self.blocks[last - 1]
        here = Counter(block.source for block in self.blocks[first:last])
        everywhere = Counter(block.source for block in self.blocks)
        if len(everywhere) > 1 and all(here[name] == everywhere[name] for name in here):
            return f"in {listed([*here])}"
        where = f" ({one.source})" if len(here) == 1 < len(everywhere) else ""
        return f"from about query '{one.first}' to '{other.last}'{where}"


def take_sample(named: Mapping[str, Data]) -> Sample:
    """About as many documents as a look needs, of each source by its share."""
    total = sum(data.n_documents for data in named.values())
    width = max(next(iter(named.values())).n_features, 1)
    most = min(thresholds.SAMPLE_DOCUMENTS, thresholds.SAMPLE_CELLS // width)
    share = min(1.0, most / max(total, 1))
    parts: list[RankingDataset] = []
    blocks: list[Block] = []
    numbers: list[NDArray[np.int64]] = []
    room = max(1, thresholds.BLOCKS // len(named))
    for name, data in named.items():
        for part, own in _stretches(name, data, share, room):
            counts = np.array([count for _, count in own])
            numbers.append(len(blocks) + np.repeat(np.arange(len(own)), counts))
            blocks += [block for block, _ in own]
            parts.append(part)
    return Sample(together(parts), np.concatenate(numbers), tuple(blocks))


def sampled(data: RankingDataset, documents: int) -> RankingDataset:
    """Whole queries of about so many documents, in their order."""
    if data.n_documents <= documents:
        return data
    order = np.random.default_rng(_SEED).permutation(data.n_queries)
    fits = np.cumsum(np.diff(data.offsets)[order]) <= documents
    fits[0] = True
    return data.select(np.sort(order[fits]))


def together(parts: list[RankingDataset]) -> RankingDataset:
    """The queries of all parts; their ids may be in several, which no other dataset allows."""
    if len(parts) == 1:
        return parts[0]
    rows = np.cumsum([0, *(part.n_documents for part in parts)])
    starts = [part.offsets[:-1] + first for part, first in zip(parts, rows, strict=False)]
    known = all(part.document_ids is not None for part in parts)
    return RankingDataset(
        features=np.concatenate([part.features for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        offsets=np.append(np.concatenate(starts), rows[-1]),
        query_ids=_one_each([one for part in parts for one in part.query_ids.to_pylist()]),
        feature_names=parts[0].feature_names,
        document_ids=pa.concat_arrays([part.document_ids for part in parts]) if known else None,
    )


def _one_each(ids: list[str]) -> pa.StringArray:
    """The ids, with a number behind those that came before."""
    seen: dict[str, int] = {}
    named = []
    for one in ids:
        seen[one] = seen.get(one, 0) + 1
        named.append(one if seen[one] == 1 else f"{one} ({seen[one]})")
    return pa.array(named, pa.string())


def _stretches(
    name: str, data: Data, share: float, room: int
) -> Iterator[tuple[RankingDataset, list[tuple[Block, int]]]]:
    """Sampled parts, each with its blocks and how many queries these have."""
    documents = int(share * data.n_documents) if share < 1 else data.n_documents
    if isinstance(data, RankingDataset):
        part = sampled(data, documents)
        yield part, _cut(name, part, room)
        return
    chosen = data.sample(documents)
    pieces = list(zip(chosen.pieces, chosen, strict=True))
    for group in np.array_split(np.arange(len(pieces)), min(room, len(pieces))):
        some = [pieces[number] for number in group]
        paths = [piece.part.path for piece, _ in some]
        part = together([part for _, part in some])
        named = (
            name
            if len(pieces) == 1
            else f"{name}/{' … '.join(dict.fromkeys((paths[0], paths[-1])))}"
        )
        ids = part.query_ids
        block = Block(named, ids[0].as_py(), ids[-1].as_py())
        yield part, [(block, part.n_queries)]


def _cut(name: str, part: RankingDataset, room: int) -> list[tuple[Block, int]]:
    """Blocks of as many queries each."""
    count = max(1, min(room, part.n_queries // thresholds.FEWEST_IN_BLOCK))
    ends = np.linspace(0, part.n_queries, count + 1).astype(int)
    ids = part.query_ids
    return [
        (Block(name, ids[first].as_py(), ids[last - 1].as_py()), last - first)
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
