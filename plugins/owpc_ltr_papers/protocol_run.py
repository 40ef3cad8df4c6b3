"""The whole job: the data sets that there are, the protocol's jobs on them, and one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.files.output import Journal
from owpc_ltr.host.registry import Registry
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Run
from owpc_ltr.signatures import option_name
from owpc_ltr_papers.folders import Collection, cut_of, find_collections
from owpc_ltr_papers.jobs import Bench, Tools
from owpc_ltr_papers.protocols import (
    Extent,
    Protocol,
    exchangeable2014,
    inex2009,
    lambdarank,
    owpc2009,
    parts_of,
)
from owpc_ltr_papers.published import figures, sources
from owpc_ltr_papers.ranklib import JAR, fetch_ranklib
from owpc_ltr_papers.results import Reproduction, prepare
from owpc_ltr_papers.rows import Row, fact_rows, rows_elsewhere, rows_of

PROTOCOLS: dict[str, Callable[[], Protocol]] = {
    "owpc2009": owpc2009,
    "inex2009": inex2009,
    "lambdarank": lambdarank,
    "exchangeable2014": exchangeable2014,
}


@dataclass(frozen=True)
class ReproductionPlan:
    """What to reproduce, from which folder, and where results are kept (`out`, or nowhere).

    `format` is that of the text which the result is printed as.
    """

    protocol: str
    letor: Path
    data_sets: tuple[str, ...] = ()
    out: Path | None = None
    extent: Extent = field(default_factory=Extent)
    seed: int = 0
    format: str = "table"


def run_protocol(
    plan: ReproductionPlan, registry: Registry, run: Run, say: Callable[[str], None]
) -> Reproduction:
    """Do what the folder's journal does not have yet, and write every format into the folder.

    A data set that cannot be done is named, and the others are done. Raises UsageError for a
    protocol or a data set that there is not, BadInput for a folder without data, Refused where no
    data set can be done.
    """
    protocol = protocol_of(plan)
    if plan.out is not None:
        prepare(plan.out, plan.protocol)
    found, left = find_collections(plan.letor)
    collections = _chosen(found, plan.data_sets)
    ranklib = fetch_ranklib(say).run if plan.extent.with_ranklib else None
    journal = Journal(None if plan.out is None else plan.out / "journal.jsonl")
    benches: list[Bench] = []
    rows = [*fact_rows(protocol), *rows_elsewhere(protocol)]
    missing, failed = list[str](), list[str]()
    for number, collection in enumerate(collections):
        missing += [f"{collection.name}: {what}" for what in collection.missing]
        own = replace(protocol, metrics=_by_its_script(collection.name, protocol.metrics))
        tools = Tools(registry, _within(run, number, len(collections)), own.metrics, ranklib)
        benches.append(Bench(tools, journal, plan.out))
        try:
            rows += _rows(plan, own, collection, benches[-1], missing)
        except (BadInput, Refused) as error:
            failed.append(f"{collection.name} could not be done: {error}")
    if len(failed) == len(collections):
        raise Refused(failed[0])
    notes = (*protocol_notes(protocol, plan.extent), *left, *missing, *failed)
    outcome = Reproduction(
        plan.protocol,
        tuple(rows),
        notes=(*notes, *absent_notes(protocol, collections)),
        citations=tuple(citations(rows)),
        seed=plan.seed,
        quick=plan.extent.quick,
        reused=sum(bench.reused for bench in benches),
        stale=sum(bench.stale for bench in benches),
        format=plan.format,
    )
    if plan.out is not None:
        outcome.write(plan.out)
    return outcome


def _rows(
    plan: ReproductionPlan,
    protocol: Protocol,
    collection: Collection,
    bench: Bench,
    missing: list[str],
) -> list[Row]:
    """The rows of one data set; that it is not as published goes to what is missing."""
    cut = cut_of(collection)
    methods = list(protocol.methods(plan.extent))
    results = bench.results(cut, parts_of(methods))
    if not cut.as_published:
        missing.append(f"{cut.label}: not the published folds, so that no difference is told")
    return rows_of(protocol, methods, cut, results, seed=plan.seed, quick=plan.extent.quick)


def protocol_of(plan: ReproductionPlan) -> Protocol:
    """The protocol of a name. Raises UsageError where there is none, or it does not use RankLib."""
    if plan.protocol not in PROTOCOLS:
        raise UsageError(
            f"no protocol is called '{plan.protocol}': choose among {', '.join(PROTOCOLS)}"
        )
    protocol = PROTOCOLS[plan.protocol]()
    if plan.extent.with_ranklib and not protocol.uses_ranklib:
        raise UsageError(
            f"{plan.protocol} does not use RankLib: leave {option_name('with_ranklib')} out, or "
            "take "
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
