"""`owpc-ltr reproduce`: a paper's protocol on the user's LETOR data, beside the published figures.

The protocol's jobs run on all data sets in the folder; their results make one table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from owpc_ltr.errors import BadInput, Refused, Stopped, UsageError, give_warnings
from owpc_ltr.files.output import Journal, disk_faults, finite_json, write_atomically
from owpc_ltr.host.commands import Plugins
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Run
from owpc_ltr.signatures import Help, Progress, Reads, Seed, job, option_name, silent
from owpc_ltr.training.options import Threads
from owpc_ltr_papers.folders import Collection, find_collections
from owpc_ltr_papers.jobs import Bench, Tools
from owpc_ltr_papers.protocols import (
    Protocol,
    exchangeable2014,
    inex2009,
    lambdarank,
    owpc2009,
    parts_of,
)
from owpc_ltr_papers.results import (
    Reproduction,
    Row,
    fact_rows,
    figures,
    rows_elsewhere,
    rows_of,
    sources,
)

RESULTS = "results.json"


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
        Help("A folder for finished work and results.json.", short="-o", metavar="FOLDER"),
    ] = None,
    quick: Annotated[
        bool, Help("Run a small part of the protocol; results are marked as such.")
    ] = False,
    threads: Threads = 1,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> Reproduction:
    """Run a paper's protocol on your LETOR folder.

    Shows each published figure beside ours, with the difference and an interval. Missing data sets
    are named; figures of a part of a data set are marked and not compared. With --out, the same
    command resumes an interrupted run.

    Raises UsageError for a protocol or a data set that there is not, BadInput for a folder without
    data. Warns of finished work in `out` that is done again.
    """
    folder = None if out is None else Path(out)
    made = _protocol_of(protocol)
    if folder is not None:
        _prepare(folder, protocol)
    run = Run(seed=seed, threads=threads, progress=progress)
    journal = Journal(None if folder is None else folder / "journal.jsonl")
    bench = Bench(Tools(load(map(Path, plugins)), run, ()), journal)
    collections, ignored = find_collections(Path(letor))
    collections = _selected(collections, data_sets)
    try:
        rows, missing = _results(made, collections, bench, quick)
    except Stopped:
        if folder is None:
            give_warnings([f"nothing of it is kept: with {option_name('out')} FOLDER it would be"])
        raise
    result = Reproduction(
        protocol,
        tuple(rows),
        (*_protocol_notes(made, quick), *ignored, *missing, *_absent_notes(made, collections)),
        tuple(_citations(rows)),
        seed,
        quick=quick,
        reused=bench.reused,
        stale=bench.stale,
        out=folder,
    )
    if result.stale:
        give_warnings(
            [
                f"{result.stale} results in {out} were of other data, another version or another "
                "base: done again"
            ]
        )
    if folder is not None:
        text = json.dumps(finite_json(result.as_dict()), indent=2, ensure_ascii=False)
        with disk_faults(folder / RESULTS):
            write_atomically(folder / RESULTS, f"{text}\n".encode())
    return result


PROTOCOLS: dict[str, Callable[[], Protocol]] = {
    protocol.__name__: protocol for protocol in (owpc2009, inex2009, lambdarank, exchangeable2014)
}


def _prepare(folder: Path, protocol: str) -> None:
    """Make the folder of a protocol's results. Raises UsageError where it has another's."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{option_name('out')} {folder} is a file: name a folder")
    with disk_faults(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        stored = json.loads((folder / RESULTS).read_bytes())["protocol"]
    except (OSError, ValueError, LookupError, TypeError):
        return
    if stored != protocol:
        raise UsageError(
            f"{folder} has the results of {stored}, which would be lost: name another folder"
        )


def _results(
    protocol: Protocol, collections: Sequence[Collection], bench: Bench, quick: bool
) -> tuple[list[Row], list[str]]:
    """Do what the journal does not have yet: the rows, and what is missing or failed.

    A data set that fails is named, and the others are done. Raises Refused where all fail.
    """
    rows = [*fact_rows(protocol), *rows_elsewhere(protocol)]
    missing, failed = list[str](), list[str]()
    methods, tools = protocol.methods(quick), bench.tools
    for number, collection in enumerate(collections):
        missing += [f"{collection.name}: {what}" for what in collection.missing]
        own = replace(protocol, metrics=_by_its_script(collection.name, protocol.metrics))
        run = _within(tools.run, number, len(collections))
        bench.tools = replace(tools, run=run, metrics=own.metrics)
        try:
            results = bench.results(collection, parts_of(methods))
            if not collection.whole:
                missing.append(
                    f"{collection.label}: not the published folds, so that no difference is told"
                )
            rows += rows_of(own, methods, collection, results, tools.run.seed, quick=quick)
        except (BadInput, Refused) as error:
            failed.append(f"{collection.name} could not be done: {error}")
    if len(failed) == len(collections):
        raise Refused(failed[0])
    return rows, [*missing, *failed]


def _protocol_of(name: str) -> Protocol:
    """The protocol of a name. Raises UsageError where there is none."""
    if name not in PROTOCOLS:
        raise UsageError(f"no protocol is called '{name}': choose among {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]()


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


def _protocol_notes(protocol: Protocol, quick: bool) -> Iterator[str]:
    """What a protocol says of itself, of what was left out, and of its metrics."""
    yield from protocol.says
    if quick:
        yield "--quick: few settings and small models, so that no difference is told"
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
