"""The settings of a node: its port, heap and folders, configuration files and command line."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import UsageError
from owpc_ltr_node.java import is_stripped
from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, USUAL, Release, usual_release

DEFAULT_PORT = 9200
DEFAULT_HEAP = "512m"
LEAST_HEAP = "128m"
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


@dataclass(frozen=True)
class LocalNode:
    """A node on 127.0.0.1; the port names it.

    `folder` takes its data, logs and temporary files. `patience` is how long to wait for its
    health, in seconds. `with_vectors` brings k-NN and neural search.
    """

    port: int = DEFAULT_PORT
    transport_port: int | None = None
    heap: str = DEFAULT_HEAP
    folder: Path | None = None
    java: Path | None = None
    version: str | None = None
    patience: float = 180.0
    engine: str = OPENSEARCH
    with_vectors: bool = False

    def __post_init__(self) -> None:
        _check_port("port", self.port)
        if self.transport_port is not None:
            _check_port("transport_port", self.transport_port)
            if self.transport_port == self.port:
                raise UsageError(f"`port` and `transport_port` are both {self.port}: choose two")
        _check_heap(self.heap, self.release.engine)

    @property
    def release(self) -> Release:
        """Which engine it is, in which version."""
        return usual_release(self.engine, self.version, with_vectors=self.with_vectors)

    @property
    def folder_name(self) -> str:
        """One for each port, engine, version and set of plugins: they cannot read each other's.

        The usual version has the folder without a version, whose indices a later usual one
        upgrades; an older one then cannot open them any more.
        """
        engine = f"-{self.engine}" * (self.engine != OPENSEARCH)
        version = self.release.version
        version = "" if version == USUAL[self.engine] else f"-{version}"
        return f"{self.port}{engine}{version}{'-vectors' * self.with_vectors}"


def heap_bytes(heap: str) -> int:
    """The size that a heap setting names.

    >>> heap_bytes("512m") == 512 * 2**20
    True
    """
    match = re.fullmatch(r"([1-9][0-9]{0,9})([kmg])", heap.strip().lower())
    if not match:
        raise UsageError(f"`heap` {heap} is not a size: write it as 512m or 2g")
    return int(match[1]) * _UNITS[match[2]]


def _check_heap(heap: str, engine: str) -> None:
    import psutil

    size = heap_bytes(heap)
    memory = psutil.virtual_memory().total
    if size < heap_bytes(LEAST_HEAP):
        raise UsageError(f"`heap` {heap} is too small for {engine}: give it {LEAST_HEAP} or more")
    if size > memory:
        raise UsageError(
            f"`heap` {heap} is more than this machine's memory ({memory / _UNITS['g']:.1f} GiB): "
            f"{DEFAULT_HEAP} is enough for a few 100,000 documents"
        )


def _check_port(name: str, port: int) -> None:
    if not 1024 <= port <= 65535:
        raise UsageError(
            f"`{name}` {port} is not between 1024 and 65535: choose one such as {DEFAULT_PORT}"
        )


SERVER_LAUNCHER = "lib/tools/server-launcher"
"""Where later releases of Elasticsearch keep a launcher for the server alone: of these, the command
line tools' launcher only prints how the server is to be started."""
_LAUNCHER_OPTIONS = ("-Xms4m", "-Xmx64m", "-XX:+UseSerialGC")
_MARKER = ".owpc-ltr-node"
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


def cluster_name(port: int) -> str:
    """The name of the cluster that a node on a port is, by which it is told from others."""
    return f"owpc-ltr-{port}"


def settings(node: LocalNode, folder: Path) -> str:
    """The opensearch.yml, or elasticsearch.yml, of a node.

    A nearly full disk must not turn indices read-only behind the user's back, so the disk
    thresholds are off; a really full one fails the write that needs it.
    """
    lines = {
        "cluster.name": cluster_name(node.port),
        "node.name": cluster_name(node.port),
        "network.host": "127.0.0.1",
        "http.port": node.port,
        "transport.port": node.transport_port or "9300-9400",
        "discovery.type": "single-node",
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        "path.data": _quoted(folder / "data"),
        "path.logs": _quoted(folder / "logs"),
    }
    if node.engine == ELASTICSEARCH:
        lines["xpack.security.enabled"] = "false"  # it listens on loopback only
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def jvm_options(heap: str, folder: Path) -> list[str]:
    """The options of the server's JVM; each engine's own ones are added."""
    # Serial takes a third less memory than G1 and is as fast, until pauses grow with the heap.
    # Both compilers: the first alone is healthy 0.7 s sooner, and searches half as fast.
    collector = "SerialGC" if heap_bytes(heap) < 2 * _UNITS["g"] else "G1GC"
    return [
        f"-Xms{heap}",
        f"-Xmx{heap}",
        f"-XX:+Use{collector}",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={folder}/logs/java-crash-%p.log",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Djna.tmpdir={folder / 'tmp'}",
    ]


def check_folder(folder: Path) -> None:
    """Raise UsageError for a folder with things in it that are not a node's."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _MARKER).is_file():
        raise UsageError(f"`data` {folder} holds other things: name a new or empty folder")


def prepare_folder(node: LocalNode, folder: Path) -> None:
    """Make the node's folders and settings."""
    for name in ("config", "data", "logs", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name).chmod(0o700)
    (folder / _MARKER).write_text("a node of owpc-ltr keeps its data here\n")
    config = folder / "config"
    (config / f"{node.engine}.yml").write_text(settings(node, folder))
    (config / "log4j2.properties").write_text(_LOGGING)
    if node.engine == ELASTICSEARCH:
        options = "".join(f"{option}\n" for option in jvm_options(node.heap, folder))
        (config / "jvm.options").write_text(options)
    log = folder / "logs" / "node.log"
    if log.exists():
        log.replace(log.with_name("node.previous.log"))


def command(node: LocalNode, java: Path, home: Path, folder: Path, mark: str) -> list[str]:
    """The node's command line. `mark` makes it recognisable."""
    if node.engine == ELASTICSEARCH:
        return _elasticsearch_command(java, home, folder, mark)
    if node.release.numbers < (3,):
        # A security manager lets only what the system loads lend the runtime its Thai.
        thai = f"-Xbootclasspath/a:{home}/lib/thai-locale.jar"
        by_release = ["-Djava.security.manager=allow", thai]
    else:
        by_release = ["--enable-native-access=ALL-UNNAMED"]
    return [
        str(java),
        *jvm_options(node.heap, folder),
        *by_release,
        "-Djava.awt.headless=true",
        "-Dfile.encoding=UTF-8",
        # A provider that is listed is asked before the runtime's own dictionary.
        f"-Djava.locale.providers={'SPI,CLDR' if is_stripped(java) else 'CLDR'}",
        "-Djna.nosys=true",
        # OpenSearch refuses to run as root; it asks JNA who it is, and does without JNA.
        *(["-Djna.nounpack=true"] if os.geteuid() == 0 else []),
        "-Dlog4j2.disable.jmx=true",
        "-Dlog4j.shutdownHookEnabled=false",
        "-Dio.netty.noUnsafe=true",
        "-Dio.netty.noKeySetOptimization=true",
        "-Dio.netty.recycler.maxCapacityPerThread=0",
        f"-Dopensearch.path.home={home}",
        f"-Dopensearch.path.conf={folder}/config",
        mark,
        "-cp",
        f"{home}/lib/*",
        "org.opensearch.bootstrap.OpenSearch",
    ]


def _elasticsearch_command(java: Path, home: Path, folder: Path, mark: str) -> list[str]:
    """The launcher's command line, as bin/elasticsearch of this version would give it.

    The server speaks with it over a pipe: it ends when the launcher does, however that ends.
    """
    small = [str(java), *_LAUNCHER_OPTIONS, mark]
    launcher = home / SERVER_LAUNCHER
    if launcher.is_dir():
        return [*small, "-cp", f"{launcher}/*", "org.elasticsearch.server.launcher.ServerLauncher"]
    return [
        *small,
        "-Dcli.name=server",
        f"-Dcli.script={home}/bin/elasticsearch",
        "-Dcli.libs=lib/tools/server-cli",
        f"-Des.path.home={home}",
        f"-Des.path.conf={folder}/config",
        "-Des.distribution.type=zip",
        "-Des.java.type=owpc-ltr",
        "-cp",
        f"{home}/lib/*:{home}/lib/cli-launcher/*",
        "org.elasticsearch.launcher.CliToolLauncher",
    ]


def environment(node: LocalNode, java: Path, home: Path, folder: Path) -> dict[str, str]:
    """All that a node inherits: secrets of this shell, or JAVA_TOOL_OPTIONS, stay here."""
    temporary = str(folder / "tmp")
    inherited = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    inherited |= {"ES_TMPDIR": temporary, "LIBFFI_TMPDIR": temporary}
    if node.engine == ELASTICSEARCH:
        # What bin/elasticsearch exports; releases without a launcher of their own do not read it.
        inherited |= {
            "JAVA": str(java),
            "JAVA_TYPE": "ES_JAVA_HOME",
            "ES_JAVA_HOME": str(java.parent.parent),
            "ES_HOME": str(home),
            "ES_PATH_CONF": str(folder / "config"),
            "ES_DISTRIBUTION_TYPE": "zip",
            "CLI_JAVA_OPTS": " ".join(_LAUNCHER_OPTIONS),
        }
    return inherited
