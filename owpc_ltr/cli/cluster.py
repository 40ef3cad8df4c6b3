"""The cluster and the store that a command works on, as its options name them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.output import warn

if TYPE_CHECKING:
    from owpc_ltr.engine.http.client import Engine
    from owpc_ltr.engine.store.base import Store


@dataclass(frozen=True)
class Cluster:
    """The options of every command that speaks to a cluster."""

    url: Annotated[
        str | None,
        typer.Option(
            help="The cluster; default: OWPC_LTR_URL, or the local node. Credentials come from "
            "OWPC_LTR_USER and OWPC_LTR_PASSWORD, or OWPC_LTR_API_KEY, never from here."
        ),
    ] = None
    ca: Annotated[
        Path | None, typer.Option("--ca", help="Certificate authority of the cluster (PEM).")
    ] = None
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Do not verify the cluster's certificate. Warns.")
    ] = False

    def connect(self) -> Engine:
        """The engine behind these options, the environment and the configuration file."""
        from owpc_ltr.engine.http.client import connect

        return connect(self.url, ca=self.ca, insecure=self.insecure, caution=warn)


@dataclass(frozen=True, kw_only=True)
class Place:
    """The options of every command that works on feature sets or models in a cluster."""

    store_kind: Annotated[
        str | None, typer.Option(help="ltr-plugin or plugin-free; default: what the cluster has.")
    ] = None
    store: Annotated[str | None, typer.Option(help="A named store; default: the default one.")] = (
        None
    )
    cluster: Cluster

    def open(self) -> tuple[Engine, Store]:
        """The engine, and in it the store that it has or the one asked for."""
        from owpc_ltr.engine.store.choose import choose_store

        engine = self.cluster.connect()
        return engine, choose_store(engine, self.store_kind, self.store)

    def open_store(self) -> Store:
        """The store alone, for commands that ask the engine nothing else."""
        return self.open()[1]
