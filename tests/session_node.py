"""One real node for the whole session, and a Maven repository that tests can fill and break."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from owpc_ltr import connect
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.versioned_documents import INDEX as ALIASES

if TYPE_CHECKING or find_spec("owpc_ltr_node"):
    from owpc_ltr_node.engine import NodeStatus, start_node, stop_node
    from owpc_ltr_node.release import ELASTICSEARCH, Places, Release, find_places, usual_release
    from owpc_ltr_node.settings import LocalNode, command, jvm_options, prepare_folder

_ONCE = "-XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class SessionNode:
    """The session's own node; `home` is its OWPC_LTR_HOME."""

    config: LocalNode
    status: NodeStatus
    places: Places
    home: Path


@pytest.fixture(scope="session")
def node_url(request: pytest.FixtureRequest) -> str:
    """A real node's address: OWPC_LTR_TEST_NODE_URL, else one started for this session.

    Where none can be started the tests fail: what they prove must not be skipped unseen.
    """
    given = os.environ.get("OWPC_LTR_TEST_NODE_URL")
    if given:
        return given.rstrip("/")
    node: SessionNode = request.getfixturevalue("session_node")
    return node.status.url


@pytest.fixture(scope="session")
def node_for(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """The address of a node for stores of a kind: with the LTR plugin, OWPC_LTR_TEST_URL's.

    What asks for a node by this, too, runs in the one process that starts one.
    """

    def address(kind: str) -> str:
        if kind == "plugin-free":
            return str(request.getfixturevalue("node_url"))
        url = os.environ.get("OWPC_LTR_TEST_URL")
        if not url:
            pytest.skip("no node with the LTR plugin: set OWPC_LTR_TEST_URL to test on one")
        return url

    return address


@pytest.fixture(scope="session")
def vectors_url() -> Iterator[str]:
    """A node with k-NN and neural search: OWPC_LTR_TEST_VECTORS_URL, else one of this session.

    Only thorough tests may ask for it.
    """
    given = os.environ.get("OWPC_LTR_TEST_VECTORS_URL")
    if given:
        yield given.rstrip("/")
        return
    pytest.importorskip("owpc_ltr_node")
    with running_node(usual_release(with_vectors=True)) as node:
        yield node.status.url


@pytest.fixture
def plugin_node(node_url: str) -> Iterator[tuple[str, Any]]:
    """The address of the node behind a scripted LTR plugin, and that plugin."""
    from tests.engine.scripted_plugin import scripted_plugin

    with scripted_plugin(node_url) as made:
        yield made
        # Aliases are in an index of the node, which outlives the plugin.
        cluster = connect(made[0], store_kind="ltr-plugin")
        for alias in Aliases(cluster.engine, cluster.store).all():
            place = f"/{ALIASES}/_doc/{alias.name}"
            cluster.engine.request("DELETE", place, params={"refresh": "true"})


@pytest.fixture(scope="session")
def session_node() -> Iterator[SessionNode]:
    """A node of this session's own: the usual one, or the one of OWPC_LTR_TEST_ENGINE."""
    pytest.importorskip("owpc_ltr_node")
    asked = os.environ.get("OWPC_LTR_TEST_ENGINE")
    with running_node(Release(*asked.split(":")) if asked else Release()) as node:
        yield node


@contextmanager
def running_node(
    release: Release,
    heap: str = "512m",
    transport_port: int | None = None,
) -> Iterator[SessionNode]:
    """A node that shares only the download cache with the user's nodes."""
    home = Path(tempfile.mkdtemp(prefix="owpc-ltr-test-", dir=_folder_in_memory()))
    home.chmod(0o755)
    cache = cache_for(release)
    cache.mkdir(parents=True, exist_ok=True)
    (home / "cache").symlink_to(cache)
    places = Places(cache, home / "state" / "nodes")
    config = LocalNode(
        port=free_port(),
        heap=heap,
        engine=release.engine,
        version=release.version,
        patience=400,
        transport_port=transport_port,
        with_vectors=release.vectors,
    )
    try:
        yield SessionNode(config, _started(config, places), places, home)
    finally:
        stop_node(config.port, places=places)
        shutil.rmtree(home, ignore_errors=True)


def _folder_in_memory() -> str | None:
    """Where there is one with room: a node waits for the disk at each write."""
    memory = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
    if not Path(memory).is_dir():
        return None
    filesystem = os.statvfs(memory)
    roomy = filesystem.f_bavail * filesystem.f_frsize > 2 << 30
    return memory if roomy and not filesystem.f_flag & os.ST_NOEXEC else None


def cache_for(release: Release) -> Path:
    """Where a release is downloaded to: root's own folder is closed to the account that runs it."""
    return Path("/var/cache/owpc-ltr-tests") if _runs_as_nobody(release) else find_places().cache


def _runs_as_nobody(release: Release) -> bool:
    return os.geteuid() == 0 and release.engine == ELASTICSEARCH


def _started(config: LocalNode, places: Places) -> NodeStatus:
    """The node's status, whose Java compiles once what it runs.

    Its second compiler makes nodes that live long fast; in the minutes that tests last, it takes
    half of the processor's time from them.
    """

    def options(*given: Any) -> list[str]:
        return [*jvm_options(*given), _ONCE]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("owpc_ltr_node.settings.jvm_options", options)
        if _runs_as_nobody(config.release):
            _run_as_nobody(patch)
        return start_node(config, places=places)


def _run_as_nobody(patch: pytest.MonkeyPatch) -> None:
    """Start nodes under another account: Elasticsearch does not run as root."""
    nobody = pwd.getpwnam("nobody")
    identity = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups")

    def prepared(node: LocalNode, folder: Path) -> None:
        prepare_folder(node, folder)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)

    def line(*given: Any) -> list[str]:
        return ["setpriv", *identity, *command(*given)]

    patch.setattr("owpc_ltr_node.engine.check_account", lambda _: None)
    patch.setattr("owpc_ltr_node.process.prepare_folder", prepared)
    patch.setattr("owpc_ltr_node.process.command", line)


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CA's certificate, and servers' keys and certificates signed by it."""
    import trustme

    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, host in (("local.pem", "127.0.0.1"), ("elsewhere.pem", "elsewhere.example")):
        authority.issue_cert(host).private_key_and_cert_chain_pem.write_to_path(str(folder / name))
    return folder
