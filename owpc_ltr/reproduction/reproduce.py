"""The whole job: the data sets that there are, the protocol's jobs on them, and one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.output import disk_faults
from owpc_ltr.host.registry import Registry
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Run
from owpc_ltr.reproduction.bench import Bench
from owpc_ltr.reproduction.exchangeable2014 import exchangeable2014
from owpc_ltr.reproduction.folders import Collection, find_collections
from owpc_ltr.reproduction.folds import cut_of
from owpc_ltr.reproduction.jobs import Tools
from owpc_ltr.reproduction.journal import Journal
from owpc_ltr.reproduction.lambdarank import lambdarank
from owpc_ltr.reproduction.outcome import Reproduction
from owpc_ltr.reproduction.owpc2009 import inex2009, owpc2009
from owpc_ltr.reproduction.protocol import Extent, Protocol, parts_of
from owpc_ltr.reproduction.published import figures, sources
from owpc_ltr.reproduction.ranklib import JAR, fetch_ranklib
from owpc_ltr.reproduction.rows import Row, fact_rows, rows_of

PROTOCOLS: dict[str, Callable[[], Protocol]] = {
    "owpc2009": owpc2009,
    "inex2009": inex2009,
    "lambdarank": lambdarank,
    "exchangeable2014": exchangeable2014,
}


@dataclass(frozen=True)
class Asked:
    """What to reproduce, from which folder, and where results are kept (`out`, or nowhere)."""

    protocol: str
    letor: Path
    data_sets: tuple[str, ...] = ()
    out: Path | None = None
    extent: Extent = field(default_factory=Extent)
    seed: int = 0


def reproduce(
    asked: Asked, registry: Registry, run: Run, say: Callable[[str], None]
) -> Reproduction:
    """Do what is not in the journal yet, and write every format where there is a folder for it.

    Raises UsageError for a protocol or a data set that there is not, BadInput for a folder without
    data.
    """
    protocol = protocol_of(asked)
    found = find_collections(asked.letor)
    collections = _chosen(found.collections, asked.data_sets)
    if asked.out is not None:
        with disk_faults(asked.out):
            asked.out.mkdir(parents=True, exist_ok=True)
    ranklib = fetch_ranklib(say) if asked.extent.with_ranklib else None
    journal = Journal(None if asked.out is None else asked.out / "journal")
    methods = list(protocol.methods(asked.extent))
    rows, missing = fact_rows(protocol), list[str]()
    for number, collection in enumerate(collections):
        missing += [f"{collection.name}: {what}" for what in collection.missing]
        own = replace(protocol, metrics=_by_its_script(collection.name, protocol.metrics))
        tools = Tools(registry, _within(run, number, len(collections)), own.metrics, ranklib)
        try:
            cut = cut_of(collection)
        except BadInput as error:
            missing.append(str(error))
            continue
        if not cut.as_published:
            missing.append(f"{cut.label}: not the published folds, so that no difference is told")
        results = Bench(tools, journal).results(cut, parts_of(methods))
        rows += rows_of(own, methods, cut, results, asked.seed, asked.extent.quick)
    outcome = Reproduction(
        asked.protocol,
        tuple(rows),
        (*_notes(asked, protocol), *found.notes, *missing, *_absent(protocol, collections)),
        tuple(_citations(rows)),
        asked.seed,
        asked.extent.quick,
        journal.reused,
        journal.stale,
    )
    if asked.out is not None:
        outcome.write(asked.out)
    return outcome


def protocol_of(asked: Asked) -> Protocol:
    """The protocol of a name. Raises UsageError where there is none, or it does not use RankLib."""
    if asked.protocol not in PROTOCOLS:
        raise UsageError(
            f"no protocol is called '{asked.protocol}': choose among {', '.join(PROTOCOLS)}"
        )
    protocol = PROTOCOLS[asked.protocol]()
    if asked.extent.with_ranklib and not protocol.uses_ranklib:
        raise UsageError(
            f"{asked.protocol} has no use for RankLib: leave --with-ranklib out, or take "
            "exchangeable2014, whose bases are RankLib's"
        )
    return protocol


def _chosen(collections: Sequence[Collection], names: tuple[str, ...]) -> list[Collection]:
    """Those of the names, which may leave the edition out; all where no name is given."""
    if not names:
        return list(collections)
    chosen = []
    for name in names:
        fits = [one for one in collections if name.lower() in _names_of(one)]
        if not fits:
            known = ", ".join(one.name for one in collections)
            raise UsageError(f"there is no data set '{name}' in the folder: it has {known}")
        chosen += [one for one in fits if one not in chosen]
    return chosen


def _names_of(collection: Collection) -> set[str]:
    return {collection.name.lower(), collection.name.lower().rpartition(" ")[2]}


def _by_its_script(data_set: str, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """LETOR 4.0's script counts NDCG@k of a query with fewer than k documents as 0."""
    if not data_set.startswith("LETOR 4.0"):
        return metrics
    return tuple(
        replace(metric, short="zero") if metric.name == "ndcg" else metric for metric in metrics
    )


def _within(run: Run, number: int, count: int) -> Run:
    """Progress of one data set as a part of all."""
    tell = run.progress
    return replace(
        run,
        progress=lambda message, done: tell(message, (number + (done or 0.0)) / count),
    )


def _notes(asked: Asked, protocol: Protocol) -> Iterator[str]:
    yield from protocol.says
    if asked.extent.quick:
        yield "--quick: few settings and small models, so that no difference is told"
    if asked.extent.with_ranklib:
        yield (
            f"RankLib is {JAR}, with its default parameters but for -metric2t NDCG@10; its "
            "coordinate ascent and AdaRank draw without a seed"
        )
    yield from (metric.convention for metric in protocol.metrics)


def _absent(protocol: Protocol, collections: Sequence[Collection]) -> Iterator[str]:
    """The paper's data sets that the folder does not have."""
    there = {collection.name for collection in collections}
    own = dict.fromkeys(figure.data_set for figure in figures(protocol.sources[0]))
    known = {fact.data_set for fact in protocol.facts()}
    absent = [name for name in own if name not in there | known]
    if absent:
        yield f"not in the folder: {', '.join(absent)}"


def _citations(rows: Sequence[Row]) -> Iterator[str]:
    """Each source that a row is from, with its places."""
    places: dict[str, list[str]] = {}
    for row in rows:
        source, _, where = row.cited.partition(", ")
        if source and where not in places.setdefault(source, []):
            places[source].append(where)
    for key, found in places.items():
        told = sources()[key]
        yield f"{told}; {', '.join(found)}{f'; {told.note}' if told.note else ''}"
