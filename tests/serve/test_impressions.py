"""The impression log: whole lines of UBI, never lost in silence, that `judge clicks` can read."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_clicks.counting import AGAIN
from owpc_ltr_clicks.judge_clicks import count_clicks, count_ubi
from owpc_ltr_clicks.ubi import UbiOptions
from owpc_ltr_serve.experiment_search import Impression, ImpressionLog

from owpc_ltr import connect, judge_clicks
from owpc_ltr.errors import OwpcLtrWarning, UsageError
from tests.engine.ubi_indices import DYNAMIC, PLUGIN, ubi_indices
from tests.faults.disk import full_after

SHOWN = Impression("s1", "alien 3", ["d2", "d1"], "c7", {"model": "m-11111111"})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def test_a_line_is_a_query_of_ubi(tmp_path: Path) -> None:
    log = ImpressionLog(tmp_path / "shown.jsonl")
    log.write(SHOWN)
    (line,) = lines_of(log.path)
    moment = datetime.fromisoformat(line.pop("timestamp"))
    assert abs((datetime.now(UTC) - moment).total_seconds()) < 60
    assert line == {
        "application": "owpc-ltr",
        "query_id": "s1",
        "client_id": "c7",
        "user_query": "alien 3",
        "object_id_field": "_id",
        "query_response_hit_ids": ["d2", "d1"],
        "query_attributes": {"model": "m-11111111"},
    }
    assert SHOWN.as_line(datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)).count(b"05.006Z") == 1


@pytest.mark.parametrize("mask", [0, 0o002, 0o022, 0o077], ids=oct)
def test_only_its_owner_reads_a_log_whatever_the_umask(mask: int, tmp_path: Path) -> None:
    log = ImpressionLog(tmp_path / "shown.jsonl")
    before = os.umask(mask)
    try:
        log.write(SHOWN)
        log.path.rename(tmp_path / "moved.jsonl")
        log.write(SHOWN)
    finally:
        os.umask(before)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_moved_away_is_begun_anew(tmp_path: Path) -> None:
    log = ImpressionLog(tmp_path / "shown.jsonl")
    log.write(SHOWN)
    log.path.rename(tmp_path / "shown.jsonl.1")
    log.write(SHOWN)
    (tmp_path / "shown.jsonl").unlink()
    log.write(SHOWN)
    assert len(lines_of(tmp_path / "shown.jsonl.1")) == len(lines_of(log.path)) == 1


def test_half_a_line_of_a_killed_process_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "shown.jsonl"
    path.write_text('{"query_id": "s0", "user_que')
    log = ImpressionLog(path)
    log.write(SHOWN)
    assert [line["query_id"] for line in lines_of(path)] == ["s1"]


def test_lines_of_many_threads_are_whole(tmp_path: Path) -> None:
    log = ImpressionLog(tmp_path / "shown.jsonl")
    long = Impression("s", "x" * 5000, [f"d{n}" for n in range(500)])

    def write() -> None:
        for _ in range(50):
            log.write(long)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines_of(log.path)) == 400


def test_what_cannot_be_written_is_counted_and_told_once_without_the_query(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    lost: list[int] = []
    log = ImpressionLog(tmp_path / "shown.jsonl", lambda: lost.append(1))
    with caplog.at_level(logging.DEBUG), full_after(20):
        for _ in range(3):
            log.write(SHOWN)
    assert len(lost) == 3
    (record,) = caplog.records
    assert "impressions are lost" in record.getMessage()
    assert "alien" not in caplog.text
    with pytest.raises(UsageError, match="cannot write impressions to /nowhere/x"):
        ImpressionLog("/nowhere/x")
    with pytest.raises(UsageError, match="cannot write /dev/full: it is a pipe, a socket or a dev"):
        ImpressionLog("/dev/full")


def behaviour(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Searches that were logged, and the clicks of 60 users, who want `d3` and see it third."""
    log = ImpressionLog(folder / "shown.jsonl")
    rng = np.random.default_rng(2)
    clicks = []
    for number in range(60):
        query = ("alien", "dogs")[number % 2]
        shown = [f"{query}-d{n}" for n in range(1, 6)]
        log.write(Impression(f"s{number}", query, shown, f"c{number}"))
        clicked = 2 if rng.random() < 0.7 else int(rng.integers(5))
        clicks.append(
            {
                "action_name": "click",
                "query_id": f"s{number}",
                "client_id": f"c{number}",
                "user_query": query,
                "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "event_attributes": {
                    "object": {"object_id": shown[clicked], "object_id_field": "_id"},
                    "position": {"ordinal": clicked + 1},
                },
            }
        )
    return lines_of(log.path), clicks


def test_clicks_are_judged_by_what_was_shown(tmp_path: Path) -> None:
    shown, clicks = behaviour(tmp_path)
    whole = tmp_path / "log.jsonl"
    whole.write_text("".join(f"{json.dumps(line)}\n" for line in [*shown, *clicks]))
    counted = count_clicks(whole)
    about = counted.event_counts
    assert (about.read, about.used, about.implied) == (360, 360, 0)
    assert about.document_field == "_id"
    with pytest.warns(OwpcLtrWarning, match="few|impressions"):
        judged = judge_clicks(whole, out=tmp_path / "judged.tsv")
    rows = judged.table.to_pylist()
    for query in ("alien", "dogs"):
        own = [row for row in rows if row["query"] == query]
        assert len(own) == 5
        assert max(own, key=lambda row: row["grade"])["doc_id"] == f"{query}-d3"


def test_a_later_page_of_a_search_counts_its_first_one_once(tmp_path: Path) -> None:
    """The list down to the page's end, under the id of the same search."""
    log = ImpressionLog(tmp_path / "shown.jsonl")
    for size in (5, 10):
        log.write(Impression("s1", "alien", [f"d{n}" for n in range(size)], "c1"))
    click = {
        "action_name": "click", "query_id": "s1", "client_id": "c1", "user_query": "alien",
        "event_attributes": {"object": {"object_id": "d7"}, "position": {"ordinal": 8}},
    }  # fmt: skip
    with log.path.open("a") as file:
        file.write(json.dumps(click) + "\n")
    counted = count_clicks(log.path, min_people=1)
    assert counted.event_counts.implied == 0
    assert counted.event_counts.unusable == {AGAIN: 5}
    assert counted.event_counts.used == 11


@pytest.mark.parametrize("mappings", [PLUGIN, DYNAMIC], ids=["plugin", "dynamic"])
def test_what_is_loaded_into_ubi_queries_is_joined_with_the_clicks(
    node_url: str, tmp_path: Path, mappings: Any
) -> None:
    shown, clicks = behaviour(tmp_path)
    cluster = connect(node_url)
    with ubi_indices(cluster.engine, shown, clicks, mappings) as ubi:
        counted = count_ubi(cluster, UbiOptions(**ubi._asdict()))
    assert counted.event_counts.used == counted.event_counts.read == 360
