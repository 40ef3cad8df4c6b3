"""Parameters of jobs of a cluster, each described once: which cluster, and what is searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.signatures import NO_MODEL, Help, Reads

if TYPE_CHECKING:
    import elasticsearch
    import opensearchpy

    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.models.reordering import ReorderingModel

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


def params_from(texts: Sequence[str]) -> dict[str, Any]:
    """Parameters by name from texts of the command line, as `year=1979`."""
    from owpc_ltr.features.parameters import named_params

    return named_params(texts)


SearchIndex = Annotated[
    str | None,
    Help(
        "The index (or alias) to search; default: what the model or cluster knows.", metavar="NAME"
    ),
]
UploadedModel = Annotated[
    str | None, Help("The name that a model was uploaded under.", metavar="NAME")
]
Reranker = Annotated[
    "ReorderingModel | Path | str | None",
    Reads("A reranker, FILE.json: the client reorders the engine's window.", absent=NO_MODEL),
]
QueryTemplate = Annotated[
    Mapping[str, Any] | Path | str | None,
    Reads(
        "Your application's query or whole search (JSON), with {{keywords}} where the user's words "
        "go; default: all text fields.",
        cli=Path,
    ),
]
Params = Annotated[
    Mapping[str, Any] | None,
    Help(
        "A parameter of the query and the features, NAME=VALUE: a number, a list or true as in "
        "JSON, else text; NAME=@FILE for what a file holds as JSON; may be repeated.",
        flag="--param",
        metavar="NAME=VALUE",
        cli=list[str],
        parse=params_from,
    ),
]
Window = Annotated[int, Help("How many of the best documents are rescored.", min=1)]
Size = Annotated[int | None, Help("How many results; default: the query's, or 10.", min=1)]
TitleField = Annotated[str | None, Help("The field to show.", metavar="FIELD")]
ExtraFeatures = Annotated[
    "Sequence[ExternalTable | Path | str]",
    Reads(
        "Features from outside the index (Parquet), by query_id or query, document_id, or both; "
        "may be repeated.",
        cli=list[Path],
    ),
]
Tolerance = Annotated[
    float,
    Help("The largest difference of scores that is accepted (relative error for scores above 1)."),
]
MaxDrift = Annotated[
    float,
    Help("How far a feature may drift in the mean, in standard deviations.", min=0),
]
MinProofCoverage = Annotated[
    float,
    Help(
        "The least share of the model's judged documents, and queries, found in the index; 0: any.",
        min=0,
        max=1,
    ),
]
