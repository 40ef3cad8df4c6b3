"""A Maven repository that tests can fill and break, and a Java that is none."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from owpc_ltr_node.distribution import BOOTSTRAP, CLASSLOADER, MODULES
from owpc_ltr_node.distribution import SERVER as NODE
from owpc_ltr_node.folders import make_folder
from owpc_ltr_node.maven import Jar

SERVER = Jar("org.example", "server", "1.0")
CORE = Jar("org.example", "core", "2.0")
LOG4J = Jar("org.apache.logging.log4j", "log4j-api", "2.25.4")
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>{jar.group}</groupId>
<artifactId>{jar.name}</artifactId><version>{jar.version}</version>
<dependencies>{dependencies}</dependencies></project>"""
DEPENDENCY = """<dependency><groupId>{jar.group}</groupId><artifactId>{jar.name}</artifactId>
<version>{jar.version}</version></dependency>"""


class Remote:
    """A Maven repository on loopback, whose files a test can change."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    def publish(self, jar: Jar, content: bytes, *needed: Jar) -> None:
        dependencies = "".join(DEPENDENCY.format(jar=each) for each in needed)
        pom = Jar(jar.group, jar.name, jar.version, packaging="pom")
        self.put(pom, POM.format(jar=jar, dependencies=dependencies).encode())
        self.put(jar, content)

    def put(self, jar: Jar, content: bytes) -> None:
        path = self.path(jar)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        # Some repositories append the file's name.
        path.with_name(f"{path.name}.sha1").write_text(f"{sha1(content)}  {path.name}\n")

    def publish_release(self, version: str, *, without: tuple[str, ...] = ()) -> None:
        """All that a home needs, less what Maven never had of this release."""
        self.publish(LOG4J, b"the interface")
        self.publish(Jar(LOG4J.group, "log4j-core", LOG4J.version), b"the backend")
        for coordinate in (CLASSLOADER, BOOTSTRAP, *(module.coordinate for module in MODULES)):
            group, name = coordinate.split(":")
            if name not in without:
                self.publish(Jar(group, name, version), name.encode())
        group, name = NODE.split(":")
        self.publish(Jar(group, name, version), b"the server", LOG4J)

    def path(self, jar: Jar) -> Path:
        return self.folder / jar.path


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    folder = tmp_path / "remote"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    settings = tmp_path / "jgo.conf"
    settings.write_text(f"[repositories]\ncentral = {url}\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
    repository = Remote(folder, url)
    repository.publish(SERVER, b"the server", CORE)
    repository.publish(CORE, b"the core")
    yield repository
    server.shutdown()
    server.server_close()


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return tmp_path / "local"


def sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def fake_java(folder: Path, banner: str, thai: str = "false") -> Path:
    home = make_folder(folder / "bin")
    program = home / "java"
    told = f"[ \"$1\" = -version ] && echo '{banner}' >&2 || echo {thai}"
    program.write_text(f"#!/bin/sh\n{told}\n")
    program.chmod(0o755)
    return program
