"""Copies of shards that differ are told of, and a log that asks others begins again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.feature_log.snapshot import differing_copies, searched_copies
from owpc_ltr.errors import EngineUnavailable, OwpcLtrWarning
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.log_runs import QUICK, Spoiler, digest, log
from tests.engine.memory_engine import MemoryEngine


@dataclass
class Replicated(MemoryEngine):
    """An index of one shard and several copies; of each, the deleted documents it still has."""

    deleted: list[int] = field(default_factory=lambda: [0, 0])
    first: str = "copy-a"
    asked: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        if path == f"/{self.index}/_stats/docs":
            self.asked.append(path)
            assert params == {"level": "shards"}
            copies = [{"docs": {"count": 12, "deleted": number}} for number in self.deleted]
            return {"indices": {self.index: {"shards": {"0": copies}}}}
        if path == f"/{self.index}/_search_shards":
            assert params["preference"]
            self.asked.append(path)
            copy = {"index": self.index, "shard": 0, "allocation_id": {"id": self.first}}
            return {"shards": [[copy, {**copy, "allocation_id": {"id": "copy-z"}}]]}
        found = super().answer(method, path, params, body)
        if path == f"/{self.index}":
            found[self.index]["settings"]["index"]["number_of_replicas"] = str(
                len(self.deleted) - 1
            )
        return found


def undisturbed(folder: Path) -> str:
    log(MemoryEngine(), folder / "undisturbed.parquet")
    return digest(folder / "undisturbed.parquet")


@pytest.mark.parametrize(
    ("pins", "words"), [(True, "one and the same throughout"), (False, "no point in time")]
)
def test_copies_that_differ_are_told_of(pins: bool, words: str, tmp_path: Path) -> None:
    engine = Replicated(deleted=[3, 0, 7], pins=pins)
    told = (
        "the copies of 1 of 1 shards of 'movies' differ: of shard 0 of 'movies' one still counts "
        f"7 deleted documents, one 0, which moves text scores; .*{words}"
    )
    with pytest.warns(OwpcLtrWarning, match=told) as warned:
        log(engine, tmp_path / "out.parquet")
    assert len(warned) == 1
    assert digest(tmp_path / "out.parquet") == undisturbed(tmp_path)


@pytest.mark.parametrize("pins", [True, False])
def test_copies_that_are_alike_are_not_spoken_of(pins: bool, tmp_path: Path) -> None:
    log(Replicated(deleted=[4, 4], pins=pins), tmp_path / "out.parquet")


@pytest.mark.parametrize("pins", [True, False])
def test_an_index_of_single_copies_is_not_asked_for_its_statistics(
    pins: bool, tmp_path: Path
) -> None:
    engine = Replicated(deleted=[4], pins=pins)
    log(engine, tmp_path / "out.parquet")
    assert engine.asked == []


def test_a_watched_log_whose_shard_moves_to_another_copy_is_logged_anew(tmp_path: Path) -> None:
    engine = Replicated(pins=False)

    def move(answer: Any) -> Any:
        engine.first, engine.merges = "copy-b", 1
        return answer

    engine.fault = Spoiler(move, start=2, times=1)
    log(engine, tmp_path / "moved.parquet", options=replace(QUICK, in_flight=1))
    log(Replicated(pins=False, merges=1), tmp_path / "other.parquet")
    assert digest(tmp_path / "moved.parquet") == digest(tmp_path / "other.parquet")


@pytest.mark.parametrize("answer", [None, [], {}, {"indices": 1}, {"shards": [[]]},
                                    {"indices": {"a": {"shards": {"x": []}}}},
                                    {"shards": [[{"index": "a", "shard": "0"}]]}])  # fmt: skip
def test_what_is_not_told_of_copies_is_not_made_up(answer: Any) -> None:
    @dataclass
    class Strange:
        def request(self, *_: Any, **__: Any) -> Any:
            return answer

    assert differing_copies(Strange(), "a") == ""
    assert searched_copies(Strange(), "a") is None


def test_statistics_that_may_not_be_seen_are_done_without() -> None:
    class Closed:
        def request(self, method: str, path: str, **_: Any) -> Any:
            raise EngineRefusal(f"{method} {path}", 403, "security_exception", "no permissions")

    assert differing_copies(Closed(), "a") == ""
    assert searched_copies(Closed(), "a") is None


GONE = ["node_disconnected_exception", "no_shard_available_action_exception"]


@pytest.mark.parametrize("kind", GONE)
def test_a_node_that_left_with_the_moment_is_followed_by_another_moment(
    kind: str, tmp_path: Path
) -> None:
    def leave(answer: Any) -> Any:
        raise EngineRefusal("POST /_search", 500, kind, "Partial shards failure")

    engine = MemoryEngine(fault=Spoiler(leave, start=4, times=1))
    log(engine, tmp_path / "out.parquet", options=replace(QUICK, in_flight=1))
    assert engine.opened == 2
    assert digest(tmp_path / "out.parquet") == undisturbed(tmp_path)


def test_nodes_that_leave_without_end_are_told_at_the_last(tmp_path: Path) -> None:
    def leave(answer: Any) -> Any:
        raise EngineRefusal("POST /_search", 500, GONE[0], "Partial shards failure")

    with pytest.raises(EngineUnavailable, match="run the same command again"):
        log(MemoryEngine(fault=Spoiler(leave)), tmp_path / "out.parquet")


@pytest.mark.parametrize(("path", "waits"), [("/_search", False), ("/movies/_search", True)])
def test_a_shard_that_is_away_is_waited_for_unless_it_was_that_of_a_moment(
    path: str, waits: bool
) -> None:
    lacking = Reply({"error": {"type": GONE[1], "reason": "no copy of the shard"}}, 503)
    with FakeEngine() as fake:
        fake.on("POST", path, lacking, {"hits": {}})
        engine = Engine(ConnectionSettings(fake.url))
        if waits:
            assert engine.request("POST", path, body={}) == {"hits": {}}
        else:
            with pytest.raises(EngineRefusal, match=GONE[1]):
                engine.request("POST", path, body={})
        engine.close()
