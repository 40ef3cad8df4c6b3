"""`report_on_rankers`: rankers measured, shown in examples and laid open, on one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.api.evaluation import METRICS, evaluate, ranker_of, side_in_words
from owpc_ltr.errors import OwpcLtrError, Refused
from owpc_ltr_report.examples import Contribute, Example, extremes, moved_documents
from owpc_ltr_report.named import Named
from owpc_ltr_report.names import short_names
from owpc_ltr_report.report import report

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.evaluation.comparing.result import RankerComparison
    from owpc_ltr.evaluation.risk_bounds import Bound
    from owpc_ltr.inspection.result import Inspection
    from owpc_ltr_report.page import Page

    Data = RankingDataset | PartitionedDataset

Progress = Callable[[str, float | None], None]


def report_on_rankers(
    rankers: Sequence[Path | str],
    data: Data | None,
    *,
    baseline: Path | str | None = None,
    metrics: Sequence[Any] | str = METRICS,
    queries: str = "auto",
    examples: int = 3,
    documents: Path | str | None = None,
    id_field: str | None = None,
    parts: Sequence[Any] = (),
    out: Path | str | None = None,
    title: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    plugins: Sequence[Path | str] = (),
) -> Page:
    """The report on model files: the first is the new one, measured against the `baseline`.

    All is as for `compare`. Without a baseline the last of several rankers is it; one ranker alone
    is measured alone. `examples` queries are shown of those that lose most, and as many of those
    that gain most. `documents` is the file that was indexed, for titles of documents, and for
    rerankers that read fields. More `parts` for `report` may be given.
    """
    asked = [str(one) for one in rankers]
    asked += [str(baseline)] if baseline is not None and str(baseline) not in asked else []
    found: list[Any] = list(parts)
    if data is None:
        return report(*asked, *found, out=out, title=title, plugins=plugins)
    names = short_names(asked)
    files = [Path(plugin) for plugin in plugins]
    loaded = {names[one]: ranker_of(one, data, files) for one in asked}
    if len(loaded) == 1:
        alone = evaluate(
            asked[0], data, metrics, queries=queries, documents=documents, id_field=id_field,
            seed=seed, plugins=plugins,
        )  # fmt: skip
        found += [*_models(loaded), alone]
    else:
        how: dict[str, Any] = {"documents": documents, "id_field": id_field, "plugins": plugins}
        of = names[str(baseline)] if baseline is not None else list(loaded)[-1]
        found += _compared(
            loaded, data, of, metrics, queries, examples, seed=seed, progress=progress, **how
        )
    first = next(iter(loaded.values()))
    found += [*_checked(found), *_bounds(first, data, plugins)]
    return report(*found, out=out, title=title, plugins=plugins)


def _models(rankers: dict[str, Any], scores: Vector | None = None) -> list[Named]:
    """What has a record or curves to show, the first with its scores; no features alone, no runs.

    A feature that ranks by itself is a linear model without a training.
    """
    found = []
    for number, (name, ranker) in enumerate(rankers.items()):
        if hasattr(ranker, "record") and "base" not in ranker.record:
            found.append(Named(name, ranker, scores if number == 0 else None))
    return found


def _compared(
    rankers: dict[str, Any],
    data: Data,
    baseline: str,
    metrics: Sequence[Any] | str,
    queries: str,
    examples: int,
    *,
    documents: Path | str | None,
    id_field: str | None,
    **how: Any,
) -> list[Any]:
    """The comparison, the queries that it is of, the models, and examples."""
    from dataclasses import replace

    from owpc_ltr.api.comparing import compare
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.document_fields import with_document_fields
    from owpc_ltr.models.model_file import warnings_of
    from owpc_ltr.models.reordering import ReorderingModel, dataset_scores
    from owpc_ltr_report.contests import contest_of_comparison

    found = compare(
        rankers, data, metrics, baseline=baseline, queries=queries, documents=documents,
        id_field=id_field, **how,
    )  # fmt: skip
    new = next(name for name in rankers if name != baseline)
    contest = contest_of_comparison(found, side_in_words, new)
    told = [f"in training: {one}" for one in warnings_of(getattr(rankers[new], "record", {}))]
    contest = replace(contest, warnings=(*told, *contest.warnings))
    chosen = _of(data, found)
    if not isinstance(chosen, RankingDataset):
        return [contest, chosen, *_models(rankers)]
    fields = [
        name
        for ranker in (rankers[new], rankers[baseline])
        if isinstance(ranker, ReorderingModel)
        for name in ranker.field_names
    ]
    if documents is not None:
        chosen = with_document_fields(chosen, ("title", *fields), Path(documents), id_field)
    both = dataset_scores(rankers[baseline], chosen), dataset_scores(rankers[new], chosen)
    shown = _examples(found, chosen, both, (new, baseline), rankers[new], examples)
    return [contest, chosen, *_models(rankers, both[1]), *shown]


def _of(data: Data, found: RankerComparison) -> Data:
    """The queries of the data that a comparison is of."""
    if found.n_queries == data.n_queries:
        return data
    place = {query: number for number, query in enumerate(data.query_ids.to_pylist())}
    return data.select(np.array([place[one] for one in found.query_ids.to_pylist()]))


def _examples(
    found: RankerComparison,
    data: RankingDataset,
    scores: tuple[Vector, Vector],
    names: tuple[str, str],
    ranker: Any,
    count: int,
) -> list[Example]:
    """The queries that lose most and gain most by the first metric, with their documents."""
    metric = found.metrics[0]
    after, before = (found.ranker(name).measured[0].per_query for name in names)
    sign = 1.0 if metric.higher_is_better else -1.0
    losses, gains = extremes(sign * (after - before), count)
    texts = [] if found.query_texts is None else found.query_texts.to_pylist()
    return [
        Example(
            (texts[query] if texts else "") or str(data.query_ids[query].as_py()),
            str(metric),
            float(before[query]),
            float(after[query]),
            int(data.offsets[query + 1] - data.offsets[query]),
            moved_documents(data, query, scores, _contribute(ranker)),
        )
        for query in (*losses, *gains)
    ]


def _contribute(ranker: Any) -> Contribute | None:
    """What shares out a ranker's scores among its features; None where nothing can."""
    from owpc_ltr.explanations.model_kinds import contributions

    names = getattr(ranker, "feature_names", ())
    try:
        contributions(ranker, np.zeros((1, len(names)), np.float32))
    except Refused:
        return None
    return lambda features: contributions(ranker, features).amounts


def _checked(found: Sequence[Any]) -> list[Inspection]:
    """What the data that are measured on suffer from; nothing is trained for it."""
    from owpc_ltr.api.evaluation import Evaluation
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.inspection.inspect import inspect

    for one in found:
        data = one.data if isinstance(one, Evaluation) else one
        if isinstance(data, RankingDataset):
            return [inspect(data, training=False)]
    return []


def _bounds(ranker: Any, data: Data, plugins: Sequence[Path | str]) -> list[Bound]:
    """The papers' bounds, of a linear model on the queries that it was trained on."""
    from owpc_ltr.api.models import risk_bounds
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.evaluation.evaluate import model_data
    from owpc_ltr.models.linear import LinearModel

    if not isinstance(ranker, LinearModel) or not ranker.record.get("loss"):
        return []
    try:
        trained = model_data(ranker, data, "train").data
    except OwpcLtrError:
        # The data are others than it was trained on.
        return []
    return (
        risk_bounds(ranker, trained, plugins=plugins) if isinstance(trained, RankingDataset) else []
    )
