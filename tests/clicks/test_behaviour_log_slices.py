"""An index in slices is the index: the same bytes for any number of them, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.judge_clicks import count_ubi
from owpc_ltr_clicks.ubi import UbiOptions, snapshot
from owpc_ltr_clicks.ubi.snapshot import PartFiles

from owpc_ltr import Cluster, connect
from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter
from owpc_ltr.engine.client.connection import BoundedConnection
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.client.servers import ServerAnswer
from owpc_ltr.engine.ubi import pages
from owpc_ltr.errors import Refused
from tests.clicks.counts import cells_of
from tests.commands import Run
from tests.engine.ubi_indices import DYNAMIC, PLUGIN, ubi_documents, ubi_indices
from tests.simulated_users import simulate

pytestmark = pytest.mark.thorough(sample=1)

QUERIES, ACTS = map(list, ubi_documents(
    simulate.clicks(simulate.example_world(10, 8), sessions=500)
))  # fmt: skip
# Without a time, delivered twice, and of an id that another query has.
MESSY_QUERIES = [
    *({k: v for k, v in query.items() if k != "timestamp"} for query in QUERIES[:120]),
    *QUERIES[120:],
    *QUERIES[200:230],
    *({**query, "user_query": "another"} for query in QUERIES[300:310]),
    *({**query, "client_id": "another"} for query in QUERIES[320:330]),
]
MESSY_ACTS = [
    *({k: v for k, v in act.items() if k != "timestamp"} for act in ACTS[:130]),
    *ACTS[130:],
    *ACTS[150:190],
]
SLICES = [1, 2, 3, 8]
INDICES = ("ubi-tested-queries", "ubi-tested-events")


@pytest.fixture(scope="module", params=["plugin", "dynamic"])
def cluster(node_url: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    connected = connect(node_url)
    mappings = PLUGIN if request.param == "plugin" else DYNAMIC
    with ubi_indices(connected.engine, MESSY_QUERIES, MESSY_ACTS, mappings):
        yield connected


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("owpc_ltr.engine.ubi.PAGE", 50)


def read(cluster: Cluster, slices: int | None = None) -> Behaviour:
    ubi = UbiOptions(
        ubi_queries="ubi-tested-queries", ubi_events="ubi-tested-events", slices=slices
    )
    return count_ubi(cluster, ubi, min_people=1)


def test_the_bytes_do_not_depend_on_the_number_of_slices(
    cluster: Cluster, tmp_path: Path, run: Run
) -> None:
    words = ("judge", "clicks", "--from-ubi", "--ubi-queries", INDICES[0], "--ubi-events",
             INDICES[1], "--url", cluster.engine.settings.url, "--out", "j.parquet",
             "--json")  # fmt: skip
    outcomes = set()
    for slices in ((), ("--slices", "1"), ("--slices", "8")):
        out = run.output(*words, *slices)
        outcomes.add((out, (tmp_path / "j.parquet").read_bytes()))
    assert len(outcomes) == 1
    assert '"a query id that several queries have"' in next(iter(outcomes))[0]


@pytest.mark.parametrize("slices", SLICES)
def test_every_slice_is_read_and_none_twice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, slices: int
) -> None:
    kept: list[tuple[str, int, int]] = []
    add = PartFiles.add

    def counted_part(parts: PartFiles, number: int, table: Any, *more: Any) -> int:
        kept.append((parts._folder.name, number, len(table)))
        return add(parts, number, table, *more)

    monkeypatch.setattr(PartFiles, "add", counted_part)
    read(cluster, slices=slices)
    for index, documents in (
        ("queries", MESSY_QUERIES),
        ("events", MESSY_ACTS),
    ):
        assert sum(size for name, _, size in kept if name == index) == len(documents)
        # What has no time in the index has slices of its own.
        assert {number for name, number, _ in kept if name == index} <= set(range(2 * slices))
        assert len({number for name, number, _ in kept if name == index}) >= slices


def test_an_engine_that_keeps_something_back_is_found_out(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:

    def lying(*given: Any) -> Iterator[Any]:
        for documents in pages(*given):
            yield documents[1:]

    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "pages", lying)
        with pytest.raises(Refused, match=r"gave \d+ of the 550 documents of 'ubi-tested-q"):
            read(cluster)


def test_rejections_slow_reading_down_and_lose_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = read(cluster)
    exchange, cut = BoundedConnection._exchange, ConcurrencyLimiter.rejected
    asked, cuts = 0, 0

    def busy(connection: BoundedConnection, method: str, path: str, *given: Any) -> Any:
        nonlocal asked
        search = path.startswith("/_search?")
        asked += search
        if search and asked % 7 == 0:
            headers = {"content-type": "application/json", "retry-after": "0"}
            return ServerAnswer(429, headers, b"{}", whole=True)
        return exchange(connection, method, path, *given)

    def counted(limiter: ConcurrencyLimiter, *given: int) -> None:
        nonlocal cuts
        cuts += 1
        cut(limiter, *given)

    monkeypatch.setattr(BoundedConnection, "_exchange", busy)
    monkeypatch.setattr(ConcurrencyLimiter, "rejected", counted)
    behaviour = read(cluster, slices=3)
    assert cells_of(behaviour) == cells_of(wanted)
    assert cuts > 0


def test_where_nothing_can_be_sliced_or_shards_are_not_told_there_is_one_slice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = cells_of(read(cluster))
    request = Engine.request

    def refusing(what: str) -> Any:
        def refuse(engine: Engine, method: str, path: str, **given: Any) -> Any:
            if path.endswith("/_search_shards") and what == "shards":
                raise NotAllowed("no right to see shards")
            if "slice" in (given.get("body") or {}):
                raise EngineRefusal("POST /_search", 400, "parsing_exception", "unknown slice")
            return request(engine, method, path, **given)

        return refuse

    for what in ("shards", "slices"):
        monkeypatch.setattr(Engine, "request", refusing(what))
        assert cells_of(read(cluster, slices=4)) == wanted
