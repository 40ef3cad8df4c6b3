"""User Behavior Insights out of a real node: the same counts as from a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.judge_clicks import count_ubi
from owpc_ltr_clicks.ubi.query_join import EVENT_FIELDS
from owpc_ltr_clicks.ubi.snapshot import PartFiles

from owpc_ltr import Cluster, connect
from owpc_ltr.engine.ubi import table_of
from owpc_ltr.errors import EngineUnavailable, UsageError
from tests.clicks.counts import cells_of, counted
from tests.commands import Run
from tests.engine.ubi_indices import filled, ubi_documents
from tests.simulated_users import simulate

EVENTS = simulate.clicks(simulate.example_world(15, 12), sessions=250)
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


@pytest.fixture(scope="module", params=MAPPINGS)
def cluster(node_url: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    connected = connect(node_url)
    for index, documents in (("ubi_queries", QUERIES), ("ubi_events", ACTS)):
        mapping = {"properties": MAPPINGS[request.param]}
        filled(connected.engine, index, documents, mapping)
    yield connected
    for index in ("ubi_queries", "ubi_events"):
        connected.engine.request("DELETE", f"/{index}")


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("owpc_ltr.engine.ubi.PAGE", 40)


def read(cluster: Cluster, **how: Any) -> Behaviour:
    return count_ubi(cluster, min_people=1, max_sessions_per_client=0, **how)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def test_what_a_cluster_holds_is_counted_as_the_events_that_it_was_made_of(
    cluster: Cluster, temporary: Path, small_pages: None
) -> None:
    behaviour = read(cluster)
    assert cells_of(behaviour) == cells_of(counted(EVENTS))
    assert behaviour.event_counts.read == len(EVENTS)
    assert behaviour.event_counts.used == counted(EVENTS).event_counts.used
    assert list(temporary.iterdir()) == []


def test_a_run_that_was_stopped_leaves_nothing_behind(
    cluster: Cluster, temporary: Path, small_pages: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = PartFiles.add

    def stops(parts: PartFiles, number: int, *what: Any) -> int:
        if add(parts, number, *what) > 100:
            raise EngineUnavailable("gone")
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(PartFiles, "add", stops)
        with pytest.raises(EngineUnavailable, match="gone"):
            read(cluster)
    assert list(temporary.iterdir()) == []
    assert cells_of(read(cluster)) == cells_of(counted(EVENTS))


def test_a_window_of_time_is_read_alone(cluster: Cluster) -> None:
    times = np.sort(EVENTS["time"].to_numpy())
    middle = str(times[len(times) // 2]) + "Z"
    first = read(cluster, until=middle)
    second = read(cluster, since=middle)
    both = first.event_counts.read + second.event_counts.read
    assert 0 < first.event_counts.read < len(EVENTS)
    assert both == len(EVENTS)
    with pytest.raises(UsageError, match="cannot read the time 'soon'"):
        read(cluster, since="soon")


def test_the_command_judges_and_leaves_nothing_behind(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    url = cluster.engine.settings.url
    words = ("judge", "clicks", "--from-ubi", "--url", url, "--out", "j.parquet")
    for _ in range(2):
        out = run.output(*words, "--max-sessions-per-client", "0", "--json")
        assert f'"read": {len(EVENTS)}' in out
    assert {path.name for path in tmp_path.iterdir()} == {"j.parquet", "temporary"}
    monkeypatch.setattr(
        "owpc_ltr.engine.staging_index.index_names", lambda _: ["shop", "ubi_events", "ubi_queries"]
    )
    out = run(*words, "--max-sessions-per-client", "0")[1]
    assert out.replace("\\\n", " ").count("--index shop") == 4
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
