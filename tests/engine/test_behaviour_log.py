"""User Behavior Insights out of a real node: the same counts as from a file, also after a stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_clicks import simulation as simulate
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.judge_clicks import count_ubi
from owpc_ltr_clicks.ubi import snapshot
from owpc_ltr_clicks.ubi.download import Download
from owpc_ltr_clicks.ubi.query_join import EVENT_FIELDS, table_of

from owpc_ltr import Cluster, connect
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.errors import EngineUnavailable, Refused, UsageError
from tests.clicks.counts import cells_of, counted
from tests.commands import Run, commands_in
from tests.engine.ubi_indices import ubi_documents

EVENTS = simulate.clicks(simulate.example_world(15, 12), sessions=700)
QUERIES, ACTS = map(list, ubi_documents(EVENTS))
TEXT = {"type": "keyword"}
MAPPINGS: dict[str, dict[str, Any]] = {
    # As the OpenSearch plugin makes them, and as the engine does by itself.
    "plugin": {
        "timestamp": {"type": "date"},
        "query_id": TEXT,
        "event_attributes": {
            "properties": {
                "object": {"properties": {"object_id": TEXT}},
                "position": {"properties": {"ordinal": {"type": "integer"}}},
            }
        },
    },
    "dynamic": {},
}


def _filled(engine: Engine, index: str, documents: list[Any], mapping: dict[str, Any]) -> None:
    engine.request("PUT", f"/{index}", body={
        "settings": {"number_of_shards": 2, "number_of_replicas": 0},
        "mappings": {"properties": mapping},
    })  # fmt: skip
    lines: list[Any] = []
    for number, document in enumerate(documents):
        lines += [{"index": {"_id": f"{number * 7919 % 100_003}"}}, document]
    engine.request("POST", f"/{index}/_bulk", ndjson=lines, params={"refresh": "true"})


@pytest.fixture(scope="module", params=MAPPINGS)
def cluster(node_url: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    found = connect(node_url)
    for index, documents in (("ubi_queries", QUERIES), ("ubi_events", ACTS)):
        _filled(found.engine, index, documents, MAPPINGS[request.param])
    yield found
    for index in ("ubi_queries", "ubi_events"):
        found.engine.request("DELETE", f"/{index}")


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PAGE", 100)


def read(cluster: Cluster, folder: Path, **how: Any) -> Behaviour:
    return count_ubi(cluster, folder, min_people=1, max_sessions_per_client=0, **how)


pytestmark = pytest.mark.node


def test_what_a_cluster_holds_is_counted_as_the_events_that_it_was_made_of(
    cluster: Cluster, tmp_path: Path, small_pages: None
) -> None:
    found = read(cluster, tmp_path / "log")
    assert cells_of(found) == cells_of(counted(EVENTS))
    assert found.event_counts.read == len(EVENTS)
    assert found.event_counts.used == counted(EVENTS).event_counts.used
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("pages", [0, 1, 6, 9])
def test_a_run_that_was_stopped_goes_on_to_the_same_counts(
    cluster: Cluster,
    tmp_path: Path,
    small_pages: None,
    monkeypatch: pytest.MonkeyPatch,
    pages: int,
    slices: int,
) -> None:
    add, written = Download.add, 0

    def stops(kept: Download, *what: Any, **more: Any) -> int:
        nonlocal written
        if written == pages:
            raise EngineUnavailable("gone")
        written += 1
        return add(kept, *what, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Download, "add", stops)
        with pytest.raises(EngineUnavailable):
            read(cluster, tmp_path / "log", slices=slices)
    assert len(list((tmp_path / "log").glob("*.parquet"))) == pages
    asked: list[str] = []
    request = Engine.request

    def told(engine: Engine, method: str, path: str, **what: Any) -> Any:
        if "sort" in (what.get("body") or {}):
            asked.append(path)
        return request(engine, method, path, **what)

    monkeypatch.setattr(Engine, "request", told)
    # An index goes on with the slices that it was begun with.
    found = read(cluster, tmp_path / "log", slices=4)
    assert cells_of(found) == cells_of(counted(EVENTS))
    # The last page of each slice, with a time or without.
    whole = len(QUERIES) // 100 + len(ACTS) // 100 + 2 * slices + 2 * 4
    assert len(asked) <= whole - pages + slices
    assert found.event_counts.as_dict() == read(cluster, tmp_path / "whole").event_counts.as_dict()


def test_a_folder_of_another_question_is_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: Any, **__: Any) -> None:
        raise EngineUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(Download, "add", stops)
        with pytest.raises(EngineUnavailable):
            read(cluster, tmp_path / "log", since="2026-01-01")
    with pytest.raises(Refused, match="was begun with another since"):
        read(cluster, tmp_path / "log", since="2026-01-02")


def stopped(cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the folder of a download that was stopped after its last part."""

    def stops(*_: Any, **__: Any) -> None:
        raise EngineUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(Download, "finish", stops)
        with pytest.raises(EngineUnavailable, match=f"kept in {folder}, and the same command goes"):
            read(cluster, folder)


@pytest.mark.parametrize(("name", "place"), [("journal", 0.01), ("*.parquet", 0.33)])
def test_options_and_parts_that_were_changed_are_not_believed(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: float
) -> None:
    folder = tmp_path / "log"
    stopped(cluster, folder, monkeypatch)
    flip(sorted(folder.glob(name))[0], place)
    with pytest.raises(Refused, match="is not as it was written: take the folder away"):
        read(cluster, folder)


@pytest.mark.parametrize("place", [0.5, 0.99])
def test_progress_that_was_changed_does_not_count(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: float
) -> None:
    whole = read(cluster, tmp_path / "whole")
    stopped(cluster, tmp_path / "log", monkeypatch)
    flip(tmp_path / "log" / "journal", place)
    assert read(cluster, tmp_path / "log").event_counts == whole.event_counts


def flip(path: Path, place: float) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0x80
    path.write_bytes(content)


def test_a_window_of_time_is_read_alone(cluster: Cluster, tmp_path: Path) -> None:
    times = np.sort(EVENTS["time"].to_numpy())
    middle = str(times[len(times) // 2]) + "Z"
    first = read(cluster, tmp_path / "one", until=middle)
    second = read(cluster, tmp_path / "other", since=middle)
    both = first.event_counts.read + second.event_counts.read
    assert 0 < first.event_counts.read < len(EVENTS)
    assert both == len(EVENTS)
    with pytest.raises(UsageError, match="cannot read the time 'soon'"):
        read(cluster, tmp_path / "never", since="soon")


def test_the_command_judges_and_leaves_nothing_behind(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run: Run = commands_in(tmp_path, monkeypatch, capsys)
    url = cluster.engine.settings.url
    words = ("judge", "clicks", "--from-ubi", "--url", url, "--out", "j.parquet")
    for _ in range(2):
        code, out, _ = run(*words, "--max-sessions-per-client", "0", "--json")
        assert code == 0
        assert f'"read": {len(EVENTS)}' in out
    assert [path.name for path in tmp_path.iterdir()] == ["j.parquet"]
    monkeypatch.setattr(
        "owpc_ltr.engine.cluster.index_names", lambda _: ["shop", "ubi_events", "ubi_queries"]
    )
    out = run(*words, "--max-sessions-per-client", "0")[1]
    assert out.replace("\\\n", " ").count("--index shop") == 3
    code, _, err = run(*words, "--ubi-events", "no_such_index")
    assert code != 0
    assert err.count("\n") == 1


def test_values_stand_in_objects_or_under_names_with_dots() -> None:
    nested = {"event_attributes": {"position": {"ordinal": 3}, "object": {"object_id": 7}}}
    dotted = {"event_attributes.position.ordinal": 3.0, "event_attributes.object.object_id": "7"}
    mixed = {"event_attributes": {"position.ordinal": 3, "object.object_id": "7"}}
    for document in (nested, dotted, mixed):
        table = table_of([document], EVENT_FIELDS)
        assert (table["position"][0].as_py(), table["document"][0].as_py()) == ("3", "7")
    assert table_of([{"event_attributes": None}], EVENT_FIELDS)["position"][0].as_py() is None
