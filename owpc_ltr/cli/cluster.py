"""What commands need to reach a cluster: the options, and the connection they describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.output import warn

if TYPE_CHECKING:
    from owpc_ltr.engine.client import Engine
    from owpc_ltr.engine.stores import Store

Url = Annotated[
    str | None,
    typer.Option(
        help="The cluster; default: OWPC_LTR_URL, or the local node. Credentials come from "
        "OWPC_LTR_USER and OWPC_LTR_PASSWORD, or OWPC_LTR_API_KEY, never from here."
    ),
]
CaFile = Annotated[
    Path | None, typer.Option("--ca", help="Certificate authority of the cluster (PEM).")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Do not verify the cluster's certificate. Warns.")
]
StoreKind = Annotated[
    str | None,
    typer.Option(help="ltr-plugin or plugin-free; default: what the cluster has."),
]
StoreName = Annotated[
    str | None, typer.Option("--store", help="A named store; default: the default one.")
]
Index = Annotated[str, typer.Option(help="The index (or alias) to search.")]


def open_engine(url: str | None, ca: Path | None, insecure: bool) -> Engine:
    """The engine behind these options, the environment and the configuration file."""
    from owpc_ltr.engine.client import connect

    return connect(url, ca=ca, insecure=insecure, caution=warn)


def open_store(engine: Engine, kind: str | None, name: str | None) -> Store:
    """The store that the cluster has, or the one asked for."""
    from owpc_ltr.engine.stores import choose_store

    return choose_store(engine, kind, name)
