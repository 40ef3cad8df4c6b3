"""The snapshot of a feature log: a point in time, and what tells its contents from others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import OwpcLtrWarning
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, Refused
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
    rows_of,
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
GONE_ON = "has changed since this log was interrupted, or .* kept chunks? (is|are) logged again"


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
    words = {query.query_id: query.params["query"] for query in small_judgments().queries}
    states = set()
    for row, (query, document) in enumerate(rows_of(data)):
        fits = []
        for revision in range(5):
            values = [
                value_of(name, words[query], document, revision) for name in data.feature_names
            ]
            expected = np.array([np.nan if v is None else v for v in values], np.float32)
            if np.array_equal(data.features[row], expected, equal_nan=True):
                fits.append(revision)
        (fitting,) = fits
        states.add(fitting)
    return states


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
    with pytest.warns(OwpcLtrWarning, match=GONE_ON) as caught:
        report = log(engine, out, kind=kind)
    assert [str(line.message).count("2 kept chunks are") for line in caught] == [1]
    assert report.resumed == 0
    assert revisions(out) == {1}
    assert digest(out) == undisturbed(engine, out, kind)
    assert_only(out)


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
    counts: list[int] = []
    log(engine, out, options=ONE_BY_ONE, progress=counts.append)
    assert engine.opened == 2 - (search == 6)
    assert counts[-1] == 30
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


def test_an_engine_that_forgets_every_moment_is_given_up_and_can_be_gone_on_with(out: Path) -> None:
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


# ------------------------------------------------------------- an engine that opens none


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            NotAllowed("no permissions for [indices:data/read/point_in_time/create]"),
            r"^no permissions for \[indices:data/read/point_in_time/create\]$",
        ),
        (
            EngineRefusal("POST /x", 400, "illegal", "too many Point In Time contexts"),
            "'movies' cannot be read without a point in time: .* too many Point In Time contexts",
        ),
    ],
)
def test_without_a_point_in_time_nothing_is_logged_and_the_engine_says_why(
    out: Path, error: Exception, words: str
) -> None:
    def forbid(_number: int, path: str, _body: Any, answer: Any) -> Any:
        if path.endswith("point_in_time"):
            raise error
        return answer

    with pytest.raises(OwpcLtrError, match=words):
        log(MemoryEngine(fault=forbid), out)
    assert_nothing_published(out, kept=False)


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
