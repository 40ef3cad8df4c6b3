"""`owpc-ltr engine`: a real OpenSearch or Elasticsearch node on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import bars, print_json
from owpc_ltr.cli.streams import nobody_reads
from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.shown import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from owpc_ltr.api.results import NodeStatus, Report

app = typer.Typer(
    help="A real OpenSearch or Elasticsearch on this machine.",
)


class Kind(StrEnum):
    """The engines that can be started."""

    opensearch = "opensearch"
    elasticsearch = "elasticsearch"


Port = Annotated[
    int | None, typer.Option(help="The port that names the node; may be left out for the only one.")
]


@app.command()
def start(
    *,
    port: Annotated[int, typer.Option(help="Where the node answers; it names the node.")] = 9200,
    transport_port: Annotated[
        int | None, typer.Option(help="Its second port; a free one from 9300 on if left out.")
    ] = None,
    nodes: Annotated[
        int, typer.Option(help="How many nodes: a cluster, whose replicas and failures are real.")
    ] = 1,
    heap: Annotated[str, typer.Option(help="Memory for each node, as 512m or 2g.")] = "512m",
    data: Annotated[
        Path | None, typer.Option(help="Folder for its indices, logs and temporary files.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(help="Folder of the assembled engine; made if need be.")
    ] = None,
    java: Annotated[
        Path | None,
        typer.Option(help="A Java that fits; found on JAVA_HOME or PATH, or bundled."),
    ] = None,
    engine: Annotated[
        Kind, typer.Option(help="Elasticsearch comes under Elastic's own licences.")
    ] = Kind.opensearch,
    version: Annotated[
        str | None,
        typer.Option(
            help="OpenSearch 2.13 to 3, Elasticsearch 8.8 to 9; default: 3.8.0, or 9.2.0."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every file of the home against its SHA-256.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a node, or several as one, and wait for their health.

    The first start downloads about 60 MB (Elasticsearch: 100 MB); later ones need no network and
    take seconds.
    """
    from owpc_ltr_node import local_node as local

    wanted = local.LocalNode(
        port=port,
        transport_port=transport_port,
        heap=heap,
        folder=data,
        home=home,
        java=java,
        engine=engine.value,
        nodes=nodes,
        version=version,
        verify=verify,
    )
    with _reporting() as report:
        found = local.start(wanted, report)
    _print([found], as_json=as_json, single=True)


@app.command()
def stop(port: Port = None, as_json: Json = False) -> None:
    """End the node, or every node of the cluster, and no other process.

    Its indices stay for the next start.
    """
    from owpc_ltr_node import local_node as local

    with _reporting() as report:
        stopped = local.stop(port, report)
    _print([stopped], as_json=as_json, single=True)


@app.command()
def status(port: Port = None, as_json: Json = False) -> None:
    """Tell how the node is; without a port, how every node is.

    With a port, exit code 4 tells that the node does not run.
    """
    from owpc_ltr_node import local_node as local

    found = local.statuses() if port is None else [local.status(port)]
    _print(found, as_json=as_json, single=port is not None)
    if port is not None and not found[0].running:
        raise typer.Exit(EngineUnavailable.exit_code)


@app.command()
def logs(
    port: Annotated[int, typer.Option(help="The port that names the node.")] = 9200,
    node: Annotated[int, typer.Option(min=1, help="Which node of a cluster, from 1 on.")] = 1,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many lines.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")
    ] = False,
) -> None:
    """Print the end of a node's log, also of one that has ended."""
    from owpc_ltr_node import local_node as local

    with local.log_file(port, node).open(errors="replace") as log:
        for line in log.readlines()[-lines or sys.maxsize :]:
            sys.stdout.write(line)
        while follow and not nobody_reads():
            sys.stdout.write(log.read())
            sys.stdout.flush()
            time.sleep(0.3)


def _print(nodes: list[NodeStatus], *, as_json: bool, single: bool) -> None:
    if as_json:
        listed = [asdict(node) for node in nodes]
        print_json(listed[0] if single else {"nodes": listed})
    elif not nodes:
        typer.echo("no local node; start one: owpc-ltr engine start")
    for node in [] if as_json else nodes:
        typer.echo(_line(node))


def _line(node: NodeStatus) -> str:
    if node.state == "stopped":
        return f"{node.url}  stopped"
    if node.state == "died":
        return f"{node.url}  ended without a stop; log: {node.log}"
    plugin = "with" if node.ltr_plugin else "without"
    return (
        f"{node.url}  {node.health or 'not answering'}, {_of_cluster(node)}{node.engine} "
        f"{node.version} {plugin} the LTR plugin, pid {node.pid}, heap {node.heap}, data "
        f"{_megabytes(node.data_bytes)}"
    )


def _of_cluster(node: NodeStatus) -> str:
    if node.nodes == 1:
        return ""
    if node.alive == node.nodes:
        return f"{node.nodes} nodes, "
    return f"{node.alive} of {node.nodes} nodes (a log of one that ended: {node.log}), "


def _megabytes(size: int | None) -> str:
    return "?" if size is None else f"{size / 1e6:.1f} MB"


@contextmanager
def _reporting() -> Iterator[Report]:
    """News on standard error: lines, and on a terminal a bar for what takes long."""
    with bars(spinning=True) as drawn:
        yield _Terminal(drawn)


class _Terminal:
    """Draws the news of a long task."""

    def __init__(self, drawn: Bars) -> None:
        self._bars = drawn
        self._task = drawn.add_task("", total=None)

    def say(self, line: str) -> None:
        self._bars.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def advance(self, task: str, done: float, total: float) -> None:
        self._bars.update(
            self._task, description=printable(task), completed=done, total=total or None
        )
