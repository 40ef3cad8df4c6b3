"""Faults of a feature log: each is named, and publishes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import OwpcLtrError
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.errors import DiskFault, EngineUnavailable, Refused
from tests.engine.log_runs import (
    QUICK,
    TWO_CHUNKS,
    Change,
    Spoiler,
    assert_nothing_published,
    assert_only,
    digest,
    edited,
    first,
    lenient,
    log,
    log_in_six,
    replaced,
    run_folder,
    timed_out,
    title,
)
from tests.engine.memory_engine import MemoryEngine
from tests.faults.disk import failing_disk
from tests.faults.selection import Selection


def shards(**counts: int) -> Change:
    full = {"total": 2, "successful": 2, "skipped": 0, "failed": 0}
    return edited(lambda answer: answer.update(_shards={**full, **counts}))


def lose_hit_silently(answer: Any) -> None:
    answer["hits"]["hits"].pop()
    answer["hits"]["total"]["value"] -= 1


FAULTS: dict[str, tuple[Change, str]] = {
    "timed out": (edited(lambda a: a.update(timed_out=True)), "timed_out"),
    "a shard failed": (shards(successful=1, failed=1), "1 failed"),
    "no total": (edited(lambda a: a["hits"].pop("total")), "exactly"),
    "a hit dropped in silence": (edited(lose_hit_silently), "was left out of the answer"),
    "a stranger": (edited(lambda a: first(a).update(_id="x")), "'x', which was not asked for"),
    "another index": (edited(lambda a: first(a).update(_index="other")), "the index 'other'"),
    "an unknown feature": (
        edited(lambda a: first(a).update(matched_queries={"stranger": 1.0})),
        "came with .stranger., which is not a feature",
    ),
    "features are no object": (edited(lambda a: first(a).update(matched_queries=7)), "d0"),
    "a value is NaN in text": (title("NaN"), "title"),
    "a value is null": (title(None), "title"),
    "a value is a boolean": (title(True), "title"),
    "a value is a list": (title([1.0]), "title"),
    "nothing": (replaced(None), "not an engine's answer"),
}


def logged(change: Callable[[list[dict[str, Any]]], Any]) -> Change:
    """The plugin's log of the first hit, changed."""
    return edited(lambda answer: change(first(answer)["fields"]["_ltrlog"][0]["main"]))


PLUGIN_FAULTS: dict[str, tuple[Change, str]] = {
    "no fields": (edited(lambda a: first(a).pop("fields")), "without logged features"),
    "no log": (edited(lambda a: first(a).update(fields={"_ltrlog": []})), "without logged"),
    "a log of another name": (
        edited(lambda a: first(a)["fields"].update(_ltrlog=[{"other": []}])),
        "without logged features",
    ),
    "a feature too few": (logged(lambda log: log.pop()), "title, body, year, not with those"),
    "a feature too many": (logged(lambda log: log.append({"name": "x", "value": 1})), "not with"),
    "a feature renamed": (logged(lambda log: log[0].update(name="x")), "x, body, year"),
    "features reordered": (logged(lambda log: log.reverse()), "popularity, year, body, title"),
    "a feature twice": (logged(lambda log: log.append(log[0])), "popularity, title, not with"),
    "a feature is text": (logged(lambda log: log.insert(0, "title")), "not with those"),  # type: ignore[arg-type]
    "NaN in text": (logged(lambda log: log[0].update(value="NaN")), "'title' of document 'd0'"),
    "null": (logged(lambda log: log[0].update(value=None)), "'title' of document 'd0' is None"),
    "a number in text": (
        logged(lambda log: log[0].update(value="1.5")),
        "'title' of document 'd0'",
    ),
    "a boolean": (logged(lambda log: log[0].update(value=True)), "'title' of document 'd0' is Tru"),
    "infinite in text": (logged(lambda log: log[0].update(value="Infinity")), "title is inf"),
    "too large": (logged(lambda log: log[0].update(value=1e39)), r"title is 1e\+39"),
    "too large for JSON": (logged(lambda log: log[0].update(value=1e400)), "title is inf"),
}

IN_EITHER_STORE = [
    pytest.param(kind, change, message, id=f"{kind}: {name}")
    for kind, faults in (("plugin-free", FAULTS), ("ltr-plugin", PLUGIN_FAULTS))
    for name, (change, message) in faults.items()
]


@pytest.mark.parametrize(("kind", "change", "message"), IN_EITHER_STORE)
def test_an_answer_that_stays_wrong_ends_the_run_with_nothing_published(
    out: Path, kind: str, change: Change, message: str
) -> None:
    engine = MemoryEngine(fault=Spoiler(change))
    with pytest.raises(Refused, match=message) as caught:
        log(engine, out, kind=kind, options=replace(QUICK, in_flight=1))
    of_hit = "document 'd0' of query 'q0' cannot be logged"
    assert (of_hit if kind == "ltr-plugin" else "query 'q0'") in str(caught.value)
    assert_nothing_published(out, kept=False)


PASSING = [
    case for case in IN_EITHER_STORE if not {"infinite", "large"} & set(str(case.id).split())
]
"""A value that is no finite number is the engine's last word."""


@pytest.mark.parametrize(("kind", "change", "message"), PASSING)
def test_an_answer_that_is_wrong_once_is_asked_for_again(
    out: Path, tmp_path: Path, kind: str, change: Change, message: str
) -> None:
    log(MemoryEngine(), tmp_path / "undisturbed.parquet", kind=kind)
    engine = MemoryEngine(fault=Spoiler(change, start=3, times=1))
    log(engine, out, kind=kind, options=replace(QUICK, in_flight=1))
    assert digest(out) == digest(tmp_path / "undisturbed.parquet"), message
    assert_only(out)


def test_both_stores_log_the_same_values(out: Path, tmp_path: Path) -> None:
    log(MemoryEngine(), out)
    log(MemoryEngine(), tmp_path / "plugin.parquet", kind="ltr-plugin")
    ours, theirs = load_dataset(out), load_dataset(tmp_path / "plugin.parquet")
    np.testing.assert_array_equal(ours.features, theirs.features)
    assert theirs.manifest is not None
    assert theirs.manifest["engine"]["store"] == "ltr-plugin"


def test_a_fault_in_a_later_chunk_keeps_the_earlier_ones(out: Path, clean: str) -> None:
    spoiler = Spoiler(timed_out(), start=5)
    with pytest.raises(Refused, match="query 'q4'"):
        log(MemoryEngine(fault=spoiler), out, options=replace(QUICK, in_flight=1))
    assert_nothing_published(out, kept=True)
    engine = MemoryEngine()
    report = log(engine, out)
    assert report.resumed == 20
    assert digest(out) == clean
    assert_only(out)


@pytest.mark.parametrize("wrong", [float("inf"), float("-inf"), 1e39, 1e400])
def test_a_value_that_is_not_finite_is_named_with_document_and_feature(
    out: Path, wrong: float
) -> None:
    engine = MemoryEngine(fault=Spoiler(title(wrong), start=2))
    with pytest.raises(Refused, match=r"document 'd\d+' of query 'q1' .*title is ") as caught:
        log(engine, out, options=replace(QUICK, in_flight=1))
    assert "`allow_rejected`" in str(caught.value)
    assert_nothing_published(out)


def test_what_was_rejected_with_leave_is_refused_when_the_run_goes_on_without(out: Path) -> None:
    spoiler = Spoiler(title(1e39), start=1, times=1)
    later = Spoiler(timed_out(), start=5)
    engine = MemoryEngine(
        fault=lambda n, path, body, a: later(n, path, body, spoiler(n, path, body, a))
    )
    with pytest.raises(Refused, match="query 'q4'"):
        log(engine, out, options=lenient(in_flight=1))
    with pytest.raises(Refused, match=r"1 \(title is not a finite number\)"):
        log(MemoryEngine(), out)
    assert_nothing_published(out, kept=True)
    assert log(MemoryEngine(), out, options=lenient()).counts.n_rejected == 1


def unavailable(_answer: Any) -> Any:
    raise EngineUnavailable("the engine does not answer")


def interrupt(_answer: Any) -> Any:
    raise KeyboardInterrupt


def crash(_answer: Any) -> Any:
    raise MemoryError


def time_out(answer: Any) -> Any:
    return {**answer, "timed_out": True}


def empty(answer: Any) -> Any:
    return None if "hits" in answer else answer


def hollow(_answer: Any) -> Any:
    return {}


EVERY = 1 if Selection.asked().thorough else 3
"""Of the calls and file operations each third one fails, and each one in thorough tests."""
CALL_FAULTS = [unavailable, interrupt, crash, time_out, empty, hollow]


@pytest.mark.parametrize("fault", CALL_FAULTS)
@pytest.mark.parametrize("lasting", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_whichever_call_fails_the_run_ends_whole_or_publishes_nothing(
    tmp_path: Path, clean: str, fault: Callable[[Any], Any], lasting: bool
) -> None:
    counter = MemoryEngine()
    log_in_six(tmp_path / "count.parquet", counter)
    assert counter.calls > 15
    # Another third for each fault: of three that follow each other, one meets each call.
    for n in range(1 + CALL_FAULTS.index(fault) % EVERY, counter.calls + 1, EVERY):
        out = tmp_path / f"{n}" / "out.parquet"
        out.parent.mkdir()

        def spoil(number: int, _path: str, _body: Any, answer: Any, n: int = n) -> Any:
            return fault(answer) if number == n or (lasting and number > n) else answer

        try:
            log_in_six(out, MemoryEngine(fault=spoil))
        except (OwpcLtrError, KeyboardInterrupt, MemoryError):
            assert not out.exists()
            log_in_six(out)
        assert digest(out) == clean
        assert_only(out)


@pytest.mark.parametrize("lasting", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_whichever_file_operation_fails_the_run_ends_whole_or_publishes_nothing(
    tmp_path: Path, clean: str, lasting: bool
) -> None:
    first = tmp_path / "count" / "out.parquet"
    first.parent.mkdir()
    with failing_disk(first.parent, 0) as disk:
        log_in_six(first, options=TWO_CHUNKS)
    operations = disk.seen
    assert operations > 25
    failures: list[str] = []
    tried = range(1, operations + 1, EVERY)
    for n in tried:
        out = tmp_path / f"{n}" / "out.parquet"
        out.parent.mkdir()
        try:
            with failing_disk(out.parent, n, lasting=lasting):
                log_in_six(out, options=TWO_CHUNKS)
        except DiskFault as fault:
            failures.append(str(fault))
            # Once it is in its place, whole, only making that durable can fail.
            assert not out.exists() or digest(out) == clean
            assert {path.name for path in out.parent.iterdir()} <= {out.name, out.name + ".run"}
            log_in_six(out, options=TWO_CHUNKS)
        assert digest(out) == clean
        if run_folder(out).exists():  # taking it away was what failed
            log_in_six(out, options=TWO_CHUNKS)
            assert digest(out) == clean
        assert_only(out)
        shutil.rmtree(out.parent)
    assert len(failures) > len(tried) / 2
    assert all("No space left" in line and "\n" not in line for line in failures)
    assert DiskFault.exit_code == 4
