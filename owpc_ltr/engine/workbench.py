"""`judge convert`: judgments of a file, or of the Search Relevance Workbench of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import (
    DEFAULT_FORMAT,
    Columns,
    DuplicatePolicy,
    JudgmentFormat,
    Labels,
    SkipUnjudged,
    Topics,
)
from owpc_ltr.errors import BadInput, Refused, UsageError, give_warnings
from owpc_ltr.host.commands import NO_STORE, ConnectsWith
from owpc_ltr.host.judgment_lists import check_policy, judgments_of, read_judgments, write_judgments
from owpc_ltr.signatures import Argument, Help, Reads, Writes, job

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import JudgmentLines, Judgments
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.cluster import Cluster

_WORKBENCH = "workbench:"
_BASE = "/_plugins/_search_relevance"


@job
def judgments(
    cluster: Annotated[Cluster, NO_STORE],
    name: Annotated[
        str,
        Help("The id of a list in the Search Relevance Workbench.", metavar="JUDGMENT_LIST"),
        Argument.NAME,
    ],
    *,
    out: Annotated[Path | str | None, Writes("The file of the judgments.", required=True)] = None,
    to: JudgmentFormat = DEFAULT_FORMAT,
    duplicates: DuplicatePolicy = "refuse",
    skip_unjudged: SkipUnjudged = False,
) -> Judgments:
    """Fetch a judgment list of OpenSearch's Search Relevance Workbench.

    Queries have no ids there: their texts are used.

    Raises Refused if the cluster has no workbench.
    """
    check_policy(duplicates)
    judged = judgments_of(fetch_list(cluster.engine, name), duplicates, skip_unjudged)
    give_warnings(judged.notes)
    if out is not None:
        write_judgments(judged, out, format=to)
    return judged


@job
def convert_judgments(
    judgments: Annotated[
        Path | str,
        Reads(
            "Judgments, in any format that an installed plugin reads; or workbench:ID, a list of "
            "OpenSearch's Search Relevance Workbench.",
            unless=_WORKBENCH,
        ),
    ],
    *,
    out: Annotated[Path | str, Writes("The file of the judgments.")],
    to: JudgmentFormat = DEFAULT_FORMAT,
    columns: Columns = None,
    labels: Labels = None,
    topics: Topics = None,
    duplicates: DuplicatePolicy = "refuse",
    skip_unjudged: SkipUnjudged = False,
    cluster: Annotated[Cluster | None, NO_STORE, ConnectsWith("judgments", _WORKBENCH)] = None,
) -> Judgments:
    """Write judgments in another format.

    Warns of what the format cannot hold (ids, parameters, weights); documents and grades are kept,
    or nothing is written. Lists of the workbench have no ids of queries: their texts are used.
    """
    how: Any = {"duplicates": duplicates, "skip_unjudged": skip_unjudged}
    if cluster is not None:
        for name, value in {"columns": columns, "labels": labels, "topics": topics}.items():
            if value is not None:
                raise UsageError(f"`{name}` is for files, and this is a list of a workbench")
        name = str(judgments).removeprefix(_WORKBENCH)
        return cluster.judgments(name, out=out, to=to, **how)
    read = read_judgments(judgments, topics=topics, columns=columns, labels=labels, **how)
    give_warnings(read.notes)
    write_judgments(read, out, format=to)
    return read


def fetch_list(engine: Engine, name: str) -> JudgmentLines:
    """The ratings of a list by its id.

    Raises BadInput where there is no such list, or it is not complete, Refused where the cluster
    has no workbench.
    """
    from urllib.parse import quote

    from owpc_ltr.data.judgment_tables import lines_of_list
    from owpc_ltr.engine.client.responses import EngineRefusal, SearchAnswer
    from owpc_ltr.names import check_name

    check_name("judgment list", name)
    path = f"judgments/{quote(name, safe='')}"
    try:
        answer = ask_workbench(engine, "GET", path, "give an exported file to judge convert")
    except EngineRefusal as refusal:
        if refusal.status == 404:
            raise _absent(name) from refusal
        raise
    if not SearchAnswer.read(answer, {}, f"the judgment list '{name}'").hits:
        raise _absent(name)
    return lines_of_list(answer, Path(f"judgments/{name}"))


def ask_workbench(engine: Engine, method: str, path: str, instead: str, body: object = None) -> Any:
    """The workbench's answer; `instead` says what to do without one.

    Raises Refused where the cluster has no workbench, NotAllowed where it is off.
    """
    from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed

    try:
        return engine.request(method, f"{_BASE}/{path}", body=body)
    except NotAllowed as error:
        raise NotAllowed(
            f"{error}; or the workbench is off: set plugins.search_relevance.workbench_enabled to "
            "true"
        ) from error
    except EngineRefusal as refusal:
        if refusal.status in {400, 405} and "no handler" in refusal.reason:
            raise Refused(
                "this cluster has no Search Relevance Workbench, which is a plugin of OpenSearch "
                f"3.1 and later: install it, or {instead}"
            ) from refusal
        raise


def _absent(name: str) -> BadInput:
    return BadInput(
        f"the workbench has no judgment list '{name}': GET {_BASE}/judgments names those that "
        "it has"
    )
