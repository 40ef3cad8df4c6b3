"""The options of the command line that say which cluster is meant, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from owpc_ltr.signatures import Help

if TYPE_CHECKING:
    import elasticsearch
    import opensearchpy

PANEL = "Engine"

Url = Annotated[
    "str | opensearchpy.OpenSearch | elasticsearch.Elasticsearch | None",
    Help(
        "The cluster; default: OWPC_LTR_URL, or the local node. Credentials come from "
        "OWPC_LTR_USER and OWPC_LTR_PASSWORD, or OWPC_LTR_API_KEY, never from here.",
        panel=PANEL,
        metavar="URL",
    ),
]
StoreKind = Annotated[
    str | None,
    Help("ltr-plugin or plugin-free; default: what the cluster has.", panel=PANEL, metavar="KIND"),
]
StoreName = Annotated[
    str | None, Help("A named store; default: the default one.", panel=PANEL, metavar="NAME")
]
Authority = Annotated[
    Path | str | None, Help("Certificate authority of the cluster (PEM).", panel=PANEL)
]
Insecure = Annotated[bool, Help("Do not verify the cluster's certificate. Warns.", panel=PANEL)]
