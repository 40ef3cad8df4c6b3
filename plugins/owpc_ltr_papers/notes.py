"""What must be known beside a table: conventions, what the folder lacks, where figures are from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from owpc_ltr_papers.folders import Collection
from owpc_ltr_papers.protocol import Extent, Protocol
from owpc_ltr_papers.published import figures, sources
from owpc_ltr_papers.ranklib import JAR
from owpc_ltr_papers.rows import Row


def protocol_notes(protocol: Protocol, extent: Extent) -> Iterator[str]:
    """What a protocol says of itself, of what was left out, and of its metrics."""
    yield from protocol.says
    if extent.quick:
        yield "--quick: few settings and small models, so that no difference is told"
    if extent.with_ranklib:
        yield (
            f"RankLib is {JAR}, with its default parameters but for -metric2t NDCG@10; its "
            "coordinate ascent draws without a seed, so that another run differs a little"
        )
    yield from (metric.convention for metric in protocol.metrics)


def absent_notes(protocol: Protocol, collections: Sequence[Collection]) -> Iterator[str]:
    """The paper's data sets that the folder does not have."""
    there = {collection.name for collection in collections}
    own = dict.fromkeys(figure.data_set for figure in figures(protocol.sources[0]))
    known = {fact.data_set for fact in protocol.facts()}
    absent = [name for name in own if name not in there | known]
    if absent:
        yield f"not in the folder: {', '.join(absent)}"


def citations(rows: Sequence[Row]) -> Iterator[str]:
    """Each source that a row is from, with its places."""
    places: dict[str, list[str]] = {}
    for row in rows:
        source, _, where = row.cited.partition(", ")
        if source and where not in places.setdefault(source, []):
            places[source].append(where)
    for key, found in places.items():
        told = sources()[key]
        yield f"{told}; {', '.join(found)}{f'; {told.note}' if told.note else ''}"
