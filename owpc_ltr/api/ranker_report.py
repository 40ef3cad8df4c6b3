"""`report_on_ranker`: a ranker measured, shown in examples and laid open, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import OwpcLtrError

if TYPE_CHECKING:
    from owpc_ltr.api.evaluation import Evaluation
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.protocols import Ranker
    from owpc_ltr.reporting.examples import Example
    from owpc_ltr.reporting.page import Page


def report_on_ranker(
    model: Any,
    data: RankingDataset | PartitionedDataset | None,
    *,
    baseline: Any = None,
    metrics: Sequence[Any] | str = ("ndcg@10", "map", "mrr"),
    queries: str = "auto",
    examples: int = 3,
    documents: Path | str | None = None,
    id_field: str | None = None,
    parts: Sequence[Any] = (),
    out: Path | str | None = None,
    title: str | None = None,
    seed: int = 0,
    plugins: Sequence[Path | str] = (),
) -> Page:
    """The report on a model (or its file): measured against `baseline`, with example queries.

    All is as for `evaluate`; `examples` queries are shown of those that lose most, and as many of
    those that gain most. `documents` is the file that was indexed, for titles of documents, and
    for rerankers that read fields. More `parts` for `report` may be given.
    """
    from owpc_ltr.api.evaluation import evaluate
    from owpc_ltr.api.reporting import report
    from owpc_ltr.data.dataset import RankingDataset

    found: list[Any] = [model, *parts]
    if data is not None:
        evaluation = evaluate(
            model, data, metrics, against=baseline, queries=queries, documents=documents,
            id_field=id_field, seed=seed, plugins=plugins,
        )  # fmt: skip
        found.append(evaluation)
        if isinstance(evaluation.data, RankingDataset):
            titled = _with_titles(evaluation.data, documents, id_field)
            found += _examples(evaluation, titled, baseline, examples, plugins)
            found += _bounds(model, data, plugins)
    return report(*found, out=out, title=title, plugins=plugins)


def _with_titles(
    data: RankingDataset, documents: Path | str | None, id_field: str | None
) -> RankingDataset:
    from owpc_ltr.data.document_fields import with_document_fields

    if documents is None:
        return data
    return with_document_fields(data, ("title",), Path(documents), id_field)


def _examples(
    evaluation: Evaluation,
    data: RankingDataset,
    baseline: Any,
    count: int,
    plugins: Sequence[Path | str],
) -> list[Example]:
    """The queries that lose most and gain most by the first metric, with their documents."""
    from owpc_ltr.api.evaluation import ranker_of
    from owpc_ltr.models.reordering import dataset_scores
    from owpc_ltr.reporting.examples import Example, extremes, moved_documents
    from owpc_ltr.reporting.query_texts import texts_of

    if baseline is None or evaluation.scores is None:
        return []
    files = [Path(plugin) for plugin in plugins]
    scores = dataset_scores(ranker_of(baseline, data, files), data), evaluation.scores
    after, before = evaluation.measured[0], evaluation.others[0]
    sign = 1.0 if after.metric.higher_is_better else -1.0
    losses, gains = extremes(sign * (after.per_query - before.per_query), count)
    texts = texts_of(data)
    return [
        Example(
            (texts[query] if texts else "") or str(data.query_ids[query].as_py()),
            str(after.metric),
            float(before.per_query[query]),
            float(after.per_query[query]),
            int(data.offsets[query + 1] - data.offsets[query]),
            moved_documents(data, query, scores),
        )
        for query in (*losses, *gains)
    ]


def _bounds(
    model: Any, data: RankingDataset | PartitionedDataset, plugins: Sequence[Path | str]
) -> list[Any]:
    """The papers' bounds, of a linear model on the queries that it was trained on."""
    from owpc_ltr.api.evaluation import ranker_of
    from owpc_ltr.api.models import risk_bounds
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.evaluation.evaluate import model_data
    from owpc_ltr.models.linear import LinearModel

    ranker: Ranker | Any = ranker_of(model, data, [Path(plugin) for plugin in plugins])
    if not isinstance(ranker, LinearModel) or not ranker.record.get("loss"):
        return []
    try:
        trained = model_data(ranker, data, "train").data
    except OwpcLtrError:
        # The data are others than it was trained on.
        return []
    assert isinstance(trained, RankingDataset)  # noqa: S101 - as the data are
    return risk_bounds(ranker, trained, plugins=plugins)
