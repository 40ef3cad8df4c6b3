"""Downloads: each checked, none half there, and a repository that lies is caught."""

from __future__ import annotations

import dataclasses
import shutil
import zipfile
from pathlib import Path

import pytest
from owpc_ltr_node import ltr_plugin
from owpc_ltr_node.home import Manifest
from owpc_ltr_node.maven import Jar, Maven, NotPublished, remove_unsound
from owpc_ltr_node.release import Release
from owpc_ltr_node.report import Silent

from owpc_ltr.errors import BadInput, EngineUnavailable
from tests.engine.maven import CORE, SERVER, Remote, local, remote

__all__ = ["local", "remote"]


def test_an_artifact_is_resolved_with_what_it_needs(remote: Remote, local: Path) -> None:
    assert remote.url
    assert Maven(local, Silent()).resolve(["org.example:server:1.0"]) == [[SERVER, CORE]]


def test_what_was_fetched_once_needs_no_network(remote: Remote, local: Path) -> None:
    maven = Maven(local, Silent())
    maven.resolve(["org.example:server:1.0"])
    maven.fetch_all([SERVER, CORE], "jars")
    shutil.rmtree(remote.folder)
    again = Maven(local, Silent())
    assert again.resolve(["org.example:server:1.0"]) == [[SERVER, CORE]]
    assert again.fetch(CORE).read_bytes() == b"the core"


def test_a_jar_that_is_not_what_its_sum_says_is_refused(remote: Remote, local: Path) -> None:
    remote.path(CORE).write_bytes(b"the corf")
    with pytest.raises(EngineUnavailable, match=r"core-2.0.jar: its SHA-1 is"):
        Maven(local, Silent()).fetch(CORE)
    assert not (local / CORE.path).exists()


def test_a_jar_without_a_sum_is_refused(remote: Remote, local: Path) -> None:
    path = remote.path(CORE)
    path.with_name(f"{path.name}.sha1").unlink()
    with pytest.raises(EngineUnavailable, match=r"cannot download .*core-2.0.jar: HTTP 404"):
        Maven(local, Silent()).fetch(CORE)


def test_a_dependency_that_cannot_be_had_is_never_left_out(remote: Remote, local: Path) -> None:
    pom = Jar(CORE.group, CORE.name, CORE.version, packaging="pom")
    remote.path(pom).unlink()
    with pytest.raises(NotPublished, match=r"org.example:core:2.0"):
        Maven(local, Silent()).resolve(["org.example:server:1.0"])


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"torn"),
        lambda path: path.with_name(f"{path.name}.sha1").unlink(),
        lambda path: path.with_name(f"{path.name}.sha1").write_text(""),
    ],
    ids=["content changed", "sum gone", "sum torn"],
)
def test_a_damaged_download_is_downloaded_again(
    remote: Remote, local: Path, damage: object
) -> None:
    assert remote.url
    path = Maven(local, Silent()).fetch(CORE)
    damage(path)  # type: ignore[operator]
    assert Maven(local, Silent()).fetch(CORE).read_bytes() == b"the core"


def test_what_an_interrupted_download_left_is_removed(remote: Remote, local: Path) -> None:
    assert remote.url
    path = Maven(local, Silent()).fetch(CORE)
    half = path.with_name(f".{path.name}.x1y2")
    half.write_bytes(b"the co")
    assert remove_unsound(local) == [half]
    assert path.is_file()


def test_an_unreachable_repository_is_one_clear_line(
    tmp_path: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "jgo.conf"
    settings.write_text("[repositories]\ncentral = http://127.0.0.1:9\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
    with pytest.raises(EngineUnavailable) as caught:
        Maven(local, Silent()).resolve(["org.example:server:1.0"])
    line = str(caught.value)
    assert line.startswith("cannot reach the maven repository")
    assert "Connection refused" in line
    assert "\n" not in line


def test_a_home_knows_its_files_and_catches_one_that_changed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "lib").mkdir(parents=True)
    jar = home / "lib" / "core.jar"
    jar.write_bytes(b"the core")
    Manifest.of(home, Release(), None).write(home)
    manifest = Manifest.read(home)
    assert manifest.fault(home, sums=True) == ""

    jar.write_bytes(b"the corf")
    assert manifest.fault(home, sums=False) == ""
    assert "lib/core.jar has another SHA-256" in manifest.fault(home, sums=True)
    jar.write_bytes(b"the cor")
    assert "lib/core.jar has 7 bytes instead of 8" in manifest.fault(home, sums=False)
    jar.unlink()
    assert "lib/core.jar is missing" in manifest.fault(home, sums=False)
    (home / "lib" / "extra.jar").write_bytes(b"")
    jar.write_bytes(b"the core")
    assert "lib/extra.jar does not belong" in manifest.fault(home, sums=False)


def test_a_home_of_another_layout_is_made_anew(tmp_path: Path) -> None:
    older = dataclasses.replace(Manifest.of(tmp_path, Release(), None), layout=0)
    assert "it has layout 0" in older.fault(tmp_path, sums=False)


@pytest.mark.parametrize("text", ["", "{}", '{"opensearch": 1, "ltr_plugin": null, "parts": [1]}'])
def test_a_torn_manifest_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "owpc-ltr.json").write_text(text)
    with pytest.raises(BadInput, match="does not describe an assembled home"):
        Manifest.read(tmp_path)


DESCRIPTOR = "name=opensearch-ltr\nversion=3.8.0.0\nopensearch.version=3.8.0\nclassname=x.Y\n"


def plugin_zip(folder: Path, *names: str, descriptor: str = DESCRIPTOR) -> Path:
    archive = folder / "ltr.zip"
    with zipfile.ZipFile(archive, "w") as files:
        if descriptor:
            files.writestr("plugin-descriptor.properties", descriptor)
        for name in names:
            files.writestr(name, b"content")
    return archive


def test_a_plugin_is_unpacked_into_its_own_folder(tmp_path: Path) -> None:
    archive = plugin_zip(tmp_path, "ltr.jar", "config/a.json")
    assert ltr_plugin.unpack(archive, tmp_path / "plugins", "3.8.0") == "3.8.0.0"
    unpacked = tmp_path / "plugins" / "opensearch-ltr"
    found = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*.*")}
    assert found == {"ltr.jar", "config/a.json", "plugin-descriptor.properties"}


@pytest.mark.parametrize(
    "name", ["../../escaped", "/escaped", "a/../../escaped", "a\\..\\escaped", "C:escaped"]
)
def test_a_zip_that_writes_outside_its_folder_writes_nothing(tmp_path: Path, name: str) -> None:
    archive = plugin_zip(tmp_path, "good.jar", name)
    with pytest.raises(BadInput, match="would write outside its folder"):
        ltr_plugin.unpack(archive, tmp_path / "plugins", "3.8.0")
    assert [path.name for path in tmp_path.iterdir()] == ["ltr.zip"]


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    archive = plugin_zip(tmp_path)
    with zipfile.ZipFile(archive, "a") as files:
        link = zipfile.ZipInfo("lib")
        link.external_attr = 0o120777 << 16
        files.writestr(link, "/etc")
    with pytest.raises(BadInput, match="would write outside its folder"):
        ltr_plugin.inspect(archive, "3.8.0")


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        ("", "not an opensearch plugin"),
        (DESCRIPTOR.replace("opensearch.version=3.8.0", "opensearch.version=2.19.0"), "is for"),
        (DESCRIPTOR.replace("opensearch-ltr", "../x"), "no folder name"),
    ],
)
def test_a_zip_that_is_not_the_plugin_is_refused(
    tmp_path: Path, descriptor: str, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        ltr_plugin.inspect(plugin_zip(tmp_path, descriptor=descriptor), "3.8.0")


def test_a_cut_zip_is_refused(tmp_path: Path) -> None:
    archive = plugin_zip(tmp_path, "ltr.jar")
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(BadInput, match="not a sound zip"):
        ltr_plugin.inspect(archive, "3.8.0")


def test_a_changed_byte_in_a_zip_is_caught(tmp_path: Path) -> None:
    archive = plugin_zip(tmp_path, "ltr.jar")
    content = archive.read_bytes()
    archive.write_bytes(content.replace(b"content", b"contenu", 1))
    with pytest.raises(BadInput, match=r"damaged at 'ltr.jar'"):
        ltr_plugin.inspect(archive, "3.8.0")


def test_the_plugin_of_the_users_own_maven_repository_is_found(tmp_path: Path) -> None:
    environ = {"M2_REPO": str(tmp_path)}
    assert ltr_plugin.find_local("3.8.0", environ) is None
    path = tmp_path / "org/opensearch/ltr/3.8.0.0/ltr-3.8.0.0.zip"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    assert ltr_plugin.find_local("3.8.0", environ) == path


def test_a_plugin_that_nobody_publishes_is_none_and_not_an_error(
    remote: Remote, local: Path
) -> None:
    assert remote.url
    assert ltr_plugin.find_remote("3.8.0", Maven(local, Silent())) is None
