"""`explain`: why the documents of a query in a dataset are where they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from owpc_ltr.data.options import Memory
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import Documents, IdField
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import NO_MODEL, Help, Reads, job

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import JudgedTable
    from owpc_ltr.explanations.explanation import Explanation
    from owpc_ltr.models.combined import ReorderingModel
    from owpc_ltr.protocols import Model

ExplainedDocument = Annotated[
    str | None, Help("The id of one document, to explain it fully.", metavar="DOC")
]


@job
def explain(
    model: Annotated[
        Model | ReorderingModel | Path | str,
        Reads(
            "MODEL.json, or feature:NAME for a feature.",
            absent=NO_MODEL,
            unless="feature:",
            cli=str,
        ),
    ],
    data: Annotated[
        JudgedTable | Path | str,
        Reads("A dataset: Parquet, LETOR text (.gz, .xz), or a folder of parts.", flag="--data"),
    ],
    document: ExplainedDocument = None,
    *,
    query_id: Annotated[str, Help("The query of the data.", metavar="ID")],
    size: Annotated[int, Help("How many documents, the best first.", min=1)] = 10,
    documents: Documents = None,
    id_field: IdField = None,
    memory: Memory = None,
    plugins: Plugins = (),
) -> Explanation:
    """Explain how a ranker orders a query's documents in a dataset.

    Shows the best documents, with what each feature adds to their scores; or one document in full.
    Documents without ids are called by their row within the query, from 0. `cluster.explain`
    explains a live search.

    Raises UsageError for a query or a document that is not there, BadInput for data with other
    features, Refused for a kind of model that is not known.
    """
    import numpy as np

    from owpc_ltr.data.datasets import open_or_read
    from owpc_ltr.data.documents import fields_of, with_document_fields
    from owpc_ltr.evaluation.judged_data import model_data
    from owpc_ltr.explanations.explanation import ServedList, explain_list
    from owpc_ltr.models.combined import ReorderingModel, dataset_scores

    opened = open_or_read(data, memory=memory) if isinstance(data, Path | str) else data
    ranker = _ranker(model, opened, plugins)
    judged = _query_of(model_data(ranker, opened, "all").data, str(query_id))
    named = None if documents is None else Path(documents)
    needed = ranker.field_names if isinstance(ranker, ReorderingModel) else ()
    judged = with_document_fields(judged, needed, named, id_field)
    scores = dataset_scores(ranker, judged)
    order = np.argsort(-scores, kind="stable")
    ids = _ids(judged)
    listed = ServedList(
        query=str(query_id),
        model=str(model) if isinstance(model, Path | str) else f"the {ranker.kind} model",
        doc_ids=[ids[row] for row in order],
        titles=[ids[row] for row in order],
        features=judged.features[order],
        scores=scores[order],
        ranks_before=[None] * len(order),
        fields={name: [values[row] for row in order] for name, values in fields_of(judged).items()},
    )
    return explain_list(ranker, listed, size=size, document=document)


def _ranker(
    ranker: Model | ReorderingModel | Path | str, data: JudgedTable, plugins: Plugins
) -> Model | ReorderingModel:
    """A ranker as it is, from its file, or `feature:NAME`."""
    from owpc_ltr.data.runs import is_run
    from owpc_ltr.models.combined import FEATURE, feature_ranker, load_model

    if isinstance(ranker, str) and ranker.startswith(FEATURE):
        return feature_ranker(ranker, data)
    if not isinstance(ranker, Path | str):
        return ranker
    if is_run(Path(ranker)):
        raise UsageError("a run has no features to explain it by: give the model that made it")
    return load_model(Path(ranker), [Path(plugin) for plugin in plugins])


def _query_of(data: JudgedTable, query_id: str) -> RankingDataset:
    """The one query of this id. Raises UsageError where there is none."""
    import numpy as np

    ids = data.query_ids.to_pylist()
    if query_id not in ids:
        first = ", ".join(ids[:5])
        raise UsageError(f"no query of the data has the id '{query_id}': there are {first} …")
    return data.select(np.array([ids.index(query_id)])).load()


def _ids(data: RankingDataset) -> list[str]:
    if data.doc_ids is None:
        return [str(row + 1) for row in range(data.n_documents)]
    return [str(doc_id) for doc_id in data.doc_ids.to_pylist()]
