"""`judge fetch`: judgment lists that the Search Relevance Workbench of a cluster keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from owpc_ltr.data.options import DEFAULT_FORMAT, DuplicatePolicy, JudgmentFormat, SkipUnjudged
from owpc_ltr.signatures import NO_STORE, Help, Writes, job

if TYPE_CHECKING:
    from owpc_ltr.data.judgments.queries import Judgments
    from owpc_ltr.engine.cluster import Cluster


@job
def judgments(
    cluster: Annotated[Cluster, NO_STORE],
    name: Annotated[
        str,
        Help("The id of a list in the Search Relevance Workbench.", metavar="JUDGMENT_LIST"),
    ],
    *,
    out: Annotated[Path | str | None, Writes("The file of the judgments.", required=True)] = None,
    to: JudgmentFormat = DEFAULT_FORMAT,
    duplicates: DuplicatePolicy = "refuse",
    skip_unjudged: SkipUnjudged = False,
) -> Judgments:
    """Fetch a judgment list of OpenSearch's Search Relevance Workbench.

    The texts of queries, which have no ids there, are their ids.

    Raises Refused if the cluster has no workbench.
    """
    from owpc_ltr.engine.search.workbench_list import fetch_list
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.host.judgment_lists import check_policy, judgments_of, write_judgments

    check_policy(duplicates)
    found = judgments_of(fetch_list(cluster.engine, name), duplicates, skip_unjudged)
    give_warnings(found.notes)
    if out is not None:
        write_judgments(found, out, format=to)
    return found
