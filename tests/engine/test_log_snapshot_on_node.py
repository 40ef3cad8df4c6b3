"""Snapshots on a real node that is written to: never two states in one published file."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr import OwpcLtrWarning
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine, open_engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.feature_log.job import observe
from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.snapshot import Contents, LogOptions, point_in_time, read_contents
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import Feature, FeatureSet
from tests.engine.log_runs import rows_of
from tests.faults.selection import Selection

pytestmark = pytest.mark.filterwarnings("ignore:.* logged again")

INDEX = "one-moment-test"
DOCUMENTS = 30
ALL = os.environ.get("OWPC_LTR_FAULTS") == "all"
STATES, MOST_STATES = 101 if ALL else 15, 101
OPTIONS = LogOptions(pause=0, chunk=12, in_flight=2, max_absent=1.0)
STATE = {"function_score": {"field_value_factor": {"field": "state"}, "boost_mode": "replace"}}
FEATURESET = FeatureSet(
    "one-moment-test",
    (Feature("state", (), STATE), Feature("text", ("query",), {"match": {"text": "{{query}}"}})),
)
JUDGMENTS = Judgments(
    [
        JudgedQuery(
            f"q{number}",
            {"query": "pear"},
            [str((number * 7 + place) % DOCUMENTS) for place in range(6)],
            np.array([place % 3 for place in range(6)], np.float32),
        )
        for number in range(6)
    ]
)


@dataclass
class Shop:
    """An index and the states that it was in: of each, the documents and when they were written."""

    engine: Engine
    states: list[dict[str, int]] = field(default_factory=list)

    def write(self, edit: Callable[[dict[str, int]], dict[str, int]]) -> None:
        """The next state, searchable when this returns; the edit names what is in it."""
        before = self.states[-1] if self.states else {}
        after = edit(dict(before))
        lines: list[Any] = [{"delete": {"_id": d}} for d in before.keys() - after.keys()]
        for document, state in after.items():
            if before.get(document) != state:
                lines += [{"index": {"_id": document}}, {"state": state, "text": "pear apple"}]
        answer = self.engine.request(
            "POST", f"/{INDEX}/_bulk", ndjson=lines, params={"refresh": "true"}
        )
        assert not answer["errors"]
        self.states.append(after)

    def fill(self, documents: range) -> None:
        """A state in which these documents are written anew."""
        state = len(self.states) + 1
        self.write(lambda now: {**now, **dict.fromkeys(map(str, documents), state)})

    def edit(self, rng: np.random.Generator) -> None:
        """A document or a few written anew, taken away, or put back."""
        state = len(self.states) + 1
        some = [str(d) for d in rng.choice(DOCUMENTS, int(rng.integers(1, 4)), replace=False)]
        away = rng.random() < 0.3 and not self.states[-1].keys().isdisjoint(some)
        written = {} if away else dict.fromkeys(some, state)
        self.write(lambda now: {d: s for d, s in now.items() if d not in some} | written)

    def merge(self) -> None:
        """Deleted documents are gone from the statistics too, which moves scores."""
        # An index that was open all the time keeps what a replica might ask for.
        for step in ("_close", "_open"):
            self.engine.request("POST", f"/{INDEX}/{step}")
        green = {"wait_for_status": "green", "timeout": "60s"}
        assert not self.engine.request("GET", f"/_cluster/health/{INDEX}", params=green)[
            "timed_out"
        ]
        self.engine.request("POST", f"/{INDEX}/_forcemerge", params={"max_num_segments": 1})
        self.engine.request("POST", f"/{INDEX}/_refresh")


@pytest.fixture
def shop(node_url: str) -> Iterator[Shop]:
    engine = open_engine(node_url)
    engine.request(
        "PUT",
        f"/{INDEX}",
        body={
            "settings": {
                "number_of_shards": 2,
                "number_of_replicas": 0,
                "refresh_interval": "-1",
                # No test here is of an engine that crashes: no write waits for the disk.
                "translog": {"durability": "async"},
            },
            "mappings": {"properties": {"state": {"type": "integer"}, "text": {"type": "text"}}},
        },
    )
    store = PluginFreeStore(engine)
    store.prepare()
    store.put_featureset(FEATURESET, replace=True)
    yield Shop(engine)
    engine.request("DELETE", f"/{INDEX}")
    store.delete_featureset(FEATURESET.name)
    engine.close()


class Cut(BaseException):
    """The run ends here, as by a signal."""


@dataclass
class Disturbed:
    """A cluster to which something happens before the requests of some numbers."""

    engine: Engine
    happens: dict[int, Callable[[], None]]
    requests: int = 0
    points: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def settings(self) -> ConnectionSettings:
        return self.engine.settings

    def request(self, method: str, path: str, **given: Any) -> Any:
        with self.lock:
            self.requests += 1
            self.happens.get(self.requests, lambda: None)()
        opens = method == "POST" and path.endswith("point_in_time")
        answer = self.engine.request(method, path, **given)
        if opens:
            self.points.append(answer["pit_id"])
        return answer

    def forget(self) -> None:
        """The engine loses the points in time of this run, as by a restart."""
        if self.points:
            body = {"pit_id": self.points[-1:]}
            self.engine.request("DELETE", "/_search/point_in_time", body=body)

    def cut(self) -> None:
        raise Cut


def log(engine: Any, out: Path, options: LogOptions = OPTIONS) -> LogReport:
    store = PluginFreeStore(cast("Engine", engine))
    return run_log(engine, store, FEATURESET, JUDGMENTS, INDEX, out, options=options)


def logged(out: Path) -> dict[tuple[str, str], int]:
    """The state that each document of a dataset was last written in, by query."""
    data = load_dataset(out)
    states = data.features[:, data.feature_names.index("state")].astype(int)
    return dict(zip(rows_of(data), states.tolist(), strict=True))


def of(state: dict[str, int]) -> dict[tuple[str, str], int]:
    """What a log of this state is."""
    return {
        (query.query_id, document): state[document]
        for query in JUDGMENTS.queries
        for document in query.doc_ids
        if document in state
    }


def one_of(states: list[dict[str, int]], out: Path) -> bool:
    """Whether a dataset is of one state."""
    values = logged(out)
    return any(values == of(state) for state in states)


def text_scores(out: Path) -> set[float]:
    """The scores of texts that are all equal: in one moment there is one for each shard."""
    data = load_dataset(out)
    return set(data.features[:, data.feature_names.index("text")].tolist())


def test_the_check_of_this_file_sees_a_single_row_of_another_state(
    shop: Shop, tmp_path: Path
) -> None:
    shop.fill(range(DOCUMENTS))
    log(shop.engine, tmp_path / "out.parquet")
    assert one_of(shop.states, tmp_path / "out.parquet")
    liar = {**shop.states[0], JUDGMENTS.queries[3].doc_ids[2]: 2}
    assert not one_of([liar], tmp_path / "out.parquet")


# ---------------------------------------------------------------- the story of each fault


def test_a_merge_between_two_parts_of_a_log_does_not_mix_two_statistics(
    shop: Shop, tmp_path: Path
) -> None:
    out = tmp_path / "out.parquet"
    shop.fill(range(DOCUMENTS))
    shop.fill(range(10))
    disturbed = Disturbed(shop.engine, {})
    disturbed.happens = {20: disturbed.cut}
    with pytest.raises(Cut):
        log(disturbed, out)
    shop.merge()
    with pytest.warns(OwpcLtrWarning, match="kept chunks? (is|are) logged again"):
        log(shop.engine, out)
    log(shop.engine, tmp_path / "undisturbed.parquet")
    assert text_scores(out) == text_scores(tmp_path / "undisturbed.parquet")


def test_an_alias_over_several_indices_with_a_filter_is_one_moment_too(
    shop: Shop, tmp_path: Path
) -> None:
    shop.fill(range(DOCUMENTS))
    other, alias = f"{INDEX}-other", f"{INDEX}-alias"
    mapping = shop.engine.request("GET", f"/{INDEX}")[INDEX]["mappings"]
    shop.engine.request("PUT", f"/{other}", body={"mappings": mapping})
    body = {"query": {"term": {"state": 1}}}
    actions = [
        {"add": {"index": name, "alias": alias, "filter": body["query"]}} for name in (INDEX, other)
    ]
    shop.engine.request("POST", "/_aliases", body={"actions": actions})
    try:
        shop.engine.request(
            "PUT",
            f"/{other}/_doc/elsewhere",
            body={"state": 1, "text": "pear"},
            params={"refresh": "true"},
        )
        shop.fill(range(3))
        parts = contents(shop, alias)
        assert [part["index"] for part in parts] == [INDEX, INDEX, other]
        assert sum(part["documents"] for part in parts) == DOCUMENTS - 3 + 1
    finally:
        shop.engine.request("DELETE", f"/{other}")


def test_an_engine_with_too_many_points_in_time_is_told_with_its_setting(
    shop: Shop, tmp_path: Path
) -> None:
    shop.fill(range(DOCUMENTS))
    setting = "search.max_open_pit_context"
    shop.engine.request("PUT", "/_cluster/settings", body={"transient": {setting: 0}})
    try:
        with pytest.raises(Refused, match=rf"without a point in time: .*\[{setting}\]"):
            log(shop.engine, tmp_path / "out.parquet")
    finally:
        shop.engine.request("PUT", "/_cluster/settings", body={"transient": {setting: None}})
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- contents


def contents(shop: Shop, index: str = INDEX) -> Contents:
    environment = observe(shop.engine, PluginFreeStore(shop.engine), FEATURESET.name, index)
    with point_in_time(shop.engine, index, elastic=False) as snapshot:
        return read_contents(snapshot, environment.shards, OPTIONS, elastic=False)


@pytest.mark.faults(sample=2)
@pytest.mark.parametrize("seed", range(20))
def test_contents_are_equal_exactly_where_the_documents_are(shop: Shop, seed: int) -> None:
    """Over random histories with refreshes and merges; each state is what a search finds."""
    rng = np.random.default_rng(seed)
    shop.fill(range(8))
    seen: list[tuple[Contents, dict[str, int]]] = []
    for step in range(25 if Selection.asked().thorough else 15):
        state = step + 2
        document = str(rng.integers(12))
        refresh = {"refresh": "true" if rng.random() < 0.5 else "false"}
        what = rng.random()
        if what < 0.6:
            body = {"state": state, "text": "pear"}
            shop.engine.request("PUT", f"/{INDEX}/_doc/{document}", params=refresh, body=body)
        elif what < 0.9:
            lines = [{"delete": {"_id": document}}]
            shop.engine.request("POST", f"/{INDEX}/_bulk", params=refresh, ndjson=lines)
        else:
            shop.merge()
        seen.append((contents(shop), searchable(shop)))
    equal, pairs = 0, list(itertools.combinations(seen, 2))
    for first, other in pairs:
        same = first[1] == other[1]
        equal += same
        assert (first[0] == other[0]) is same
    assert 0 < equal < 2 / 3 * len(pairs)


def searchable(shop: Shop) -> dict[str, int]:
    body = {"size": 100, "query": {"match_all": {}}, "docvalue_fields": ["state"]}
    hits = shop.engine.request("POST", f"/{INDEX}/_search", body=body)["hits"]["hits"]
    return {hit["_id"]: hit["fields"]["state"][0] for hit in hits}


def test_figures_of_the_whole_index_would_not_tell_what_those_of_shards_do(shop: Shop) -> None:
    """A liar: a document goes from one shard, another comes to the other under its number."""
    put = {"state": 1, "text": "pear"}
    shards = {d: shard_of(shop, d) for d in map(str, range(DOCUMENTS))}
    first = [d for d, shard in shards.items() if shard == 0]
    second = [d for d, shard in shards.items() if shard == 1]
    for document in [*first[:4], *second[:2]]:
        shop.engine.request("PUT", f"/{INDEX}/_doc/{document}", body=put)
    shop.engine.request("POST", f"/{INDEX}/_refresh")
    before, listed = contents(shop), searchable(shop)
    shop.engine.request("DELETE", f"/{INDEX}/_doc/{first[2]}")
    shop.engine.request("PUT", f"/{INDEX}/_doc/{second[2]}", body=put)
    shop.engine.request("POST", f"/{INDEX}/_refresh")
    after = contents(shop)
    assert searchable(shop) != listed
    assert coarse(before) == coarse(after)
    assert before != after


def shard_of(shop: Shop, document: str) -> int:
    path = f"/{INDEX}/_search_shards"
    answer = shop.engine.request("GET", path, params={"routing": document})
    return int(answer["shards"][0][0]["shard"])


def coarse(contents_of_index: Contents) -> tuple[int, int]:
    return sum(part["documents"] for part in contents_of_index), max(
        part["seq_no"] for part in contents_of_index
    )


# ---------------------------------------------------------------- the proof


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(5))
def test_never_two_states_in_one_published_file(shop: Shop, tmp_path: Path, seed: int) -> None:
    """Log, cut off, go on, until there were so many states, and look at every file."""
    rng = np.random.default_rng(seed)
    shop.fill(range(DOCUMENTS))
    whole = Disturbed(shop.engine, {})
    log(whole, tmp_path / "whole.parquet")
    seen = {"published": 0, "cut": 0, "resumed": 0}
    number = 0

    def all_seen() -> bool:
        return seen["cut"] > 2 and seen["resumed"] > 0

    while len(shop.states) < STATES or not (all_seen() or len(shop.states) > MOST_STATES):
        number += 1
        # Now and then nothing is written, so that a log is also gone on with.
        quiet = rng.random() < 0.4
        if not quiet:
            shop.edit(rng)
        out = tmp_path / "out.parquet"
        disturbed = Disturbed(shop.engine, {})
        writes = 0 if quiet else int(rng.integers(0, 5))
        happenings: list[Callable[[], None]] = [lambda: shop.edit(rng)] * writes
        if rng.random() < 0.5:
            happenings = [*happenings[:2], disturbed.cut]
        if rng.random() < 0.2:
            happenings.append(disturbed.forget)
        at = rng.integers(1, whole.requests + 1, len(happenings))
        disturbed.happens = dict(zip(at.tolist(), happenings, strict=True))
        try:
            report = log(disturbed, out)
        except Cut:
            seen["cut"] += 1
            assert not out.exists()
            continue
        seen["published"] += 1
        seen["resumed"] += report.resumed > 0
        assert one_of(shop.states, out), (seed, number)
        assert len(text_scores(out)) <= 2, (seed, number)
        out.unlink()
    assert all_seen(), seen
