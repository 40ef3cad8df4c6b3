"""What users of an experiment did: its searches and clicks.

Searches and clicks are documents of User Behavior Insights, out of files or a cluster. Of an
experiment are the queries with `query_attributes.experiment`, and the clicks with
`event_attributes.experiment`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.log_times import seconds_of
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.experiments import Experiment
from owpc_ltr.engine.feature_log.snapshot import point_in_time
from owpc_ltr.engine.ubi import FUTURE, ScanWindow, pages, table_of
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import json_lines
from owpc_ltr.text import normalised_text
from owpc_ltr_experiment.verdict import ClickedPositions

_OF_QUERY = "query_attributes.experiment"

_OF_EVENT = "event_attributes.experiment"

QUERY_FIELDS = {
    "search": "query_id",
    "client": "client_id",
    "time": "timestamp",
    "text": "user_query",
    "shown": "query_response_hit_ids",
    **{name: f"{_OF_QUERY}.{name}" for name in ("name", "leads", "failed", "tau", "ms_a", "ms_b")},
}

EVENT_FIELDS = {
    "search": "query_id",
    "time": "timestamp",
    "action": "action_name",
    "document": "event_attributes.object.object_id",
    **{
        name: f"{_OF_EVENT}.{name}"
        for name in ("name", "failed", "leads", "a", "b", "in_a", "in_b")
    },
}

_PLACES = ("a", "b", "in_a", "in_b")

_LINES = 10_000
"""Lines of a file that are objects in memory at the same time."""

_HOUR = 3600

_END = "9999-01-01"

_EXPECTED = 10.0
"""Clicks to be expected on a document before one without any is called never clicked."""

_SELDOM = 0.25
"""The share of the clicks to be expected below which a document is seldom clicked."""

_NAMED = 3
"""Documents that are named, for people to click on."""


@dataclass(frozen=True, eq=False)
class ExperimentLog:
    """The queries and clicks of an experiment as tables."""

    experiment: Experiment
    queries: list[pa.Table] = field(default_factory=list)
    clicks: list[pa.Table] = field(default_factory=list)

    def add(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Add those that are of the experiment: queries, and clicks on pages that count."""
        queries = [document for document in documents if "action_name" not in document]
        events = [document for document in documents if "action_name" in document]
        clicks = table_of(events, EVENT_FIELDS)
        clicks = clicks.filter(
            pc.and_(pc.equal(clicks["action"], "click"), clicks["failed"].is_null())
        )
        for table, to in ((table_of(queries, QUERY_FIELDS), self.queries), (clicks, self.clicks)):
            to.append(table.filter(pc.equal(table["name"], self.experiment.name)))


def read_files(experiment: Experiment, paths: Sequence[Path]) -> ExperimentLog:
    """The log in files of JSON lines. Raises BadInput, with its number, for a line that is none."""
    log = ExperimentLog(experiment)
    for path in paths:
        objects = (document for _, document in json_lines(path, appended=True))
        while documents := list(islice(objects, _LINES)):
            log.add(documents)
    return log


def read_indices(
    engine: Engine, experiment: Experiment, queries: str, events: str
) -> ExperimentLog:
    """The log in the two indices of User Behavior Insights, since the experiment began."""
    log = ExperimentLog(experiment)
    elastic = engine.about().distribution == "elasticsearch"
    for index, fields in ((queries, QUERY_FIELDS), (events, EVENT_FIELDS)):
        # Documents of the future are read, too, and counted as left out.
        window = ScanWindow(experiment.started, _END, datetime.now(UTC).isoformat())
        with point_in_time(engine, index, elastic=elastic) as snapshot:
            for part in window.slices(1, elastic=elastic):
                for documents in pages(snapshot, index, sorted(fields.values()), part):
                    log.add(documents)
    return log


class LeftOut(Counter[str]):
    """How many searches and clicks cannot be used, by reason."""

    def without(self, table: pa.Table, unusable: NDArray[np.bool_], reason: str) -> pa.Table:
        """The table without rows that cannot be used, which are counted."""
        if number := int(unusable.sum()):
            self[reason] += number
        return table.filter(pa.array(~unusable))

    def in_time(self, table: pa.Table, experiment: Experiment) -> pa.Table:
        """The rows since the experiment began, until an hour from now."""
        times = seconds_of(table["time"].combine_chunks())
        early = times < datetime.fromisoformat(experiment.started).timestamp()
        table, times = self.without(table, early, "before the experiment began"), times[~early]
        return self.without(table, times > time.time() + _HOUR, FUTURE)


@dataclass(frozen=True, eq=False)
class CountedSearches:
    """What counts of a log: its searches as columns, and the clicks on their results, each once.

    `client` numbers the clients of searches from 0, of `n_clients`. `leads` is True where B led.
    `empty` marks searches without results, `late` the last third by time; `clicks` counts those of
    a search, `on_first` is True where one is on the first document. `never_clicked` and
    `seldom_clicked`: that document gets no click in any search, or as first one less than a quarter
    of what others get, though `_EXPECTED` were to be expected. Milliseconds and `tau` (rank
    agreement of both lists) are NaN where nothing logged them.

    `query` numbers the `texts` of searches (by case and white space alike), -1 is none. `of_search`
    is the row of the search of each click at `positions`. `untouched` are some
    documents that are never clicked, the most frequent first. `bots` is the number of clients that
    were dropped, `failed` that of the searches that showed A alone, because B failed.
    """

    client: NDArray[np.int64]
    query: NDArray[np.int64]
    texts: tuple[str, ...]
    leads: NDArray[np.bool_]
    empty: NDArray[np.bool_]
    late: NDArray[np.bool_]
    clicks: NDArray[np.int64]
    on_first: NDArray[np.bool_]
    never_clicked: NDArray[np.bool_]
    seldom_clicked: NDArray[np.bool_]
    ms_a: Vector
    ms_b: Vector
    tau: Vector
    positions: ClickedPositions
    of_search: NDArray[np.int64]
    untouched: tuple[str, ...]
    n_clients: int
    bots: int
    failed: int
    unusable: LeftOut

    @property
    def of_client(self) -> NDArray[np.int64]:
        """The client of each click."""
        return self.client[self.of_search]


def count_searches(log: ExperimentLog, max_clicks_per_hour: int) -> CountedSearches:
    """The searches and clicks that count, and by reason the number of those that do not.

    Clients with more clicks in an hour of the clock are dropped as bots; 0 keeps all.
    """
    left_out = LeftOut()
    queries, failed = _whole_queries(log, left_out)
    clients = queries["client"].combine_chunks().dictionary_encode()
    client: NDArray[np.int64] = clients.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    leads = _equals(queries["leads"], "b")
    clicks = _clicks_of(log, queries, leads, left_out)
    bots = _bots(clicks, client, len(clients.dictionary), max_clicks_per_hour)
    clicks = left_out.without(clicks, bots[client[_rows(clicks)]], "a click of a bot")
    # Only now: bots click again and again.
    clicks = left_out.without(clicks, _repeated(_rows(clicks), clicks["document"]), "clicked again")
    human = ~bots[client]
    queries, of_search = queries.filter(pa.array(human)), (np.cumsum(human) - 1)[_rows(clicks)]
    positions = ClickedPositions(
        **{name: _whole_numbers(clicks[name]) for name in _PLACES},
        leads=_equals(clicks["leads"], "b"),
    )
    shown_at = np.where(positions.leads, positions.in_b, positions.in_a)
    on_first = np.zeros(len(queries), bool)
    on_first[of_search[shown_at == 1]] = True
    shown = queries["shown"].combine_chunks()
    first = pc.list_element(pc.list_slice(shown, 0, 1, return_fixed_size_list=True), 0)
    never, seldom = _hardly_clicked(first, on_first, clicks["document"])
    query, texts = _queries_of(queries["text"])
    untouched = Counter(first.filter(pa.array(never)).to_pylist())
    return CountedSearches(
        client=(np.cumsum(~bots) - 1)[client[human]],
        query=query,
        texts=texts,
        leads=leads[human],
        empty=_equals(pc.list_value_length(shown), 0),
        late=_last_third(seconds_of(queries["time"].combine_chunks())),
        clicks=np.bincount(of_search, minlength=len(queries)),
        on_first=on_first,
        never_clicked=never,
        seldom_clicked=seldom,
        **{name: _numbers(queries[name]) for name in ("ms_a", "ms_b", "tau")},
        positions=positions,
        of_search=of_search,
        untouched=tuple(document for document, _ in untouched.most_common(_NAMED)),
        n_clients=int((~bots).sum()),
        bots=int(bots.sum()),
        failed=failed,
        unusable=left_out,
    )


def _queries_of(texts: pa.ChunkedArray) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The number of each search's text, -1 for none, and the texts without case and spaces."""
    encoded = texts.combine_chunks().dictionary_encode()
    names = [normalised_text(text) or None for text in encoded.dictionary.to_pylist()]
    known = pa.array(names, pa.string()).take(encoded.indices).dictionary_encode()
    numbers = known.indices.fill_null(-1).to_numpy().astype(np.int64)
    return numbers, tuple(known.dictionary.to_pylist())


def _last_third(seconds: Vector) -> NDArray[np.bool_]:
    """Which searches are the last third by time, in the log's order where times are equal."""
    late = np.zeros(len(seconds), bool)
    late[np.argsort(seconds, kind="stable")[len(seconds) - len(seconds) // 3 :]] = True
    return late


def _hardly_clicked(
    first: pa.Array | pa.ChunkedArray,
    on_first: NDArray[np.bool_],
    clicked: pa.Array | pa.ChunkedArray,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which searches have a first document without a click, and which one with few as the first.

    Only those of which `_EXPECTED` clicks are to be expected, as often as it is first.
    """
    codes = _codes(first)
    expected, got = (
        np.bincount(codes + 1, weights)[codes + 1]
        for weights in (np.full(len(codes), on_first.mean()), on_first)
    )
    often = (expected >= _EXPECTED) & (codes >= 0)
    known = pc.is_in(first, value_set=clicked.combine_chunks().unique())
    ever: NDArray[np.bool_] = known.to_numpy(zero_copy_only=False)
    return often & ~ever, often & ever & (got < _SELDOM * expected)


def _whole_queries(log: ExperimentLog, left_out: LeftOut) -> tuple[pa.Table, int]:
    """The searches that count, each once, and how many showed A alone. Raises BadInput for none."""
    table = left_out.in_time(_one_table(log.queries, QUERY_FIELDS), log.experiment)
    if not len(table):
        name = log.experiment.name
        raise BadInput(
            f"no search of the experiment '{name}' was logged since it began: log queries with "
            "query_attributes.experiment, as the gateway does with `impressions`"
        )
    alone = table["failed"].is_valid()
    if not log.experiment.shadow:
        alone = pc.or_(alone, table["leads"].is_null())
    shown = table.filter(pc.invert(alone))
    failed = len(table) - len(shown)
    nobody = pc.or_(shown["client"].is_null(), shown["search"].is_null())
    queries = left_out.without(shown, nobody.to_numpy(), "a search without client or id")
    repeated = _repeated(np.zeros(len(queries), np.int64), queries["search"])
    return left_out.without(queries, repeated, "a search that was logged again"), failed


def _clicks_of(
    log: ExperimentLog, queries: pa.Table, leads: NDArray[np.bool_], left_out: LeftOut
) -> pa.Table:
    """The clicks on results of these searches, each logged once; `row` is the search of each."""
    clicks = left_out.in_time(_one_table(log.clicks, EVENT_FIELDS), log.experiment)
    row = pc.index_in(clicks["search"], value_set=queries["search"].combine_chunks())
    clicks = clicks.append_column("row", row)
    clicks = left_out.without(
        clicks, row.is_null().to_numpy(), "a click whose search was not logged"
    )
    nowhere = np.maximum(*(_whole_numbers(clicks[name]) for name in ("in_a", "in_b"))) == 0
    clicks = left_out.without(clicks, nowhere, "a click without positions")
    contradicts = _equals(clicks["leads"], "b") != leads[_rows(clicks)]
    clicks = left_out.without(clicks, contradicts, "a click that its search contradicts")
    parts = (clicks[name].cast(pa.string()).fill_null("") for name in ("document", "time"))
    at = pc.binary_join_element_wise(*parts, " ")
    return left_out.without(clicks, _repeated(_rows(clicks), at), "a click that was logged again")


def _rows(clicks: pa.Table) -> NDArray[np.int64]:
    """The row of the search of each click."""
    rows: NDArray[np.int64] = clicks["row"].to_numpy().astype(np.int64)
    return rows


def _bots(
    clicks: pa.Table, client: NDArray[np.int64], clients: int, most: int
) -> NDArray[np.bool_]:
    """Which clients have more clicks than that within an hour; all untimed ones are of one hour."""
    bots = np.zeros(clients, bool)
    if most and len(clicks):
        seconds = seconds_of(clicks["time"].combine_chunks())
        hour = np.nan_to_num(seconds // _HOUR, nan=-1.0).astype(np.int64)
        pairs = client[_rows(clicks)] + clients * (hour + 1)
        busy, number = np.unique(pairs, return_counts=True)
        bots[busy[number > most] % clients] = True
    return bots


def _one_table(tables: Sequence[pa.Table], fields: Mapping[str, str]) -> pa.Table:
    return pa.concat_tables(tables or [table_of([], fields)])


def _codes(texts: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Equal numbers for equal texts; -1 for none."""
    encoded = texts.dictionary_encode().indices.fill_null(-1)
    codes: NDArray[np.int64] = encoded.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _repeated(group: NDArray[np.int64], texts: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Where a text was in the same group before."""
    codes = _codes(texts.combine_chunks())
    repeated = np.ones(len(codes), bool)
    pairs = group * (codes.max(initial=0) + 2) + codes
    repeated[np.unique(pairs, return_index=True)[1]] = False
    return repeated


def _equals(column: pa.Array | pa.ChunkedArray, value: str | int) -> NDArray[np.bool_]:
    return np.asarray(pc.equal(column, value).fill_null(False), bool)


def _whole_numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Positions from 1; 0 for what is none."""
    fits = pc.match_substring_regex(column, "^[0-9]{1,6}$")
    numbers = pc.if_else(fits, column, None).cast(pa.int64()).fill_null(0)
    positions: NDArray[np.int64] = numbers.to_numpy()
    return positions


def _numbers(column: pa.Array | pa.ChunkedArray) -> Vector:
    """Numbers; NaN for what is none."""
    fits = pc.match_substring_regex(column, r"^-?[0-9]{1,9}(\.[0-9]{1,20})?(e-[0-9]{1,3})?$")
    numbers: Vector = pc.if_else(fits, column, None).cast(pa.float64()).to_numpy()
    return np.where(np.isnan(numbers), np.nan, numbers)
