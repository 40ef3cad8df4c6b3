"""Homes of nodes: downloads that are checked, go on where they were interrupted, and unpacked."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from owpc_ltr_node.home import MODULES, provide_home
from owpc_ltr_node.make_lock import line_of
from owpc_ltr_node.release import ELASTICSEARCH, LOCKS, USUAL, Release, usual_release

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.signatures import silent

LOCK_NAMES = sorted(lock.name for lock in LOCKS.iterdir())


class Repository:
    """A Maven repository on loopback, with the locks of what is published in it."""

    def __init__(self, folder: Path, locks: Path) -> None:
        self.folder = folder
        self.locks = locks
        self.asked: list[str] = []
        asked = self.asked

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                asked.append(Path(self.path).name)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def publish(self, name: str, files: dict[str, bytes]) -> Release:
        """The release of a name, of these files by their place in the home."""
        lines = []
        for place, content in files.items():
            folder, _, file = place.rpartition("/")
            (self.folder / file).write_bytes(content)
            lines.append(f"{folder or '.'} {file} {hashlib.sha256(content).hexdigest()}\n")
        (self.locks / name).write_text("".join(lines))
        engine, version, *vectors = name.split("-")
        return Release(engine, version, vectors=bool(vectors))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    for name in ("remote", "locks"):
        (tmp_path / name).mkdir()
    made = Repository(tmp_path / "remote", tmp_path / "locks")
    monkeypatch.setattr("owpc_ltr_node.release.LOCKS", made.locks)
    monkeypatch.setattr("owpc_ltr_node.home.repositories", lambda: [made.url])
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    made.publish("opensearch-3.8.0", JARS)
    yield made
    made.server.shutdown()
    made.server.server_close()


JARS = {
    "lib/opensearch.jar": b"the server",
    "lib/lucene.jar": b"the index",
    "modules/lang-painless/painless.jar": b"the scripts",
}


def zipped(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, inner in files.items():
            archive.writestr(name, inner)
    return content.getvalue()


def files_of(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}


def test_a_home_is_made_of_its_lock(repository: Repository, tmp_path: Path) -> None:
    home = provide_home(Release(), tmp_path, silent)
    descriptor = "modules/lang-painless/plugin-descriptor.properties"
    assert files_of(home) == {*JARS, descriptor, "lib/thai-locale.jar"}
    assert "classname=org.opensearch.painless.PainlessModulePlugin" in (
        (home / descriptor).read_text().splitlines()
    )


def test_what_is_assembled_needs_no_network(repository: Repository, tmp_path: Path) -> None:
    home = provide_home(Release(), tmp_path, silent)
    shutil.rmtree(repository.folder)
    assert provide_home(Release(), tmp_path, silent) == home


def test_an_interrupted_download_goes_on(repository: Repository, tmp_path: Path) -> None:
    late = repository.folder / "painless.jar"
    content = late.read_bytes()
    late.unlink()
    with pytest.raises(EngineUnavailable, match=r"cannot download .*painless.jar: 404"):
        provide_home(Release(), tmp_path, silent)
    partial_home = tmp_path / "homes" / "opensearch-3.8.0.2.partial"
    assert [path.name for path in partial_home.parent.glob("*[!k]")] == [partial_home.name]
    # An interrupted write.
    (partial_home / "lib" / "lucene.jar").write_bytes(b"the in")
    late.write_bytes(content)
    repository.asked.clear()
    home = provide_home(Release(), tmp_path, silent)
    assert sorted(repository.asked) == ["lucene.jar", "painless.jar"]
    assert (home / "lib" / "lucene.jar").read_bytes() == b"the index"
    assert not partial_home.exists()


def test_two_starts_at_once_make_one_home(repository: Repository, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        homes = list(pool.map(lambda _: provide_home(Release(), tmp_path, silent), range(4)))
    assert set(homes) == {tmp_path / "homes" / "opensearch-3.8.0.2"}
    assert len(repository.asked) == len(JARS)


def test_a_file_of_another_sum_is_no_part_of_a_home(repository: Repository, tmp_path: Path) -> None:
    (repository.folder / "lucene.jar").write_bytes(b"another jar")
    with pytest.raises(EngineUnavailable, match=r"lucene.jar has the SHA-256 .* was released with"):
        provide_home(Release(), tmp_path, silent)
    assert not (tmp_path / "homes" / "opensearch-3.8.0.2").exists()


def test_the_next_repository_is_asked_for_what_one_has_not(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remotes = [f"{repository.url}/empty", repository.url]
    monkeypatch.setattr("owpc_ltr_node.home.repositories", lambda: remotes)
    assert provide_home(Release(), tmp_path, silent).is_dir()


def test_an_unreachable_repository_is_one_clear_line(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owpc_ltr_node.home.repositories", lambda: ["http://127.0.0.1:9"])
    with pytest.raises(EngineUnavailable) as caught:
        provide_home(Release(), tmp_path, silent)
    line = str(caught.value)
    assert "Connection refused" in line
    assert "connect once" in line
    assert "\n" not in line


def test_of_elasticsearch_the_server_is_unpacked(repository: Repository, tmp_path: Path) -> None:
    version = USUAL[ELASTICSEARCH]
    top = f"elasticsearch-{version}"
    kept = {"lib/server.jar": b"1", "modules/x/x.jar": b"2", "LICENSE.txt": b"3"}
    left = {f"{top}/bin/elasticsearch": b"4", f"{top}/lib/../../../out": b"5", "../out": b"6"}
    files = {f"{top}/{name}": content for name, content in kept.items()} | left
    release = repository.publish(top, {f"{top}.zip": zipped(**files)})
    home = provide_home(release, tmp_path, silent)
    assert {*kept} <= files_of(home) <= {*kept, "lib/out"}
    assert not list(tmp_path.rglob("../out"))
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "homes" / "out").exists()


def test_plugins_are_unpacked_each_in_a_folder_of_its_own(
    repository: Repository, tmp_path: Path
) -> None:
    knn = zipped(**{"plugin-descriptor.properties": b"name=knn\n"})
    files = {**JARS, "plugins/knn-2.19.1.0.zip": knn}
    release = repository.publish("opensearch-2.19.1-vectors", files)
    home = provide_home(release, tmp_path, silent)
    (plugin,) = (home / "plugins").iterdir()
    assert files_of(plugin) == {"plugin-descriptor.properties"}


def test_an_own_ltr_plugin_is_put_into_a_home(repository: Repository, tmp_path: Path) -> None:
    plain = provide_home(Release(), tmp_path, silent)
    archive = tmp_path / "m2" / "org" / "opensearch" / "ltr" / "3.8.0.0" / "ltr-3.8.0.0.zip"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"no zip")
    with pytest.raises(EngineUnavailable, match=r"cannot unpack .*ltr-3.8.0.0.zip: .*; remove it"):
        provide_home(Release(), tmp_path, silent)
    archive.write_bytes(zipped(**{"plugin-descriptor.properties": b"name=ltr\n"}))
    home = provide_home(Release(), tmp_path, silent)
    assert home != plain
    assert (home / "plugins" / "ltr" / "plugin-descriptor.properties").is_file()
    assert archive.is_file()


@pytest.mark.parametrize("name", LOCK_NAMES)
def test_a_shipped_lock_is_whole(name: str) -> None:
    engine, version, *vectors = name.split("-")
    release = Release(engine, version, vectors=bool(vectors))
    artifacts = release.artifacts
    assert len({(each.folder, each.path) for each in artifacts}) == len(artifacts)
    for each in artifacts:
        assert re.fullmatch(r"[0-9a-f]{64}", each.sha256)
        assert re.fullmatch(r"[A-Za-z0-9._/-]+\.(jar|zip)", each.path)
        assert ".." not in each.path + each.folder
    folders = {each.folder for each in artifacts}
    plugins = {"plugins"} if release.vectors else set()
    of_opensearch = {"lib", *(f"modules/{module}" for module in MODULES), *plugins}
    assert folders == ({"."} if engine == ELASTICSEARCH else of_opensearch)


def test_every_usual_release_has_a_lock() -> None:
    usual = [*(usual_release(engine) for engine in USUAL), usual_release(with_vectors=True)]
    assert {release.name for release in usual} <= {*LOCK_NAMES}


SHA1 = hashlib.sha1(b"the jar", usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("published", [SHA1, "0" * 40])
def test_a_lock_is_made_of_files_that_are_as_published(
    published: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owpc_ltr_node.make_lock.repositories", lambda: ["http://maven"])
    answers = {
        "http://maven/a.jar": SimpleNamespace(content=b"the jar", raise_for_status=lambda: None),
        "http://maven/a.jar.sha1": SimpleNamespace(text=f"{published}  a.jar", status_code=200),
    }
    session = SimpleNamespace(get=lambda url, **_: answers[url])
    if published == "0" * 40:
        with pytest.raises(SystemExit, match=r"a\.jar has the SHA-1"):
            line_of(("lib", "a.jar"), session)  # type: ignore[arg-type]
    else:
        line = line_of(("lib", "a.jar"), session)  # type: ignore[arg-type]
        assert line == f"lib a.jar {hashlib.sha256(b'the jar').hexdigest()}\n"
