"""Starting the node's process, and reading from its log why it ended."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable, UsageError
from owpc_ltr.files.output import write_atomically
from owpc_ltr_node.account import Account, give
from owpc_ltr_node.config import UNITS, LocalNode, heap_bytes
from owpc_ltr_node.elasticsearch_process import elasticsearch_command, jvm_options
from owpc_ltr_node.java import Java
from owpc_ltr_node.places import make_folder
from owpc_ltr_node.release import ELASTICSEARCH
from owpc_ltr_node.seats import Seat, meeting, name_of

MARKER = ".owpc-ltr-node"
MAIN_CLASS = "org.opensearch.bootstrap.OpenSearch"
LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
# Most telling first: each names the cause where a later one names only what failed of it.
TELLING = (
    r"No space left on device",
    r"OutOfMemoryError|insufficient memory|Could not reserve enough space",
    r"Address already in use",
    r"failed to obtain node lock",
    r"cannot downgrade|IndexFormatTooNew|incompatible with",
    r"AccessDenied|Permission denied|Read-only file system",
    r"FindException",
    r"^Likely root cause",
    r"^Error: |^Unrecognized |^Error occurred|^Exception in thread",
    r"^Caused by",
    r"ERROR|Exception",
)


def settings(node: LocalNode, folder: Path, seats: Sequence[Seat] = ()) -> str:
    """The opensearch.yml, or elasticsearch.yml, of a node, alone or in one of the `seats`.

    A nearly full disk must not turn indices read-only behind the user's back, so the disk
    thresholds are off; a really full one fails the write that needs it.
    """
    own = next((seat for seat in seats if seat.folder == folder), None)
    own = own or Seat(1, node.port, node.transport_port, folder)
    seats = seats or [own]
    lines = {
        "cluster.name": f"owpc-ltr-{seats[0].port}",
        "node.name": name_of(own, seats),
        "network.host": "127.0.0.1",
        "http.port": node.port,
        "transport.port": node.transport_port or "9300-9400",
        **meeting(seats, node.engine),
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        "path.data": _quoted(folder / "data"),
        "path.logs": _quoted(folder / "logs"),
    }
    if node.engine == ELASTICSEARCH:
        lines["xpack.security.enabled"] = "false"  # it listens on loopback only
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def check_folder(folder: Path) -> None:
    """Raise UsageError for a folder with things in it that are not a node's."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise UsageError(
            f"--data {folder} holds other things, and a node would change their owner: name a "
            "new or empty folder"
        )


def mark_folder(folder: Path) -> None:
    """Make a folder, and mark it as one of ours."""
    make_folder(folder)
    write_atomically(folder / MARKER, b"a node of owpc-ltr keeps its data here\n")


def prepare_folder(
    node: LocalNode, folder: Path, account: Account | None, seats: Sequence[Seat] = ()
) -> None:
    """Make the node's folders and settings; what it writes to belongs to its account."""
    mark_folder(folder)
    for name in ("config", "data", "logs", "tmp"):
        made = make_folder(folder / name)
        give(made, account)
        made.chmod(0o700)
    config = folder / "config"
    write_atomically(config / f"{node.engine}.yml", settings(node, folder, seats).encode())
    if node.engine == ELASTICSEARCH:
        options = jvm_options(node.heap, _collector(node.heap), folder)
        write_atomically(config / "jvm.options", options.encode())
    write_atomically(config / "log4j2.properties", LOGGING.encode())
    log = folder / "logs" / "node.log"
    if os.path.lexists(log):
        log.replace(log.with_name("node.previous.log"))


def command(node: LocalNode, java: Java, home: Path, folder: Path, token: str) -> list[str]:
    """The node's command line. `token` makes it recognisable."""
    if node.engine == ELASTICSEARCH:
        return elasticsearch_command(java, home, folder, token)
    managed = ["-Djava.security.manager=allow"] if node.release.numbers < (3,) else []
    return [
        str(java.program),
        f"-Xms{node.heap}",
        f"-Xmx{node.heap}",
        # Both compilers: the first alone is healthy 0.7 s sooner, and searches half as fast.
        _collector(node.heap),
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={folder}/logs/java-crash-%p.log",
        "-Djava.awt.headless=true",
        "-Dfile.encoding=UTF-8",
        # A provider that is listed is asked before the runtime's own dictionary.
        f"-Djava.locale.providers={'CLDR' if java.breaks_thai else 'SPI,CLDR'}",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Djna.tmpdir={folder / 'tmp'}",
        "-Djna.nosys=true",
        "-Dlog4j2.disable.jmx=true",
        "-Dlog4j.shutdownHookEnabled=false",
        "-Dio.netty.noUnsafe=true",
        "-Dio.netty.noKeySetOptimization=true",
        "-Dio.netty.recycler.maxCapacityPerThread=0",
        # Only 3.0 and later reach native code by what Java 21 brought; 17 warns of the option.
        *(managed or ["--enable-native-access=ALL-UNNAMED"]),
        f"-Dopensearch.path.home={home}",
        f"-Dopensearch.path.conf={folder}/config",
        f"-Dowpc_ltr.node={token}",
        "-cp",
        f"{home}/lib/*",
        MAIN_CLASS,
    ]


def launch(
    line: Sequence[str],
    folder: Path,
    account: Account | None,
    start_in: Path | None = None,
    more: Mapping[str, str] | None = None,
) -> int:
    """Start the process, detached from this one; its pid. Its output goes to the log.

    `more` is what its environment has besides.
    """
    identity = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    # Nothing is inherited: secrets of this shell, or JAVA_TOOL_OPTIONS, have no business there.
    environment = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    environment |= {"ES_TMPDIR": str(folder / "tmp"), "LIBFFI_TMPDIR": str(folder / "tmp")}
    environment |= more or {}
    # Never through a link: the folder belongs to the node's account, and we may be root.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(folder / "logs" / "node.log", flags, 0o640), "wb") as log:
        try:
            process = subprocess.Popen(  # type: ignore[call-overload]  # noqa: S603
                line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=start_in or folder / "tmp",
                env=environment,
                start_new_session=True,
                umask=0o077,
                **identity,
            )
        except (subprocess.SubprocessError, OSError) as error:
            name = account.name if account else "you"
            raise EngineUnavailable(
                f"cannot start {line[0]} as '{name}': {error}; run owpc-ltr as another user"
            ) from error
    # Reaped when it ends, for as long as this process lives; init takes over after that.
    threading.Thread(target=process.wait, daemon=True).start()
    return int(process.pid)


def decisive_line(log: Path) -> str:
    """The line of the log that tells why the node ended, shortened."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    except OSError:
        return "it left no log"
    told = [line for line in lines if line]
    for pattern in TELLING:
        found = next((line for line in told if re.search(pattern, line)), None)
        if found:
            return found[:300].rstrip(";,. ")
    return told[-1][:300] if told else "its log is empty"


def advice(line: str) -> str:
    """What to do about a decisive line, after a semicolon; nothing where nobody knows."""
    found = (words for pattern, words in _ADVICE.items() if re.search(pattern, line))
    return next((f"; {words}" for words in found), "")


_ADVICE = {
    r"FindException: Module": "this Java is stripped of a module: name a whole JDK with --java",
    r"cannot downgrade|IndexFormatTooNew|incompatible with": "a later version has upgraded the "
    "data: name another folder with --data, or start that version",
    r"Address already in use": "name another --port or --transport-port",
}


def _collector(heap: str) -> str:
    """Serial takes a third less memory than G1 and is as fast, until pauses grow with the heap."""
    return "-XX:+UseSerialGC" if heap_bytes(heap) < 2 * UNITS["g"] else "-XX:+UseG1GC"


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
