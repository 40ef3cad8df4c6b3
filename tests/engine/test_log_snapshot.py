"""The snapshot of a feature log: point-in-time, copies of shards, and change detection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import OwpcLtrWarning
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.feature_log.snapshot import differing_copies, searched_copies
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.features.feature_set import FeatureSet
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.log_runs import (
    QUICK,
    Spoiler,
    assert_nothing_published,
    assert_only,
    digest,
    lenient,
    log,
)
from tests.engine.memory_engine import (
    MemoryEngine,
    is_log_search,
    small_featureset,
    small_judgments,
    value_of,
)

KINDS = ["plugin-free", "ltr-plugin"]
ONE_BY_ONE = replace(QUICK, in_flight=1)
GONE_ON = "has changed since this log was interrupted: .* of another snapshot, and logged again"


def undisturbed(engine: MemoryEngine, out: Path, kind: str = "plugin-free") -> str:
    path = out.parent.parent / "undisturbed.parquet"
    log(replace(engine, fault=None, snapshots={}), path, kind=kind)
    return digest(path)


def at_search(number: int, change: Callable[[], object]) -> Spoiler:
    """Something happens to the engine when it answers the log search of this number."""

    def happen(answer: Any) -> Any:
        change()
        return answer

    return Spoiler(happen, start=number, times=1)


def write(engine: MemoryEngine) -> Callable[[], None]:
    """Every document is written anew."""

    def change() -> None:
        engine.revision += 1

    return change


def away() -> None:
    raise EngineUnavailable("the engine does not answer")


def stop_in_third_chunk(engine: MemoryEngine, out: Path, kind: str = "plugin-free") -> None:
    engine.fault = at_search(5, away)
    with pytest.raises(EngineUnavailable, match="2 of 3 chunks are kept"):
        log(engine, out, options=ONE_BY_ONE, kind=kind)
    engine.fault = None


def revisions(out: Path) -> set[int]:
    """The revisions that the values of a dataset are from: of each row the only one that fits."""
    data = load_dataset(out)
    assert data.doc_ids is not None
    words = {query.query_id: query.params["query"] for query in small_judgments().queries}
    queries = np.repeat(data.query_ids.to_pylist(), np.diff(data.offsets))
    found = set()
    for row, (query, document) in enumerate(zip(queries, data.doc_ids, strict=True)):
        fits = []
        for revision in range(5):
            values = [
                value_of(name, words[query], document.as_py(), revision)
                for name in data.feature_names
            ]
            expected = np.array([np.nan if v is None else v for v in values], np.float32)
            if np.array_equal(data.features[row], expected, equal_nan=True):
                fits.append(revision)
        assert len(fits) == 1
        found.add(fits[0])
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("search", [1, 2, 3, 4, 5, 6])
def test_a_write_during_a_log_is_not_in_it(out: Path, search: int, kind: str) -> None:
    engine = MemoryEngine()
    before = undisturbed(engine, out, kind)
    engine.fault = at_search(search, write(engine))
    log(engine, out, options=ONE_BY_ONE, kind=kind)
    assert digest(out) == before
    assert revisions(out) == {0}


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_from_before_a_write_are_thrown_away_and_logged_again(out: Path, kind: str) -> None:
    engine = MemoryEngine()
    stop_in_third_chunk(engine, out, kind)
    engine.revision += 1
    with pytest.warns(OwpcLtrWarning, match=GONE_ON) as told:
        report = log(engine, out, kind=kind)
    assert [str(line.message).count("2 kept chunks are") for line in told] == [1]
    assert report.resumed == 0
    assert revisions(out) == {1}
    assert digest(out) == undisturbed(engine, out, kind)
    assert_only(out)


def test_chunks_of_the_same_contents_are_gone_on_with(out: Path) -> None:
    engine = MemoryEngine()
    stop_in_third_chunk(engine, out)
    assert log(engine, out).resumed == 20
    assert digest(out) == undisturbed(engine, out)


def test_scores_that_moved_without_a_write_are_found_out_by_asking_again(out: Path) -> None:
    engine = MemoryEngine()
    stop_in_third_chunk(engine, out)
    engine.merges += 1
    with pytest.warns(OwpcLtrWarning, match=GONE_ON):
        assert log(engine, out).resumed == 0
    assert revisions(out) == {1}


@pytest.mark.parametrize("options", [QUICK, lenient()], ids=["strict", "lenient"])
def test_a_half_filled_index_that_is_filled_is_logged_in_full(out: Path, options: Any) -> None:
    engine = MemoryEngine(documents={f"d{d}" for d in range(6)})
    with pytest.raises(Refused, match="is it the right index"):
        log(engine, out, options=replace(ONE_BY_ONE, max_absent=0.3))
    assert_nothing_published(out, kept=True)
    engine.documents |= {f"d{d}" for d in range(12)}
    with pytest.warns(OwpcLtrWarning, match=GONE_ON):
        account = log(engine, out, options=options).counts
    assert (account.logged, account.absent) == (30, 0)


def test_the_manifest_tells_what_the_index_held(out: Path) -> None:
    manifest = log(MemoryEngine(revision=3), out).manifest
    part = {"index": "movies", "documents": 12, "seq_no": 14, "primary_term": 1}
    assert manifest["index"]["contents"] == [part]
    assert list(manifest["index"]) == ["name", "indices", "contents"]


# ------------------------------------------------------------- a moment that the engine forgets


@pytest.mark.parametrize("search", [1, 3, 6])
def test_a_forgotten_moment_is_followed_by_one_of_the_same_contents(out: Path, search: int) -> None:
    engine = MemoryEngine()
    engine.fault = at_search(search, engine.snapshots.clear)
    told: list[int] = []
    log(engine, out, options=ONE_BY_ONE, progress=told.append)
    assert engine.opened == 2 - (search == 6)
    assert told[-1] == 30
    assert digest(out) == undisturbed(engine, out)


def test_a_forgotten_moment_that_cannot_come_back_is_followed_by_the_next(out: Path) -> None:
    engine = MemoryEngine()

    def forget() -> None:
        engine.revision += 1
        engine.snapshots.clear()

    engine.fault = at_search(4, forget)
    with pytest.warns(OwpcLtrWarning, match=GONE_ON):
        log(engine, out, options=ONE_BY_ONE)
    assert revisions(out) == {1}
    assert digest(out) == undisturbed(engine, out)


def test_an_engine_that_forgets_every_moment_is_given_up_and_can_be_gone_on_with(
    out: Path,
) -> None:
    engine = MemoryEngine()

    def forget(_number: int, _path: str, body: Any, answer: Any) -> Any:
        if is_log_search(body):
            engine.snapshots.clear()
        return answer

    engine.fault = forget
    with pytest.raises(EngineUnavailable, match="run the same command again"):
        log(engine, out, options=ONE_BY_ONE)
    assert engine.opened == QUICK.attempts
    assert_nothing_published(out)


@pytest.mark.parametrize(
    "end", [None, EngineUnavailable("away"), Refused("no"), KeyboardInterrupt(), MemoryError()]
)
def test_however_a_log_ends_the_engine_need_not_keep_its_moment(
    out: Path, end: BaseException | None
) -> None:
    def strike() -> None:
        if end is not None:
            raise end

    engine = MemoryEngine()
    engine.fault = at_search(4, strike)
    with pytest.raises(type(end)) if end is not None else nullcontext():
        log(engine, out, options=replace(ONE_BY_ONE, attempts=1))
    assert engine.opened == 1
    assert engine.snapshots == {}


# ------------------------------------------------------------- an engine without points in time


def forbid(_number: int, path: str, _body: Any, answer: Any) -> Any:
    if path.endswith("point_in_time"):
        raise NotAllowed("these credentials need more rights")
    return answer


def test_without_a_point_in_time_the_bytes_are_the_same(out: Path, clean: str) -> None:
    log(MemoryEngine(pins=False), out)
    assert digest(out) == clean
    out.unlink()
    log(MemoryEngine(fault=forbid), out)
    assert digest(out) == clean


@pytest.mark.parametrize("search", [1, 2, 3, 4, 5, 6])
def test_without_a_point_in_time_a_write_ends_the_log_and_the_next_one_is_of_one_moment(
    out: Path, search: int
) -> None:
    engine = MemoryEngine(pins=False)
    engine.fault = at_search(search, write(engine))
    with pytest.raises(Refused, match=r"was written to .*no point in time .*no handler"):
        log(engine, out, options=ONE_BY_ONE)
    assert_nothing_published(out, kept=search > 2)
    if search > 2:
        with pytest.warns(OwpcLtrWarning, match=GONE_ON):
            log(engine, out)
    else:
        log(engine, out)
    assert revisions(out) == {1}


# ------------------------------------------------------------- answers about the contents


def spoil_contents(change: Callable[[Any], object], times: int) -> Callable[..., Any]:
    left = times

    def fault(_number: int, path: str, body: Any, answer: Any) -> Any:
        nonlocal left
        if path.endswith("_search") and body.get("sort") and left:
            left -= 1
            change(answer)
        return answer

    return fault


CONTENTS_FAULTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "timed out": (lambda a: a.update(timed_out=True), "timed_out"),
    "a document too few": (lambda a: a["hits"]["total"].update(value=11), "hold 11 documents"),
    "no number": (lambda a: a["hits"]["hits"][0].pop("_seq_no"), "which write"),
    "no term": (lambda a: a["hits"]["hits"][0].pop("_primary_term"), "which write"),
}


@pytest.mark.parametrize(
    ("change", "message"), CONTENTS_FAULTS.values(), ids=CONTENTS_FAULTS.keys()
)
def test_contents_that_are_not_told_whole_are_asked_for_again_and_then_refused(
    out: Path, clean: str, change: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        log(MemoryEngine(fault=spoil_contents(change, 3)), out)
    assert_nothing_published(out, kept=False)
    log(MemoryEngine(fault=spoil_contents(change, 2)), out)
    assert digest(out) == clean


def test_without_a_point_in_time_writes_between_two_looks_are_told_as_writes(out: Path) -> None:
    too_few, _ = CONTENTS_FAULTS["a document too few"]
    with pytest.raises(Refused, match=r"was written to .* has no point in time"):
        log(MemoryEngine(pins=False, fault=spoil_contents(too_few, 3)), out)
    assert_nothing_published(out, kept=False)


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


@pytest.mark.parametrize(
    ("pins", "words"), [(True, "one and the same throughout"), (False, "no point in time")]
)
def test_copies_that_differ_are_told_of(pins: bool, words: str, out: Path, clean: str) -> None:
    engine = Replicated(deleted=[3, 0, 7], pins=pins)
    told = (
        "the copies of 1 of 1 shards of 'movies' differ: of shard 0 of 'movies' one still counts "
        f"7 deleted documents, one 0, which moves text scores; .*{words}"
    )
    with pytest.warns(OwpcLtrWarning, match=told) as warned:
        log(engine, out)
    assert len(warned) == 1
    assert digest(out) == clean


@pytest.mark.parametrize("pins", [True, False])
def test_copies_that_are_alike_are_not_spoken_of(pins: bool, out: Path) -> None:
    log(Replicated(deleted=[4, 4], pins=pins), out)


@pytest.mark.parametrize("pins", [True, False])
def test_an_index_of_single_copies_is_not_asked_for_its_statistics(pins: bool, out: Path) -> None:
    engine = Replicated(deleted=[4], pins=pins)
    log(engine, out)
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
    kind: str, out: Path, clean: str
) -> None:
    def leave(answer: Any) -> Any:
        raise EngineRefusal("POST /_search", 500, kind, "Partial shards failure")

    engine = MemoryEngine(fault=Spoiler(leave, start=4, times=1))
    log(engine, out, options=ONE_BY_ONE)
    assert engine.opened == 2
    assert digest(out) == clean


@pytest.mark.parametrize(("path", "waits"), [("/_search", False), ("/movies/_search", True)])
def test_a_shard_that_is_away_is_waited_for_unless_it_was_that_of_a_moment(
    path: str, waits: bool, fake: FakeEngine
) -> None:
    lacking = Reply({"error": {"type": GONE[1], "reason": "no copy of the shard"}}, 503)
    fake.on("POST", path, lacking, {"hits": {}})
    engine = Engine(ConnectionSettings(fake.url))
    if waits:
        assert engine.request("POST", path, body={}) == {"hits": {}}
    else:
        with pytest.raises(EngineRefusal, match=GONE[1]):
            engine.request("POST", path, body={})
    engine.close()


FEATURES = small_featureset().features
EDITED = (FEATURES[0], replace(FEATURES[1], template={"match": {"body": "x"}}), *FEATURES[2:])
DRIFTS: dict[str, tuple[dict[str, Any], str]] = {
    "index made anew": (
        {"uuid": "uuid-2"},
        "the index 'movies': its uuid changed from uuid-1 to uuid-2",
    ),
    "mapping": (
        {"mappings": {"properties": {"new": {"type": "text"}}}},
        "its mapping_hash changed",
    ),
    "engine": ({"version": "3.9.0"}, "the engine's version changed from 3.8.0 to 3.9.0"),
    "feature edited": ({"featureset": FeatureSet("movies", EDITED)}, "'body' of the feature set '"),
    "features reordered": (
        {"featureset": FeatureSet("movies", FEATURES[::-1])},
        "the order of features of the feature set",
    ),
}


@pytest.mark.parametrize("search", [1, 4, 6])
@pytest.mark.parametrize(("changes", "message"), DRIFTS.values(), ids=DRIFTS.keys())
def test_what_changes_while_features_are_logged_ends_the_run(
    out: Path, changes: dict[str, Any], message: str, search: int
) -> None:
    engine = MemoryEngine()
    engine.fault = at_search(search, lambda: vars(engine).update(changes))
    with pytest.raises(Refused, match=message):
        log(engine, out, options=ONE_BY_ONE)
    assert_nothing_published(out, kept=search > 2)


@pytest.mark.parametrize(("changes", "message"), DRIFTS.values(), ids=DRIFTS.keys())
def test_what_changed_since_a_run_was_stopped_makes_it_another_job(
    out: Path, changes: dict[str, Any], message: str
) -> None:
    stop_in_third_chunk(MemoryEngine(), out)
    engine = MemoryEngine(**changes)
    with pytest.raises(Refused, match=r"unfinished work of another job \(other "):
        log(engine, out)
    assert_nothing_published(out, kept=True)
    assert log(engine, out, options=replace(QUICK, restart=True)).resumed == 0, message
    assert_only(out)


def test_other_judgments_are_another_job(out: Path) -> None:
    stop_in_third_chunk(MemoryEngine(), out)
    judgments = small_judgments()
    judgments.queries[0].grades[0] += 1
    with pytest.raises(Refused, match=r"another job \(other judgments\): .*restart="):
        log(MemoryEngine(), out, judgments=judgments)
