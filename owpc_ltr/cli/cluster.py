"""The cluster and the store that a command works on, as its options name them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.output import warn
from owpc_ltr.engine.cluster import Cluster, connect


@dataclass(frozen=True)
class ClusterOptions:
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

    def connect(self, store_kind: str | None = None, store: str | None = None) -> Cluster:
        """The cluster behind these options, the environment and the configuration file."""
        return connect(
            self.url,
            store_kind=store_kind,
            store=store,
            ca=self.ca,
            insecure=self.insecure,
            caution=warn,
        )


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """The options of every command that works on feature sets or models in a cluster."""

    store_kind: Annotated[
        str | None, typer.Option(help="ltr-plugin or plugin-free; default: what the cluster has.")
    ] = None
    store: Annotated[str | None, typer.Option(help="A named store; default: the default one.")] = (
        None
    )
    cluster: ClusterOptions

    def connect(self) -> Cluster:
        """The cluster, with the store that it has or the one asked for."""
        return self.cluster.connect(self.store_kind, self.store)
