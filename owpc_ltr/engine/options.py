"""Parameters of jobs of a cluster, each described once, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.signatures import NO_MODEL, Argument, Help, Reads, Writes

if TYPE_CHECKING:
    import opensearchpy

    from owpc_ltr.data.external_features import ExternalTable
    from owpc_ltr.models.combined import ReorderingModel

PANEL = "Engine"
TO_CONNECT = "Connection"
"""Options of every command of a cluster, which `owpc-ltr --help` shows for all of them."""
DEFAULT_WINDOW = 100
"""How many of the query's best documents to rescore."""
IN_FLIGHT = 4
"""How many searches are under way at the same time."""

Url = Annotated[
    "str | opensearchpy.OpenSearch | None",
    Help(
        "The address of the cluster; default: OWPC_LTR_URL, or the local node. "
        "Credentials are read from OWPC_LTR_USER and OWPC_LTR_PASSWORD, or "
        "OWPC_LTR_API_KEY, never from the address.",
        panel=TO_CONNECT,
        metavar="URL",
        project="url",
    ),
    Argument.NAME,
]
StoreKind = Annotated[
    str | None,
    Help(
        "ltr-plugin or plugin-free; default: what the cluster has.",
        panel=TO_CONNECT,
        metavar="KIND",
    ),
    Argument.NAME,
]
StoreName = Annotated[
    str | None,
    Help("The store, where there are several; default: the unnamed one.", panel=TO_CONNECT),
    Argument.NAME,
]
Authority = Annotated[
    Path | str | None, Help("Certificate authority of the cluster (PEM).", panel=TO_CONNECT)
]
Insecure = Annotated[
    bool, Help("Do not verify the cluster's certificate. Warns.", panel=TO_CONNECT)
]


def params_from(texts: Sequence[str]) -> dict[str, Any]:
    """Parameters by name from texts of the command line, as `year=1979`."""
    from owpc_ltr.features.feature_set import named_params

    return named_params(texts)


Keywords = Annotated[str, Help("What the user types.", metavar="QUERY")]
OnlyIndex = Annotated[
    str | None,
    Help("The index (or alias); default: the only one of the cluster.", project="index"),
    Argument.NAME,
]
SearchIndex = Annotated[
    str | None,
    Help(
        "The index (or alias) to search; default: the model's, or the only one of the cluster.",
        project="index",
    ),
    Argument.NAME,
]
UploadedModel = Annotated[
    str | None, Help("The name that a model was uploaded under.", project="alias"), Argument.NAME
]
Reranker = Annotated[
    "ReorderingModel | Path | str | None",
    Reads("A reranker's file: the client reorders the first `window` documents.", absent=NO_MODEL),
]
ALL_FIELDS = "all-fields"
"""In place of a query template: a query of all text fields is what applications send."""
QueryTemplate = Annotated[
    Mapping[str, Any] | Path | str | None,
    Reads(
        "Your application's query or whole search (JSON), with {{keywords}} where the user's words "
        "go; all-fields: all text fields, which is the default.",
        cli=Path,
        unless=ALL_FIELDS,
        panel=PANEL,
        project="query_template",
    ),
]
Params = Annotated[
    Mapping[str, Any] | None,
    Help(
        'Parameters of the query and the features: `params={"year": 1979, "genre": "war"}`.',
        flag="--param",
        metavar="NAME=JSON|TEXT|@FILE",
        cli=list[str],
        parse=params_from,
        panel=PANEL,
    ),
]
Window = Annotated[
    int | None,
    Help(
        "How many of the query's best documents to rescore; default: the template's "
        "rescore.window_size, else 100.",
        min=1,
        panel=PANEL,
        project="window",
    ),
]
Size = Annotated[int | None, Help("How many results; default: the query's, or 10.", min=1)]
TitleField = Annotated[
    str | None,
    Help("The field of a document to show.", metavar="FIELD", project="title_field"),
]
ExtraFeatures = Annotated[
    "Sequence[ExternalTable | Path | str]",
    Reads(
        "Tables of features from outside the index (Parquet), with the keys query_id or query, "
        "document_id, or both.",
        cli=list[Path],
        panel="Data",
    ),
]
Tolerance = Annotated[
    float,
    Help(
        "The largest difference of scores that is accepted (relative error for scores above 1).",
        panel="Advanced",
    ),
]
MaxDrift = Annotated[
    float,
    Help(
        "How far a feature may drift in the mean, in standard deviations.", min=0, panel="Advanced"
    ),
]
MinProofCoverage = Annotated[
    float,
    Help(
        "The share of the model's judged documents, and of their queries, that must be "
        "in the index; 0: any.",
        min=0,
        max=1,
        panel="Advanced",
    ),
]
EvidenceFile = Annotated[
    Path | str | None,
    Writes(
        "Also write the comparison as evidence (JSON), for `cluster.upload(require=…)` "
        "and `cluster.models.promote(require=…)`."
    ),
]
Require = Annotated[
    Any,
    Reads(
        "Evidence that the model is better than what the alias serves now: the file that "
        "`compare_live(out=…)` or `experiment_status(out=…)` wrote.",
        cli=Path,
    ),
]
Unproven = Annotated[
    str | None,
    Help("Replace the champion without evidence, for this reason, which is recorded."),
]
