"""The real local node: that it analyses English, and is told from every other process."""

from __future__ import annotations

import json
import socket

import pytest
import urllib3
from owpc_ltr_node.engine import default_url, node_status, start_node
from owpc_ltr_node.settings import LocalNode

from owpc_ltr.errors import EngineUnavailable
from tests.commands import Run
from tests.session_node import SessionNode


def analyse(url: str, analyzer: str, text: str) -> list[str]:
    body = {"analyzer": analyzer, "text": text}
    answer = urllib3.request("POST", f"{url}/_analyze", json=body, retries=False).json()
    return [token["token"] for token in answer["tokens"]]


def test_english_analysis_stems_and_drops_stop_words(node_url: str) -> None:
    assert analyse(node_url, "english", "the foxes were running") == ["fox", "were", "run"]


def test_thai_is_broken_before_a_leading_vowel_at_the_least(node_url: str) -> None:
    assert analyse(node_url, "thai", "ภาษาไทย") == ["ภาษา", "ไทย"]


def test_a_nearly_full_disk_does_not_turn_indices_read_only(node_url: str) -> None:
    path = "/_cluster/settings?include_defaults=true&flat_settings=true"
    settings = urllib3.request("GET", node_url + path, retries=False).json()
    merged = {**settings["defaults"], **settings["persistent"], **settings["transient"]}
    assert merged["cluster.routing.allocation.disk.threshold_enabled"] == "false"


def test_the_node_listens_on_loopback_only(node_url: str) -> None:
    nodes = urllib3.request("GET", f"{node_url}/_nodes/http,transport", retries=False).json()
    (node,) = nodes["nodes"].values()
    for layer in ("http", "transport"):
        assert [each.split(":")[0] for each in node[layer]["bound_address"]] == ["127.0.0.1"]


def test_a_second_start_finds_the_node_running(
    session_node: SessionNode, capsys: pytest.CaptureFixture[str]
) -> None:
    again = start_node(session_node.config, places=session_node.places)
    assert (again.pid, again.url) == (session_node.status.pid, session_node.status.url)
    assert again.health in ("green", "yellow")
    assert "already runs" in capsys.readouterr().err


def test_a_second_start_with_another_heap_says_that_the_first_is_kept(
    session_node: SessionNode, capsys: pytest.CaptureFixture[str]
) -> None:
    other = LocalNode(port=session_node.config.port, heap="256m")
    assert start_node(other, places=session_node.places).heap == "512m"
    assert "it keeps heap 512m and opensearch 3.8.0" in capsys.readouterr().err


def test_status_tells_the_node_as_json(
    session_node: SessionNode, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWPC_LTR_HOME", str(session_node.home))
    port = str(session_node.config.port)
    result = json.loads(run("engine", "status", "--port", port, "--json")[1])
    assert result["state"] == "running"
    assert result["url"] == session_node.status.url == default_url()
    assert (result["version"], result["heap"], result["pid"]) == (
        "3.8.0",
        "512m",
        session_node.status.pid,
    )
    assert result["health"] in ("green", "yellow")
    assert result["ltr_plugin"] in (True, False)
    listed = json.loads(run("engine", "status", "--json")[1])
    assert [node["port"] for node in listed["nodes"]] == [session_node.config.port]


def test_status_in_words_is_one_line_per_node(
    session_node: SessionNode, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWPC_LTR_HOME", str(session_node.home))
    (line,) = run("engine", "status")[1].splitlines()
    assert line.startswith(session_node.status.url)
    assert "opensearch 3.8.0" in line


def test_the_log_is_printed_from_its_end(
    session_node: SessionNode, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWPC_LTR_HOME", str(session_node.home))
    port = str(session_node.config.port)
    printed = run("engine", "logs", "--port", port, "-n", "3")[1]
    assert len(printed.splitlines()) == 3
    assert run("engine", "logs", "--port", port, "-n", "0")[1] == ""


def test_a_node_is_started_on_a_free_port_only(session_node: SessionNode) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EngineUnavailable, match=f"port {port} is taken by .*with `port`"):
            start_node(LocalNode(port=port), places=session_node.places)
        assert node_status(port, session_node.places).state == "stopped"
