"""`owpc-ltr engine`: start and stop a node on this machine, tell how it is, print its log."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.plain_text import printable
from owpc_ltr.signatures import Help, Progress, job, silent
from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, USUAL, VECTORS
from owpc_ltr_node.report import Report
from owpc_ltr_node.settings import DEFAULT_HEAP, DEFAULT_PORT

if TYPE_CHECKING:
    from owpc_ltr_node.local_node import NodeStatus

Port = Annotated[
    "int | None", Help("The port that names the node; may be left out for the only one.")
]


@job
def start(
    *,
    port: Annotated[int, Help("The port of the node, which also names it.")] = DEFAULT_PORT,
    transport_port: Annotated[
        int | None, Help("Its transport port; default: a free one from 9300 on.")
    ] = None,
    heap: Annotated[str, Help("Memory for the node, as 512m or 2g.")] = DEFAULT_HEAP,
    data: Annotated[
        Path | str | None,
        Help("Folder for its indices, logs and temporary files.", metavar="FOLDER"),
    ] = None,
    home: Annotated[
        Path | str | None,
        Help("Folder of the installed engine; made if it does not exist.", metavar="FOLDER"),
    ] = None,
    java: Annotated[
        Path | str | None,
        Help("The Java to use; default: that of JAVA_HOME or PATH, or the bundled one."),
    ] = None,
    engine: Annotated[
        Literal["opensearch", "elasticsearch"],
        Help("Which engine; Elasticsearch comes under Elastic's own licences."),
    ] = "opensearch",
    version: Annotated[
        str | None,
        Help(
            "OpenSearch 2.13 to 3, Elasticsearch 8.8 to 9; default: "
            f"{USUAL[OPENSEARCH]}, or {USUAL[ELASTICSEARCH]}."
        ),
    ] = None,
    with_vectors: Annotated[
        bool,
        Help(
            f"With k-NN (its engine lucene) and neural search; OpenSearch {VECTORS} if no "
            "version is named."
        ),
    ] = False,
    verify: Annotated[bool, Help("Check every file of the engine against its SHA-256.")] = False,
    progress: Progress = silent,
) -> NodeStatus:
    """Start a node, and wait until it is ready.

    The first start downloads about 60 MB (Elasticsearch: 100 MB); later ones need no network and
    take seconds.

    Raises EngineUnavailable where it does not start, and leaves no process behind then.
    """
    from owpc_ltr_node.local_node import start as start_node
    from owpc_ltr_node.settings import LocalNode

    node = LocalNode(
        port=port,
        transport_port=transport_port,
        heap=heap,
        folder=None if data is None else Path(data),
        home=None if home is None else Path(home),
        java=None if java is None else Path(java),
        engine=engine,
        version=version,
        verify=verify,
        with_vectors=with_vectors,
    )
    return start_node(node, _printed(progress))


@job
def stop(*, port: Port = None, progress: Progress = silent) -> NodeStatus:
    """Stop a node.

    Its indices stay for the next start.
    """
    from owpc_ltr_node.local_node import stop as stop_node

    return stop_node(port, _printed(progress))


@job
def status(*, port: Port = None) -> NodeList:
    """Show the state of a node; without a port, of every node.

    With a port, the exit code is 4 if the node does not run.
    """
    from owpc_ltr_node import local_node

    if port is None:
        return NodeList(tuple(local_node.statuses()))
    return NodeList((local_node.status(port),), port)


@job
def logs(
    *,
    port: Annotated[int, Help("The port that names the node.")] = DEFAULT_PORT,
    lines: Annotated[int, Help("How many lines; 0: all.", short="-n", min=0)] = 50,
    follow: Annotated[
        bool, Help("Print new lines as they come, until Ctrl-C.", short="-f")
    ] = False,
) -> None:
    """Print the end of a node's log, also of one that has ended."""
    from owpc_ltr.cli import nobody_reads
    from owpc_ltr_node.local_node import log_file

    with log_file(port).open(errors="replace") as log:
        for line in log.readlines()[-lines or sys.maxsize :]:
            sys.stdout.write(line)
        while follow and not nobody_reads():
            sys.stdout.write(log.read())
            sys.stdout.flush()
            time.sleep(0.3)


@dataclass(frozen=True)
class NodeList:
    """The nodes of this machine; of a `port` that was named, its node alone."""

    nodes: tuple[NodeStatus, ...]
    port: int | None = None

    @property
    def refusal(self) -> EngineUnavailable | None:
        """The error of the command where the node on the port does not run."""
        if self.port is None or self.nodes[0].running:
            return None
        return EngineUnavailable(
            f"no node runs on port {self.port}: start it with owpc-ltr engine start --port "
            f"{self.port}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The node on the port, or all nodes."""
        if self.port is not None:
            return self.nodes[0].as_dict()
        return {"nodes": [asdict(node) for node in self.nodes]}

    def __str__(self) -> str:
        """One line per node."""
        if not self.nodes:
            return "no local node; start one: owpc-ltr engine start"
        return "\n".join(map(str, self.nodes))


def _printed(progress: Progress) -> Report:
    """News of a start: lines on standard error, and how far it is."""
    return Report(lambda line: print(printable(line), file=sys.stderr), progress)
