"""Homes made from real jars without a network: damage is mended, a plugin is taken up."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from owpc_ltr_node.folders import Places
from owpc_ltr_node.home import provide_home
from owpc_ltr_node.report import Silent
from owpc_ltr_node.settings import LocalNode

from owpc_ltr.errors import EngineUnavailable, UsageError
from tests.engine.conftest import SessionNode

pytestmark = pytest.mark.node

DESCRIPTOR = "name=opensearch-ltr\nversion=3.8.0.0\nopensearch.version=3.8.0\nclassname=x.Y\n"


@pytest.fixture
def places(session_node: SessionNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """The session's downloads and nothing else; every repository is out of reach."""
    others = shutil.ignore_patterns("integ-test-zip")  # Elasticsearch, whole
    shutil.copytree(session_node.places.maven, tmp_path / "maven", ignore=others)
    settings = tmp_path / "jgo.conf"
    settings.write_text("[repositories]\ncentral = http://127.0.0.1:9\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    return Places(tmp_path, tmp_path)


def replace(path: Path, content: bytes) -> None:
    """Change a file of a home without changing the download that it is a link to."""
    path.unlink()
    path.write_bytes(content)


def test_a_damaged_home_is_made_anew_from_the_downloads(places: Places) -> None:
    home, manifest = provide_home(LocalNode(), places, None, Silent())
    assert manifest.ltr_plugin is None
    jar = next(home.glob("lib/lucene-core-*.jar"))
    sound = jar.read_bytes()
    replace(jar, sound[:-1] + b"!")
    assert provide_home(LocalNode(), places, None, Silent())[0] == home
    assert jar.read_bytes() != sound, "sizes alone are compared without --verify"
    provide_home(LocalNode(verify=True), places, None, Silent())
    assert jar.read_bytes() == sound
    replace(jar, sound[:1000])
    provide_home(LocalNode(), places, None, Silent())
    assert jar.read_bytes() == sound
    assert [path.name for path in places.homes.iterdir()] == ["opensearch-3.8.0"]


def test_a_plugin_in_the_users_repository_is_taken_up_and_kept(places: Places) -> None:
    plain, _ = provide_home(LocalNode(), places, None, Silent())
    archive = places.cache / "m2/org/opensearch/ltr/3.8.0.0/ltr-3.8.0.0.zip"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"not a plugin")
    assert provide_home(LocalNode(), places, None, Silent())[0] == plain
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("plugin-descriptor.properties", DESCRIPTOR)
    home, manifest = provide_home(LocalNode(), places, None, Silent())
    assert manifest.ltr_plugin == "3.8.0.0"
    assert (home / "plugins/opensearch-ltr/plugin-descriptor.properties").is_file()
    archive.unlink()
    assert provide_home(LocalNode(), places, None, Silent())[0] == home


def test_a_jar_that_is_not_the_released_one_is_refused(places: Places) -> None:
    import hashlib

    # The download cache may hold those of other releases beside it.
    for jar in places.maven.rglob("lucene-core-*.jar"):
        jar.write_bytes(b"another jar, with a sum that fits it")
        fitting = hashlib.sha1(jar.read_bytes(), usedforsecurity=False).hexdigest()
        jar.with_name(f"{jar.name}.sha1").write_text(fitting)
    with pytest.raises(EngineUnavailable, match=r"lucene-core.*has the SHA-256 .* released with"):
        provide_home(LocalNode(), places, None, Silent())
    assert not any(places.homes.iterdir())


def test_a_named_home_is_made_there_and_a_foreign_folder_is_left_alone(places: Places) -> None:
    named = places.cache / "named"
    home, _ = provide_home(LocalNode(home=named), places, None, Silent())
    assert home == named
    with pytest.raises(UsageError, match=r"it is opensearch 3.8.0, and 3.8.1 was asked for"):
        provide_home(LocalNode(home=named, version="3.8.1"), places, None, Silent())
    replace(next(named.glob("lib/lucene-core-*.jar")), b"")
    with pytest.raises(UsageError, match=r"will not do: .* has 0 bytes"):
        provide_home(LocalNode(home=named), places, None, Silent())


def test_without_downloads_and_network_the_line_says_what_to_do(places: Places) -> None:
    shutil.rmtree(places.maven)
    with pytest.raises(EngineUnavailable, match="connect once, or copy"):
        provide_home(LocalNode(), places, None, Silent())
    assert not places.homes.exists()
