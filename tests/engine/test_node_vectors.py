"""Nodes with k-NN and neural search: what is fetched, checked, refused, and answers."""

from __future__ import annotations

import json
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_node.distribution import (
    VECTOR_PLUGINS,
    OpenSearchParts,
    fetch_vector_plugins,
)
from owpc_ltr_node.engine import NodeStatus, _usual_folder
from owpc_ltr_node.folders import Places, Report
from owpc_ltr_node.home import assemble, provide_home
from owpc_ltr_node.maven import Jar, Maven, NotPublished
from owpc_ltr_node.release import ELASTICSEARCH, VECTORS, Release
from owpc_ltr_node.settings import LocalNode

from owpc_ltr.errors import EngineUnavailable, UsageError
from tests.engine.maven import Remote, local, remote

__all__ = ["local", "remote"]

OTHER = "2.19.9"
"""A release of which this package has no sums."""


def publish(remote: Remote, folder: Path, version: str, zips: tuple[str, ...]) -> None:
    """A release, and these of its plugins; the zips without a sum, as they are published."""
    remote.publish_release(version, without=("opensearch-agent-bootstrap",))
    for name in zips:
        jar = Jar("org.opensearch.plugin", name, f"{version}.0", packaging="zip")
        archive = folder / "made.zip"
        with zipfile.ZipFile(archive, "w") as files:
            about = f"name={name}\nversion={version}.0\nopensearch.version={version}\n"
            files.writestr("plugin-descriptor.properties", about)
            files.writestr(f"opensearch-knn-{version}.0.jar", b"not the released one")
        remote.put(jar, archive.read_bytes())
        path = remote.path(jar)
        path.with_name(f"{path.name}.sha1").unlink()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    return Places(tmp_path / "cache", tmp_path / "state")


def test_the_plugins_are_in_a_home_of_its_own(
    remote: Remote, tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(remote, tmp_path, OTHER, VECTOR_PLUGINS)
    told: list[str] = []
    report = Report(told.append)
    plain, without = provide_home(LocalNode(version=OTHER), places, None, report)
    assert "the node has no LTR plugin, and needs none" in told[-1]
    node = LocalNode(version=OTHER, with_vectors=True)
    home, manifest = provide_home(node, places, None, Report())
    assert home != plain
    assert (manifest.vectors, without.vectors) == (True, False)
    assert {path.name for path in (home / "plugins").iterdir()} == set(VECTOR_PLUGINS)
    assert not any((plain / "plugins").iterdir())
    # It is whole: the next start finds it, and needs no repository.
    (remote.folder / "org").rename(tmp_path / "gone")
    assert provide_home(node, places, None, Report()) == (home, manifest)


def test_a_release_without_the_plugins_is_named_with_one_that_has_them(
    remote: Remote, tmp_path: Path, places: Places
) -> None:
    publish(remote, tmp_path, OTHER, VECTOR_PLUGINS[:1])
    with pytest.raises(NotPublished, match=rf"{OTHER} has no k-NN and .* --version, as {VECTORS}"):
        provide_home(LocalNode(version=OTHER, with_vectors=True), places, None, Report())


def test_plugins_that_are_not_the_released_ones_are_refused(
    remote: Remote, local: Path, tmp_path: Path
) -> None:
    """The repository has no sums of the zips: only those of this package tell them."""

    publish(remote, tmp_path, VECTORS, VECTOR_PLUGINS)
    parts = OpenSearchParts(Release(version=VECTORS), {"lib": []}, (), local)
    zips = fetch_vector_plugins(parts.release, Maven(local, Report()))
    with pytest.raises(EngineUnavailable, match=r"plugins/opensearch-knn/.* was released with"):
        assemble(parts, None, tmp_path / "home", Report(), zips)
    assert not (tmp_path / "home").exists()


def test_a_named_home_without_the_plugins_is_refused(
    remote: Remote, tmp_path: Path, places: Places
) -> None:
    publish(remote, tmp_path, OTHER, VECTOR_PLUGINS)
    named = tmp_path / "named"
    provide_home(LocalNode(version=OTHER, home=named), places, None, Report())
    node = LocalNode(version=OTHER, home=named, with_vectors=True)
    with pytest.raises(UsageError, match="without k-NN and neural search"):
        provide_home(node, places, None, Report())


@pytest.mark.parametrize("place", ["", "lib", "lib/{jar}"])
@pytest.mark.parametrize("given", [True, False], ids=["--home", "the usual folder"])
def test_a_home_that_another_user_can_write_is_refused(
    given: bool, place: str, remote: Remote, tmp_path: Path, places: Places
) -> None:
    publish(remote, tmp_path, OTHER, ())
    node = LocalNode(version=OTHER, home=tmp_path / "named" if given else None)
    home, manifest = provide_home(node, places, None, Report())
    jar = next(Path(part.path).name for part in manifest.parts if part.path.startswith("lib/"))
    opened = home / place.format(jar=jar)
    mode = opened.stat().st_mode
    opened.chmod(mode | 0o002)
    with pytest.raises(UsageError, match=rf"others can write '{opened}'; .* with --home"):
        provide_home(node, places, None, Report())
    opened.chmod(mode)
    assert provide_home(node, places, None, Report()) == (home, manifest)


def test_a_home_is_not_made_in_a_folder_that_another_user_can_write(
    remote: Remote, tmp_path: Path, places: Places
) -> None:
    publish(remote, tmp_path, OTHER, ())
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(UsageError, match=f"others can write '{shared}'"):
        provide_home(LocalNode(version=OTHER, home=shared / "home"), places, None, Report())
    assert not any(shared.iterdir())


def test_elasticsearch_has_vectors_by_itself() -> None:
    with pytest.raises(UsageError, match="dense_vector and knn by itself"):
        LocalNode(engine=ELASTICSEARCH, with_vectors=True)


def test_indices_with_vectors_are_kept_apart(tmp_path: Path) -> None:
    """A node without the plugins cannot open them."""
    places = Places(tmp_path, tmp_path)
    nodes = [LocalNode(version=VECTORS), LocalNode(with_vectors=True)]
    assert [node.release.version for node in nodes] == [VECTORS, VECTORS]
    assert len({_usual_folder(node, places) for node in nodes}) == 2


def test_the_status_names_the_plugins() -> None:
    status = NodeStatus(9200, "http://127.0.0.1:9200", "running", vectors=True)
    assert "with k-NN and neural search, without the LTR plugin" in str(status)


@pytest.mark.thorough
def test_the_node_searches_by_words_and_vectors(vectors_url: str) -> None:
    index = f"{vectors_url}/words-and-vectors"
    vector = {"type": "knn_vector", "dimension": 2, "method": {"name": "hnsw", "engine": "lucene"}}
    mapping = {"properties": {"title": {"type": "text"}, "vector": vector}}
    _ask("PUT", index, {"settings": {"index.knn": True}, "mappings": mapping})
    try:
        for number, title in enumerate(["red shoe", "blue shoe"]):
            document = {"title": title, "vector": [number, 1]}
            _ask("PUT", f"{index}/_doc/{number}?refresh=true", document)
        legs = [{"match": {"title": "red"}}, {"knn": {"vector": {"vector": [1, 1], "k": 2}}}]
        found = _ask("POST", f"{index}/_search", {"query": {"hybrid": {"queries": legs}}})
        assert {hit["_id"] for hit in found["hits"]["hits"]} == {"0", "1"}
    finally:
        _ask("DELETE", index)


def _ask(method: str, url: str, body: Mapping[str, object] | None = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310
        url, content, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return json.load(answer)
