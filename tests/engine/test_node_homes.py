"""Homes of nodes: downloads that are checked, cut into folders, and repaired."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_node.distribution import (
    MODULES,
    UNUSED,
    Module,
    cut,
    find_local_plugin,
    find_remote_plugin,
    inspect_plugin,
    log4j_core,
    singles,
    unpack_plugin,
)
from owpc_ltr_node.folders import Places, Report
from owpc_ltr_node.home import HomeManifest, provide_home
from owpc_ltr_node.maven import Jar, Maven, NotPublished, remove_unsound
from owpc_ltr_node.release import Release
from owpc_ltr_node.settings import LocalNode

from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError
from tests.engine.maven import CORE, SERVER, Remote, local, remote
from tests.session_node import SessionNode

__all__ = ["local", "remote"]


def test_an_artifact_is_resolved_with_what_it_needs(remote: Remote, local: Path) -> None:
    assert remote.url
    assert Maven(local, Report()).resolve(["org.example:server:1.0"]) == [[SERVER, CORE]]


def test_what_was_fetched_once_needs_no_network(remote: Remote, local: Path) -> None:
    maven = Maven(local, Report())
    maven.resolve(["org.example:server:1.0"])
    maven.fetch_all([SERVER, CORE], "jars")
    shutil.rmtree(remote.folder)
    again = Maven(local, Report())
    assert again.resolve(["org.example:server:1.0"]) == [[SERVER, CORE]]
    assert again.fetch(CORE).read_bytes() == b"the core"


def test_a_jar_that_is_not_what_its_sum_says_is_refused(remote: Remote, local: Path) -> None:
    remote.path(CORE).write_bytes(b"the corf")
    with pytest.raises(EngineUnavailable, match=r"core-2.0.jar: its SHA-1 is"):
        Maven(local, Report()).fetch(CORE)
    assert not (local / CORE.path).exists()


def test_a_jar_without_a_sum_is_refused(remote: Remote, local: Path) -> None:
    path = remote.path(CORE)
    path.with_name(f"{path.name}.sha1").unlink()
    with pytest.raises(EngineUnavailable, match=r"cannot download .*core-2.0.jar: HTTP 404"):
        Maven(local, Report()).fetch(CORE)


def test_a_dependency_that_cannot_be_had_is_never_left_out(remote: Remote, local: Path) -> None:
    pom = Jar(CORE.group, CORE.name, CORE.version, packaging="pom")
    remote.path(pom).unlink()
    with pytest.raises(NotPublished, match=r"org.example:core:2.0"):
        Maven(local, Report()).resolve(["org.example:server:1.0"])


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
    path = Maven(local, Report()).fetch(CORE)
    damage(path)  # type: ignore[operator]
    assert Maven(local, Report()).fetch(CORE).read_bytes() == b"the core"


def test_what_an_interrupted_download_left_is_removed(remote: Remote, local: Path) -> None:
    assert remote.url
    path = Maven(local, Report()).fetch(CORE)
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
        Maven(local, Report()).resolve(["org.example:server:1.0"])
    line = str(caught.value)
    assert line.startswith("cannot reach the maven repository")
    assert "Connection refused" in line
    assert "\n" not in line


def test_a_home_knows_its_files_and_catches_one_that_changed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "lib").mkdir(parents=True)
    jar = home / "lib" / "core.jar"
    jar.write_bytes(b"the core")
    HomeManifest.of(home, Release(), None).write(home)
    manifest = HomeManifest.read(home)
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
    older = dataclasses.replace(HomeManifest.of(tmp_path, Release(), None), layout=0)
    assert "it has layout 0" in older.fault(tmp_path, sums=False)


@pytest.mark.parametrize("text", ["", "{}", '{"opensearch": 1, "ltr_plugin": null, "parts": [1]}'])
def test_a_torn_manifest_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "owpc-ltr.json").write_text(text)
    with pytest.raises(BadInput, match="does not describe an assembled home"):
        HomeManifest.read(tmp_path)


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
    assert unpack_plugin(archive, tmp_path / "plugins", "3.8.0") == "3.8.0.0"
    unpacked = tmp_path / "plugins" / "opensearch-ltr"
    found = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*.*")}
    assert found == {"ltr.jar", "config/a.json", "plugin-descriptor.properties"}


@pytest.mark.parametrize(
    "name", ["../../escaped", "/escaped", "a/../../escaped", "a\\..\\escaped", "C:escaped"]
)
def test_a_zip_that_writes_outside_its_folder_writes_nothing(tmp_path: Path, name: str) -> None:
    archive = plugin_zip(tmp_path, "good.jar", name)
    with pytest.raises(BadInput, match="would write outside its folder"):
        unpack_plugin(archive, tmp_path / "plugins", "3.8.0")
    assert [path.name for path in tmp_path.iterdir()] == ["ltr.zip"]


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    archive = plugin_zip(tmp_path)
    with zipfile.ZipFile(archive, "a") as files:
        link = zipfile.ZipInfo("lib")
        link.external_attr = 0o120777 << 16
        files.writestr(link, "/etc")
    with pytest.raises(BadInput, match="would write outside its folder"):
        inspect_plugin(archive, "3.8.0")


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
        inspect_plugin(plugin_zip(tmp_path, descriptor=descriptor), "3.8.0")


def test_a_cut_zip_is_refused(tmp_path: Path) -> None:
    archive = plugin_zip(tmp_path, "ltr.jar")
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(BadInput, match="not a sound zip"):
        inspect_plugin(archive, "3.8.0")


def test_a_changed_byte_in_a_zip_is_caught(tmp_path: Path) -> None:
    archive = plugin_zip(tmp_path, "ltr.jar")
    content = archive.read_bytes()
    archive.write_bytes(content.replace(b"content", b"contenu", 1))
    with pytest.raises(BadInput, match=r"damaged at 'ltr.jar'"):
        inspect_plugin(archive, "3.8.0")


def test_the_plugin_of_the_users_own_maven_repository_is_found(tmp_path: Path) -> None:
    environ = {"M2_REPO": str(tmp_path)}
    assert find_local_plugin("3.8.0", environ) is None
    path = tmp_path / "org/opensearch/ltr/3.8.0.0/ltr-3.8.0.0.zip"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    assert find_local_plugin("3.8.0", environ) == path


def test_a_plugin_that_nobody_publishes_is_none_and_not_an_error(
    remote: Remote, local: Path
) -> None:
    assert remote.url
    assert find_remote_plugin("3.8.0", Maven(local, Report())) is None


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
    home, manifest = provide_home(LocalNode(), places, None, Report())
    assert manifest.ltr_plugin is None
    jar = next(home.glob("lib/lucene-core-*.jar"))
    sound = jar.read_bytes()
    replace(jar, sound[:-1] + b"!")
    assert provide_home(LocalNode(), places, None, Report())[0] == home
    assert jar.read_bytes() != sound, "sizes alone are compared without --verify"
    provide_home(LocalNode(verify=True), places, None, Report())
    assert jar.read_bytes() == sound
    replace(jar, sound[:1000])
    provide_home(LocalNode(), places, None, Report())
    assert jar.read_bytes() == sound
    assert [path.name for path in places.homes.iterdir()] == ["opensearch-3.8.0"]


def test_a_plugin_in_the_users_repository_is_taken_up_and_kept(places: Places) -> None:
    plain, _ = provide_home(LocalNode(), places, None, Report())
    archive = places.cache / "m2/org/opensearch/ltr/3.8.0.0/ltr-3.8.0.0.zip"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"not a plugin")
    assert provide_home(LocalNode(), places, None, Report())[0] == plain
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("plugin-descriptor.properties", DESCRIPTOR)
    home, manifest = provide_home(LocalNode(), places, None, Report())
    assert manifest.ltr_plugin == "3.8.0.0"
    assert (home / "plugins/opensearch-ltr/plugin-descriptor.properties").is_file()
    archive.unlink()
    assert provide_home(LocalNode(), places, None, Report())[0] == home


def test_a_jar_that_is_not_the_released_one_is_refused(places: Places) -> None:
    import hashlib

    # The download cache may hold those of other releases beside it.
    for jar in places.maven.rglob("lucene-core-*.jar"):
        jar.write_bytes(b"another jar, with a sum that fits it")
        fitting = hashlib.sha1(jar.read_bytes(), usedforsecurity=False).hexdigest()
        jar.with_name(f"{jar.name}.sha1").write_text(fitting)
    with pytest.raises(EngineUnavailable, match=r"lucene-core.*has the SHA-256 .* released with"):
        provide_home(LocalNode(), places, None, Report())
    assert not any(places.homes.iterdir())


def test_a_named_home_is_made_there_and_a_foreign_folder_is_left_alone(places: Places) -> None:
    named = places.cache / "named"
    home, _ = provide_home(LocalNode(home=named), places, None, Report())
    assert home == named
    with pytest.raises(UsageError, match=r"it is opensearch 3.8.0, and 3.8.1 was asked for"):
        provide_home(LocalNode(home=named, version="3.8.1"), places, None, Report())
    replace(next(named.glob("lib/lucene-core-*.jar")), b"")
    with pytest.raises(UsageError, match=r"will not do: .* has 0 bytes"):
        provide_home(LocalNode(home=named), places, None, Report())


def test_without_downloads_and_network_the_line_says_what_to_do(places: Places) -> None:
    shutil.rmtree(places.maven)
    with pytest.raises(EngineUnavailable, match="connect once, or copy"):
        provide_home(LocalNode(), places, None, Report())
    assert not places.homes.exists()


names = st.sampled_from(["lucene-core", "jackson-core", "netty-buffer", "asm", UNUSED[1]])
groups = st.sampled_from(["com.fasterxml", "tools.jackson", "org.ow2", UNUSED[0]])
jars = st.lists(st.builds(Jar, groups, names, st.sampled_from(["1.0", "2.0"])), max_size=8)
modules = st.dictionaries(st.sampled_from(["painless", "netty", "reindex"]), jars)


@given(jars, jars, modules)
def test_no_class_loader_sees_an_artifact_twice(
    server: list[Jar], singles: list[Jar], own: dict[str, list[Jar]]
) -> None:
    folders = cut(server, singles, own)
    for name in own:
        seen = [jar.identity for jar in (*folders["lib"], *folders[f"modules/{name}"])]
        assert len(seen) == len(set(seen))


@given(jars, jars, modules)
def test_every_artifact_is_in_reach_of_the_module_that_needs_it(
    server: list[Jar], singles: list[Jar], own: dict[str, list[Jar]]
) -> None:
    folders = cut(server, singles, own)
    for name, needed in own.items():
        reach = {jar.identity for jar in (*folders["lib"], *folders[f"modules/{name}"])}
        assert {jar.identity for jar in needed if (jar.group, jar.name) != UNUSED} <= reach


@given(jars, jars, modules)
def test_quic_is_nowhere(server: list[Jar], singles: list[Jar], own: dict[str, list[Jar]]) -> None:
    everywhere = itertools.chain.from_iterable(cut(server, singles, own).values())
    assert all((jar.group, jar.name) != UNUSED for jar in everywhere)


def test_lib_wins_over_another_version_in_a_module() -> None:
    asm = Jar("org.ow2.asm", "asm", "9.7")
    folders = cut([asm], [], {"lang-painless": [Jar("org.ow2.asm", "asm", "9.10")]})
    assert folders == {"lib": [asm], "modules/lang-painless": []}


def test_artifacts_of_one_name_and_two_groups_both_stay() -> None:
    both = [
        Jar("com.fasterxml.jackson.core", "jackson-core", "2.22.1"),
        Jar("tools.jackson.core", "jackson-core", "3.2.1"),
    ]
    assert cut(both, [], {})["lib"] == both


def test_a_classifier_makes_another_artifact() -> None:
    plain = Jar("net.java.dev.jna", "jna", "5.16.0")
    native = Jar("net.java.dev.jna", "jna", "5.16.0", "natives")
    assert native.filename == "jna-5.16.0-natives.jar"
    assert cut([plain, native], [], {})["lib"] == [plain, native]


def test_the_logging_backend_has_the_version_of_its_interface() -> None:
    api = Jar("org.apache.logging.log4j", "log4j-api", "2.25.4")
    assert str(log4j_core([api])) == "org.apache.logging.log4j:log4j-core:2.25.4"


@pytest.mark.parametrize("version", ["2.19.6", "3.8.0"])
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_descriptor_has_no_empty_value(module: Module, version: str) -> None:
    lines = module.descriptor(Release(version=version)).splitlines()
    assert all(value for _, _, value in (line.partition("=") for line in lines))
    assert f"version={version}" in lines


def test_classes_are_named_and_walls_are_made_as_each_major_version_has_them() -> None:
    older, newer = Release(version="2.13.0"), Release(version="3.0.0")
    netty = MODULES[0]
    assert "classname=org.opensearch.transport.Netty4Plugin\n" in netty.descriptor(older)
    assert "classname=org.opensearch.transport.Netty4ModulePlugin\n" in netty.descriptor(newer)
    assert [len(singles(each)) for each in (older, newer)] == [1, 2]
