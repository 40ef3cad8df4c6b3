"""Workbench: judgment lists that a cluster's Search Relevance Workbench keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr.data.judgments.types import Duplicates, Judgments
    from owpc_ltr.engine.cluster import Cluster


def judgments(
    cluster: Cluster,
    name: str,
    *,
    duplicates: Duplicates = "refuse",
    skip_unjudged: bool = False,
) -> Judgments:
    """The judgments of a list, by its id; the text of a query is its id.

    `duplicates` and `skip_unjudged` are as for `read_judgments`, and so is what is refused.
    Raises Refused where the cluster has no workbench.
    """
    from owpc_ltr.api.judgments import judgments_of
    from owpc_ltr.engine.search.workbench_list import fetch_list
    from owpc_ltr.errors import give_warnings

    found = judgments_of(fetch_list(cluster.engine, name), duplicates, skip_unjudged)
    give_warnings(found.notes)
    return found
