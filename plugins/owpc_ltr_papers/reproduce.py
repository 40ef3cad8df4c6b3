"""`owpc-ltr reproduce`: a paper's protocol on the user's LETOR data, beside the published figures.

The protocol's jobs run on all data sets in the folder; their results make one table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from owpc_ltr.errors import BadInput, Refused, Stopped, UsageError
from owpc_ltr.files.output import Journal
from owpc_ltr.host.commands import Plugins
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Run
from owpc_ltr.signatures import Help, Progress, Reads, Seed, job, option_name, silent
from owpc_ltr.training.options import Threads
from owpc_ltr_papers.folders import Collection, find_collections
from owpc_ltr_papers.jobs import RANKLIB, Bench, Tools, fetch_ranklib
from owpc_ltr_papers.protocols import (
    Extent,
    Protocol,
    exchangeable2014,
    inex2009,
    lambdarank,
    owpc2009,
    parts_of,
)
from owpc_ltr_papers.results import Reproduction, prepare
from owpc_ltr_papers.rows import Row, fact_rows, figures, rows_elsewhere, rows_of, sources


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
        Sequence[str],
        Help("Only this data set, as OHSUMED; may be repeated.", flag="--data-set", metavar="NAME"),
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
    folder = None if out is None else Path(out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UsageError(f"{option_name('out')} {out} is a file: name a folder")
    run = Run(seed=seed, threads=threads, progress=progress)
    tools, extent = Tools(load(map(Path, plugins)), run, ()), Extent(quick, with_ranklib)
    try:
        result = _run_protocol(
            protocol, Path(letor), data_sets, folder, tools, extent=extent, say=say
        )
    except Stopped:
        if folder is None:
            say(f"nothing of it is kept: with {option_name('out')} FOLDER it would be")
        raise
    if result.stale:
        say(
            f"{result.stale} results in {out} were of other data, another version or another base: "
            "done again"
        )
    if folder is not None:
        say(f"written to {out}: results.json, .csv, .md, .tex and .html")
    return replace(result, format=format)


PROTOCOLS: dict[str, Callable[[], Protocol]] = {
    protocol.__name__: protocol for protocol in (owpc2009, inex2009, lambdarank, exchangeable2014)
}


def _run_protocol(
    name: str, letor: Path, data_sets: Sequence[str], folder: Path | None, tools: Tools,
    *, extent: Extent, say: Callable[[str], None],
) -> Reproduction:  # fmt: skip
    """Do what the folder's journal does not have yet, and write every format into the folder.

    A data set that fails is named, and the others are done. Raises Refused where all fail.
    """
    protocol = _protocol_of(name, extent)
    if folder is not None:
        prepare(folder, name)
    collections, ignored = find_collections(letor)
    collections = _selected(collections, data_sets)
    if extent.with_ranklib:
        tools = replace(tools, ranklib=fetch_ranklib(say).run)
    journal = Journal(None if folder is None else folder / "journal.jsonl")
    rows = [*fact_rows(protocol), *rows_elsewhere(protocol)]
    bench, missing, failed = Bench(tools, journal, folder), list[str](), list[str]()
    for number, collection in enumerate(collections):
        missing += [f"{collection.name}: {what}" for what in collection.missing]
        metrics = _by_its_script(collection.name, protocol.metrics)
        run = _within(tools.run, number, len(collections))
        bench.tools = replace(tools, run=run, metrics=metrics)
        try:
            methods = protocol.methods(extent)
            results = bench.results(collection, parts_of(methods))
            if not collection.whole:
                missing.append(
                    f"{collection.label}: not the published folds, so that no difference is told"
                )
            own, seed = replace(protocol, metrics=metrics), tools.run.seed
            rows += rows_of(own, methods, collection, results, seed, quick=extent.quick)
        except (BadInput, Refused) as error:
            failed.append(f"{collection.name} could not be done: {error}")
    if len(failed) == len(collections):
        raise Refused(failed[0])
    notes = (*_protocol_notes(protocol, extent), *ignored, *missing, *failed)
    result = Reproduction(
        name,
        tuple(rows),
        notes=(*notes, *_absent_notes(protocol, collections)),
        citations=tuple(_citations(rows)),
        seed=tools.run.seed,
        quick=extent.quick,
        reused=bench.reused,
        stale=bench.stale,
    )
    if folder is not None:
        result.write(folder)
    return result


def _protocol_of(name: str, extent: Extent) -> Protocol:
    """The protocol of a name. Raises UsageError where there is none, or it does not use RankLib."""
    if name not in PROTOCOLS:
        raise UsageError(f"no protocol is called '{name}': choose among {', '.join(PROTOCOLS)}")
    protocol = PROTOCOLS[name]()
    if extent.with_ranklib and not protocol.uses_ranklib:
        raise UsageError(
            f"{name} does not use RankLib: leave {option_name('with_ranklib')} out, or take "
            "exchangeable2014, whose bases are RankLib's"
        )
    return protocol


def _selected(collections: Sequence[Collection], names: Sequence[str]) -> list[Collection]:
    """Those of the names, which may leave the edition out; all where no name is given."""
    selected: list[Collection] = [] if names else list(collections)
    for name in names:
        matches = [
            collection
            for collection in collections
            if name.lower() in {collection.name.lower(), collection.name.lower().rpartition(" ")[2]}
        ]
        if not matches:
            listed = ", ".join(collection.name for collection in collections)
            raise UsageError(f"there is no data set '{name}' in the folder: it has {listed}")
        selected += [collection for collection in matches if collection not in selected]
    return selected


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


def _protocol_notes(protocol: Protocol, extent: Extent) -> Iterator[str]:
    """What a protocol says of itself, of what was left out, and of its metrics."""
    yield from protocol.says
    if extent.quick:
        yield "--quick: few settings and small models, so that no difference is told"
    if extent.with_ranklib:
        yield (
            f"RankLib is {RANKLIB.path}, with its default parameters but for -metric2t NDCG@10; "
            "its coordinate ascent draws without a seed, so that another run differs a little"
        )
    yield from (metric.convention for metric in protocol.metrics)


def _absent_notes(protocol: Protocol, collections: Sequence[Collection]) -> Iterator[str]:
    """The paper's data sets that the folder does not have."""
    present = {collection.name for collection in collections}
    published = dict.fromkeys(figure.data_set for figure in figures(protocol.sources[0]))
    of_facts = {fact.data_set for fact in protocol.facts()}
    absent = [name for name in published if name not in present | of_facts]
    if absent:
        yield f"not in the folder: {', '.join(absent)}"


def _citations(rows: Sequence[Row]) -> Iterator[str]:
    """Each source that a row is from, with its places."""
    places: dict[str, list[str]] = {}
    for row in rows:
        source, _, where = row.cited.partition(", ")
        if source and where not in places.setdefault(source, []):
            places[source].append(where)
    for key, of_source in places.items():
        cited = sources()[key]
        yield f"{cited}; {', '.join(of_source)}{f'; {cited.note}' if cited.note else ''}"
