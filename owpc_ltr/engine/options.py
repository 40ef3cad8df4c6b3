"""Parameters of jobs of a cluster, each described once, and what omitted ones are.

An omitted argument is inferred where only one value can be meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import NO_MODEL, Help, Reads

if TYPE_CHECKING:
    import elasticsearch
    import opensearchpy

    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.stores import Store
    from owpc_ltr.models.reordering import ReorderingModel

PANEL = "Engine"
_OURS = "owpc-ltr"

Url = Annotated[
    "str | opensearchpy.OpenSearch | elasticsearch.Elasticsearch | None",
    Help(
        "The address of the cluster; default: OWPC_LTR_URL, or the local node. "
        "Credentials are read from OWPC_LTR_USER and OWPC_LTR_PASSWORD, or "
        "OWPC_LTR_API_KEY, never from the address.",
        panel=PANEL,
        metavar="URL",
    ),
]
StoreKind = Annotated[
    str | None,
    Help("ltr-plugin or plugin-free; default: what the cluster has.", panel=PANEL, metavar="KIND"),
]
StoreName = Annotated[
    str | None,
    Help(
        "The store, where there are several; default: the unnamed one.", panel=PANEL, metavar="NAME"
    ),
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
        "The index (or alias) to search; default: the model's, or the only one of the cluster.",
        metavar="NAME",
    ),
]
UploadedModel = Annotated[
    str | None, Help("The name that a model was uploaded under.", names="model", metavar="NAME")
]
Reranker = Annotated[
    "ReorderingModel | Path | str | None",
    Reads("A reranker's file: the client reorders the first --window documents.", absent=NO_MODEL),
]
QueryTemplate = Annotated[
    Mapping[str, Any] | Path | str | None,
    Reads(
        "Your application's query or whole search (JSON), with {{keywords}} where the user's words "
        "go; default: all text fields.",
        cli=Path,
        panel=PANEL,
    ),
]
Params = Annotated[
    Mapping[str, Any] | None,
    Help(
        "A parameter of the query and the features. VALUE is JSON (a number, a list, "
        "true), else a text; NAME=@FILE reads JSON from a file; may be repeated.",
        flag="--param",
        metavar="NAME=VALUE",
        cli=list[str],
        parse=params_from,
        panel=PANEL,
    ),
]
Window = Annotated[
    int, Help("How many of the query's best documents to rescore.", min=1, panel=PANEL)
]
Size = Annotated[int | None, Help("How many results; default: the query's, or 10.", min=1)]
TitleField = Annotated[str | None, Help("The field of a document to show.", metavar="FIELD")]
ExtraFeatures = Annotated[
    "Sequence[ExternalTable | Path | str]",
    Reads(
        "A table of features from outside the index (Parquet), with the keys query_id "
        "or query, document_id, or both; may be repeated.",
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


def the_index(engine: Engine, given: str | None) -> str:
    """The index of this name, or the only one of the cluster that is no store or system index."""
    from owpc_ltr.names import check_index

    if given is not None:
        return check_index(given)
    return only_one(index_names(engine), "index", "--index", engine.settings.url)


def index_names(engine: Engine) -> list[str]:
    """The indices of a cluster, sorted, but for stores and system indices."""
    from owpc_ltr.engine.client.responses import AnswerPart

    answer = engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
    listed = AnswerPart(answer, "its list of indices")
    names = [row["index"].text for row in listed]
    return _as_known(engine, [name for name in names if not name.startswith((".", _OURS))])


def _as_known(engine: Engine, indices: list[str]) -> list[str]:
    """By what names these are known: what was made anew by its alias; what is staged by none."""
    from owpc_ltr.engine.staging_index import indices_behind
    from owpc_ltr.names import base_index

    known = set()
    for index in indices:
        base = base_index(index)
        if base == index or base in indices_behind(engine, index).get(index, {}):
            known.add(base)
    return sorted(known)


def the_featureset(store: Store, given: str | None, wanted_hash: str | None = None) -> str:
    """The feature set of this name, the one with this hash, or the only one of the store."""
    from owpc_ltr.names import check_name

    if given is not None:
        return check_name("feature set", given)
    names = store.list_featuresets()
    if wanted_hash is not None:
        names = [name for name in names if store.get_featureset(name).hash == wanted_hash]
        if not names:
            raise UsageError(
                f"no feature set in the {store.kind} store is the one that the model was trained "
                "on: push it there, or name another with --featureset, or its store with "
                "--store-kind"
            )
        return names[0]
    return only_one(names, "feature set", "--featureset", f"the {store.kind} store")


def only_one(names: Sequence[str], what: str, option: str, where: str) -> str:
    """The only name that there is. Raises UsageError, naming those that there are."""
    if len(names) == 1:
        return names[0]
    found = f"there are {', '.join(names[:8])}" if names else "there is none"
    raise UsageError(f"say which {what} is meant, with {option}: in {where} {found}")


def tables_of(extra_features: Any) -> tuple[ExternalTable, ...]:
    """The tables of `extra_features`; where there are none, what reads them is not imported."""
    if extra_features is None or (isinstance(extra_features, list | tuple) and not extra_features):
        return ()
    from owpc_ltr.data.external_features.table import read_external_features

    return read_external_features(extra_features)
