"""`owpc-ltr reproduce`: a paper's protocol on the reader's own LETOR, published figures beside.

The protocol's jobs are done on the data sets that there are, for one table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from owpc_ltr.errors import BadInput, Refused, Stopped, UsageError
from owpc_ltr.files.output import Journal
from owpc_ltr.host.registry import Registry
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Run
from owpc_ltr.signatures import Help, Plugins, Progress, Reads, Seed, job, option_name, silent
from owpc_ltr.training.options import Threads
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


def print_message(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr)


@job
def reproduce(
    protocol: Annotated[
        Literal["owpc2009", "inex2009", "lambdarank", "exchangeable2014"],
        Help("Which paper's experiments.", metavar="PROTOCOL"),
    ],
    *,
    letor: Annotated[
        Path | str,
        Reads(
            "The folder with LETOR's data sets: Fold1/train.txt, or S1.txt to S5.",
            absent="{path} is no folder: name the one that holds LETOR's data sets",
            metavar="FOLDER",
        ),
    ],
    data_sets: Annotated[
        Sequence[str], Help("Only this data set, as OHSUMED; may be repeated.", flag="--data-set")
    ] = (),
    out: Annotated[
        Path | str | None,
        Help(
            "A folder for finished work and the table in every format.",
            short="-o",
            metavar="FOLDER",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["table", "markdown", "csv", "latex"], Help("How the table is printed.")
    ] = "table",
    quick: Annotated[
        bool, Help("Run a small part of the protocol; results are marked as such.")
    ] = False,
    with_ranklib: Annotated[
        bool, Help("Download RankLib once, and run it as the paper did.")
    ] = False,
    threads: Threads = 1,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
    say: Callable[[str], None] = print_message,
) -> Reproduction:
    """Run a paper's protocol on your LETOR folder.

    Shows each published figure beside ours, with the difference and an interval. Missing data sets
    are named; figures of a part of a data set are marked and not compared. With --out, the same
    command resumes an interrupted run.

    Python: `say` receives each message; by default it is printed to standard error.

    Raises UsageError for a protocol or a data set that there is not, BadInput for a folder without
    data.
    """
    from owpc_ltr.host.registry import load
    from owpc_ltr.protocols import Run
    from owpc_ltr_papers.protocols import Extent

    folder = None if out is None else Path(out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UsageError(f"{option_name('out')} {out} is a file: name a folder")
    plan = ReproductionPlan(
        protocol,
        Path(letor),
        tuple(data_sets),
        folder,
        extent=Extent(quick, with_ranklib),
        seed=seed,
        format=format,
    )
    run = Run(seed=seed, threads=threads, progress=progress)
    try:
        found = run_protocol(plan, load(map(Path, plugins)), run, say)
    except Stopped:
        if folder is None:
            say(f"nothing of it is kept: with {option_name('out')} FOLDER it would be")
        raise
    if found.stale:
        say(
            f"{found.stale} results in {out} were of other data, another version or another base: "
            "done again"
        )
    if folder is not None:
        say(f"written to {out}: results.json, .csv, .md, .tex and .html")
    return found


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
