"""`judge push`: judgments, their queries and a ranker into the Search Relevance Workbench.

The workbench's dashboards then show our ranker beside others, on our judgments. Queries carry their
parameters as custom fields, which the workbench holds as texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult
from owpc_ltr.data.judgment_tables import import_body
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.engine.options import QueryTemplate, SearchIndex, UploadedModel
from owpc_ltr.engine.search.request import request
from owpc_ltr.engine.workbench import ask_workbench
from owpc_ltr.errors import EngineUnavailable, UsageError, give_warnings
from owpc_ltr.files.strict_json import json_text
from owpc_ltr.host.judgment_lists import read_judgments
from owpc_ltr.signatures import TYPED_ONLY, Help, Reads, job

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

_LONGEST = 50
"""Characters of a name in the workbench."""
_SEARCH_TEXT = "%SearchText%"


@dataclass(frozen=True, repr=False)
class PushedJudgments(BlockResult):
    """What was put into the workbench, and the ids that it gave; '' for what was not."""

    name: str
    judgments: str
    query_set: str
    search_configuration: str = ""

    def as_dict(self) -> dict[str, str]:
        """The ids as JSON."""
        return dict(vars(self))

    def _blocks(self) -> Iterator[Block]:
        yield f"in the workbench as '{self.name}':"
        yield f"judgment list {self.judgments}"
        yield f"query set {self.query_set}"
        if self.search_configuration:
            yield f"search configuration {self.search_configuration}"


@job(changes_cluster=True)
def judge_push(
    cluster: Cluster,
    judgments: Annotated[
        Judgments | Path | str, Reads("Judgments, in any format that is read.", cli=Path)
    ],
    *,
    name: Annotated[str, Help("What all of it is called in the workbench.", metavar="NAME")],
    model: Annotated[UploadedModel, TYPED_ONLY] = None,
    index: SearchIndex = None,
    query_template: Annotated[QueryTemplate, TYPED_ONLY] = None,
) -> PushedJudgments:
    """Put judgments, their queries and a ranker into the workbench.

    OpenSearch's Search Relevance Workbench gets a judgment list, a query set whose queries have
    their parameters as custom fields, and, with `model`, a search configuration: the request that
    an application sends. Its experiments then compare our ranker with others.

    Raises Refused if the cluster has no workbench, BadInput where two queries have the same text.
    """
    if not name.strip() or len(name) > _LONGEST:
        raise UsageError(
            f"`name` has 1 to {_LONGEST} characters in the workbench: '{name}' has {len(name)}"
        )
    if isinstance(judgments, Path | str):
        judgments = read_judgments(judgments)
        give_warnings(judgments.notes)
    body = import_body(judgments) | {"name": name}
    queries = {
        "name": name,
        "description": "Written by owpc-ltr.",
        "sampling": "manual",
        "querySetQueries": [_query(query.params) for query in judgments.queries],
    }
    configuration = None
    if model is not None or query_template is not None:
        # Asked first: what cannot be searched leaves nothing half-pushed.
        configuration = _configuration(cluster, name, model, index, query_template)
    ids = [_put(cluster, "judgments", body), _put(cluster, "query_sets", queries)]
    if configuration is not None:
        ids.append(_put(cluster, "search_configurations", configuration))
    return PushedJudgments(name, *ids)


def _query(params: Mapping[str, Any]) -> dict[str, str]:
    further = {
        name: value if isinstance(value, str) else json_text(value)
        for name, value in params.items()
        if name not in {"query", "keywords"}
    }
    return {"queryText": str(params.get("query", "")), **further}


def _configuration(
    cluster: Cluster,
    name: str,
    model: str | None,
    index: str | None,
    query_template: QueryTemplate,
) -> dict[str, str]:
    _, uploaded = cluster.uploaded(model)
    body = request(cluster, _SEARCH_TEXT, model=model, index=index, query_template=query_template)
    return {
        "name": name,
        "index": cluster.index_of(uploaded, index),
        "query": json.dumps(body, ensure_ascii=False),
    }


def _put(cluster: Cluster, what: str, body: dict[str, Any]) -> str:
    """The id of what was put. Raises Refused where the cluster has no workbench."""
    instead = "write the list with `judge_convert(to='srw')`"
    answer = ask_workbench(cluster.engine, "PUT", what, instead, body)
    fields = answer.items() if isinstance(answer, dict) else ()
    name = next((value for key, value in fields if key.endswith("_id") and key != "_id"), None)
    if not isinstance(name, str):
        raise EngineUnavailable(f"the workbench gives no id for the {what}: look at its lists")
    return name
