"""`owpc-ltr reproduce`: a paper's protocol on the user's LETOR data, beside the published figures.

The protocol's jobs run on all data sets in the folder; their results make one table.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.errors import BadInput, Refused, Stopped, UsageError, give_warning, give_warnings
from owpc_ltr.evaluation.significance import Comparison, compare_paired
from owpc_ltr.files.output import Journal, disk_faults, finite_json, write_atomically
from owpc_ltr.host.commands import Plugins
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Run
from owpc_ltr.signatures import Help, Progress, Reads, Seed, job, silent
from owpc_ltr.training.options import Threads
from owpc_ltr.version import VERSION
from owpc_ltr_papers.folders import Collection, find_collections
from owpc_ltr_papers.jobs import JobRunner, Result, Results, Tools
from owpc_ltr_papers.protocols import (
    Method,
    Protocol,
    exchangeable2014,
    inex2009,
    lambdarank,
    owpc2009,
    parts_of,
)


@dataclass(frozen=True)
class Source:
    """A paper, or another publication, whose figures stand in the file."""

    title: str
    authors: str
    published: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.authors}: {self.title} ({self.published})"


@dataclass(frozen=True)
class Figure:
    """One published value: which method's, on which data set, by which metric, and where it is."""

    source: str
    where: str
    data_set: str
    method: str
    metric: str
    value: float

    @property
    def cited(self) -> str:
        """The source and the place in it, in few words."""
        return f"{self.source}, {self.where}"


@cache
def sources() -> dict[str, Source]:
    """Every source of the file, by its key."""
    return {
        key: Source(part["title"], part["authors"], part["published"], part.get("note", ""))
        for key, part in _content().items()
    }


@cache
def figures(source: str) -> tuple[Figure, ...]:
    """Every value of a source, in the order of its tables."""
    tables = _content()[source]["tables"]
    return tuple(figure for table in tables for figure in _figures_of(source, table))


def published(sources: Sequence[str], data_set: str, metric: str) -> dict[str, Figure]:
    """The values on a data set by a metric, by method; of several sources with one, the first's."""
    by_method: dict[str, Figure] = {}
    for figure in chain.from_iterable(map(figures, sources)):
        if (figure.data_set, figure.metric) == (data_set, metric):
            by_method.setdefault(figure.method, figure)
    return by_method


def _figures_of(source: str, table: dict[str, Any]) -> Iterator[Figure]:
    for method, values in table["rows"].items():
        for column, value in zip(table["columns"], values, strict=True):
            data_set, metric = table.get("data-set", column), table.get("metric", column)
            if not math.isnan(value):
                yield Figure(
                    source, table["where"], data_set, method, metric=metric, value=float(value)
                )


@cache
def _content() -> dict[str, Any]:
    text = (resources.files("owpc_ltr_papers") / "published.toml").read_text("utf-8")
    return tomllib.loads(text)


@dataclass(frozen=True)
class Row:
    """One method by one metric on one data set; None where there is no figure.

    `ours` is the mean over folds of the folds' test means, `low` and `high` its 95 % interval over
    queries. `difference` is ours − published, where the folds are the published ones. `gain` is
    the mean paired difference to the method `against`, with its interval and the p of a sign-flip
    test.
    """

    data_set: str
    metric: str
    method: str
    published: float | None = None
    cited: str = ""
    ours: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    queries: int | None = None
    folds: int | None = None
    against: str = ""
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    p: float | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON."""
        return asdict(self)


def rows_of(
    protocol: Protocol,
    methods: Sequence[Method],
    data: Collection,
    results: Results,
    seed: int,
    quick: bool,
) -> list[Row]:
    """Every method by every metric on a data set, then what is published and was not run here.

    Published figures stand beside the first of those metrics that differ in ties alone.
    """
    chosen = {method.name: chosen_of(method, results) for method in methods}
    rows: list[Row] = []
    keys: set[str] = set()
    own_names = {method.published_name for method in methods}
    for metric in protocol.metrics:
        # Published tables do not say how tied scores count.
        key = str(replace(metric, ties="expected", short="normal"))
        by_method = {} if key in keys else published(protocol.sources, data.name, key)
        keys.add(key)
        values = {name: _values(of_folds, str(metric)) for name, of_folds in chosen.items()}
        for method in methods:
            note = _note(chosen[method.name], quick)
            row = Row(data.label, str(metric), method.name, against=method.against, note=note)
            row = _measured(row, values, seed)
            figure = by_method.get(method.published_name)
            is_compared = data.whole and not quick
            rows.append(row if figure is None else _beside(row, figure, compared=is_compared))
        for name, figure in by_method.items():
            if name not in own_names:
                # A figure of another source than the paper is called so.
                is_own = figure.source == protocol.sources[0]
                title = figure.method if is_own else f"{figure.method} ({figure.source})"
                row = replace(_published_row(figure), data_set=data.label, metric=str(metric))
                rows.append(replace(row, method=title))
    return rows


def fact_rows(protocol: Protocol) -> list[Row]:
    """What the paper says in figures without data, beside what the library finds."""
    rows = []
    for fact in protocol.facts():
        row = Row(fact.data_set, fact.metric, fact.method, ours=fact.value)
        figure = published(protocol.sources[:1], fact.data_set, fact.metric).get(fact.method)
        rows.append(row if figure is None else _beside(row, figure, compared=True))
    return rows


def rows_elsewhere(protocol: Protocol) -> list[Row]:
    """The paper's figures on data that no folder of LETOR's has."""
    return list(map(_published_row, figures(protocol.sources[0]))) if protocol.elsewhere else []


def chosen_of(method: Method, results: Results) -> dict[str, Result]:
    """Of the jobs of a method, what validation chooses in each fold; of equal ones the first.

    What chooses is a gain in every protocol: more is better.
    """

    def best(fold: str) -> Result:
        candidates = [results[job.name][fold] for job in method.jobs]
        return max(candidates, key=lambda result: result.validation)

    return {fold: best(fold) for fold in results[method.jobs[0].name]}


def _measured(row: Row, values: Mapping[str, list[Vector]], seed: int) -> Row:
    """The row with its method's figures, and with the gain over the one that it is held against."""
    own = values[row.method]
    low, high = interval(own, seed)
    row = replace(
        row,
        ours=mean_over_folds(own),
        low=low,
        high=high,
        queries=sum(map(len, own)),
        folds=len(own),
    )
    gain = compared(own, values[row.against], seed) if row.against else None
    if gain is None:
        return row
    return replace(
        row, gain=gain.mean_difference, gain_low=gain.low, gain_high=gain.high, p=gain.p_permutation
    )


def _beside(row: Row, figure: Figure, *, compared: bool) -> Row:
    """The row with a published figure, and the difference to it where they are of the same data."""
    difference = row.ours - figure.value if compared and row.ours is not None else None
    return replace(row, published=figure.value, cited=figure.cited, difference=difference)


def _published_row(figure: Figure) -> Row:
    return Row(
        figure.data_set, figure.metric, figure.method, published=figure.value, cited=figure.cited
    )


def _values(chosen: Mapping[str, Result], metric: str) -> list[Vector]:
    """The values that count, fold by fold."""
    values = [result.values[metric] for result in chosen.values()]
    return [of_fold[~np.isnan(of_fold)] for of_fold in values]


def _note(chosen: Mapping[str, Result], quick: bool) -> str:
    """What makes a figure doubtful, and in how many folds."""
    counts = Counter(note for result in chosen.values() for note in result.notes)
    notes = [f"{note} ({count} of {len(chosen)} folds)" for note, count in counts.items()]
    return "; ".join([*(["quick"] if quick else []), *notes])


def mean_over_folds(folds: Sequence[Vector]) -> float:
    """The mean of the folds' means, as LETOR reports."""
    return float(np.mean([values.mean() for values in folds]))


def interval(folds: Sequence[Vector], seed: int) -> tuple[float | None, float | None]:
    """The 95 % bootstrap interval over queries of the mean over folds; None of a single query."""
    comparison = compared(folds, [np.zeros(len(values)) for values in folds], seed)
    return (None, None) if comparison is None else (comparison.low, comparison.high)


def compared(a: Sequence[Vector], b: Sequence[Vector], seed: int) -> Comparison | None:
    """The paired comparison of two methods on the same folds; None of a single query."""
    first, second = _weighted(a), _weighted(b)
    return compare_paired(first, second, seed=seed) if len(first) > 1 else None


def _weighted(folds: Sequence[Vector]) -> Vector:
    """Values whose plain mean is the mean over folds of the folds' means."""
    count = sum(map(len, folds))
    weights = [count / (len(folds) * len(values)) for values in folds]
    return np.concatenate([values * weight for values, weight in zip(folds, weights, strict=True)])


@dataclass(frozen=True, repr=False)
class Reproduction(BlockResult):
    """Published figures beside ours: `rows`, `notes` on what is missing or done otherwise.

    `citations` say where the published figures are from. `reused` counts the jobs that the journal
    had, `stale` those in it that no longer counted. `out` is the folder with its results.
    """

    protocol: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    citations: tuple[str, ...]
    seed: int
    quick: bool
    reused: int = 0
    stale: int = 0
    out: Path | None = None

    @property
    def table(self) -> list[dict[str, Any]]:
        """One dictionary a row."""
        return [row.as_dict() for row in self.rows]

    def as_dict(self) -> dict[str, Any]:
        """Figures and what explains them, as JSON; no times, so that a resumed run is equal."""
        return {
            "protocol": self.protocol,
            "owpc-ltr": VERSION,
            "seed": self.seed,
            "quick": self.quick,
            "rows": self.table,
            "notes": list(self.notes),
            "citations": list(self.citations),
        }

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame, which also writes CSV, LaTeX and HTML."""
        import pandas as pd

        return pd.DataFrame(self.table)

    def _blocks(self) -> Iterator[Block]:
        """Tables, one for each data set and metric, then what is noted of rows, and the notes."""
        yield f"reproduce {self.protocol}"
        for heading, rows in self._groups().items():
            yield from ("", heading, Table(_HEADERS, list(map(_cells, rows))))
            compared = [_gain_cells(row) for row in rows if row.gain is not None]
            if compared:
                yield from ("", Table(_GAIN_HEADERS, compared))
        remarks = [*self._remarks(), *self.notes, *self.citations]
        if self.out is not None:
            remarks.append(f"results.json and finished work are in {self.out}")
        yield from ("", *(f"- {text}" for text in remarks))

    def __repr__(self) -> str:
        return f"Reproduction of {self.protocol}: {len(self.rows)} rows, {len(self.notes)} notes"

    def _groups(self) -> dict[str, list[Row]]:
        """The rows of each data set and metric."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(f"{row.data_set}, {row.metric}", []).append(row)
        return groups

    def _remarks(self) -> Iterator[str]:
        """What is noted of rows, each once."""
        methods: dict[tuple[str, str], dict[str, None]] = {}
        for row in self.rows:
            if row.note not in {"", "quick"}:
                note = row.note.removeprefix("quick; ")
                methods.setdefault((row.data_set, note), {})[row.method] = None
        for (data_set, note), names in methods.items():
            yield f"{data_set}, {', '.join(names)}: {note}"


_HEADERS = ("METHOD", "PUBLISHED", "OURS", "DIFFERENCE", "95 %", "QUERIES")
_GAIN_HEADERS = ("METHOD", "AGAINST", "GAIN [95 %], P")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.method,
        _plain(row.published),
        _plain(row.ours),
        _signed(row.difference),
        "" if row.low is None else f"[{row.low:.4f}, {row.high:.4f}]",
        "" if row.queries is None else str(row.queries),
    )


def _gain_cells(row: Row) -> tuple[str, ...]:
    if row.gain is None or row.p is None:
        return row.method, row.against, ""
    low, high = _signed(row.gain_low), _signed(row.gain_high)
    return row.method, row.against, f"{_signed(row.gain)} [{low}, {high}], {row.p:.2g}"


def _plain(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.{0 if value == int(value) else 4}f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}".replace("-", "−")


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
            absent="{path} is not a folder: name the one that holds LETOR's data sets",
            metavar="FOLDER",
        ),
    ],
    data_sets: Annotated[
        Sequence[str],
        Help("Only this data set, as OHSUMED.", flag="--data-set", metavar="NAME"),
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
    are named; figures of a part of a data set are marked and not compared. With `out`, the same
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
    bench = JobRunner(Tools(load(map(Path, plugins)), run, ()), journal)
    collections, ignored = find_collections(Path(letor))
    collections = _selected(collections, data_sets)
    try:
        rows, missing = _results(made, collections, bench, quick)
    except Stopped:
        if folder is None:
            give_warnings(["nothing of it is kept: with `out` FOLDER it would be"])
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
        give_warning(
            f"{result.stale} results in {out} were of other data, another version or another "
            "base: done again"
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
        raise UsageError(f"`out` {folder} is a file: name a folder")
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
    protocol: Protocol, collections: Sequence[Collection], bench: JobRunner, quick: bool
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
        yield "`quick`: few settings and small models, so that no difference is told"
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
