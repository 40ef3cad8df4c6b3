"""`evaluate`: how good a ranker is on judged queries, and whether a difference can be chance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import RUN_TAG, MaxFeatures, Memory
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import (
    METRICS,
    Dask,
    Documents,
    EngineOfJudgments,
    IdField,
    IndexToCheck,
    Metrics,
    QueryTemplate,
    SmallestGain,
    Split,
    Unweighted,
    by_workers,
    engine_doubts,
    workers_at,
)
from owpc_ltr.signatures import (
    NO_MODEL,
    Argument,
    Plugins,
    Reads,
    Seed,
    Writes,
    job,
    public,
    spelled,
)

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import JudgedTable
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.evaluation.comparison_table import RankerComparison
    from owpc_ltr.evaluation.evaluation_table import Evaluation
    from owpc_ltr.evaluation.measurement import Ranking
    from owpc_ltr.evaluation.query_choice import EvaluationQueries
    from owpc_ltr.evaluation.results import ComparisonPlan
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model


@job
def evaluate(
    model: Annotated[
        Model | ReorderingModel | TrecRun | Path | str,
        Reads(
            "A file of a model, reranker or TREC run, or feature:NAME.",
            cli=str,
            unless="feature:",
            absent="cannot read the model {path}: No such file or directory; an uploaded model is "
            "measured live (compare-live)",
        ),
        Argument.RANKER,
    ],
    data: Annotated[
        JudgedTable | Path | str,
        Reads("Judged queries: Parquet, LETOR text, or a folder of parts.", flag="--data"),
        Argument.DATA,
    ],
    *,
    metrics: Metrics = METRICS,
    baseline: Annotated[
        Any,
        Reads(
            "Compare with this model, TREC run, or feature (feature:NAME).",
            cli=str,
            unless="feature:",
            absent=NO_MODEL,
        ),
        Argument.RANKER,
    ] = None,
    split: Split = "auto",
    unweighted: Unweighted = False,
    smallest_gain: SmallestGain = 0.0,
    documents: Documents = None,
    id_field: IdField = None,
    run: Annotated[
        Path | str | None,
        Writes("Also write the ranking as a TREC run, to this file.", needs_folder=False),
    ] = None,
    max_features: MaxFeatures = None,
    memory: Memory = None,
    index: IndexToCheck = None,
    query_template: QueryTemplate = None,
    cluster: EngineOfJudgments = None,
    dask: Dask = None,
    seed: Seed = 0,
    plugins: Plugins = (),
) -> Evaluation:
    """Measure a ranker on held-out judged queries.

    Held out are the queries that it was not trained on, by their ids and texts. If its record does
    not tell, all queries are measured, with a warning. Every figure comes with its convention, the
    number of queries, and the value of scoring all documents the same. Tied documents count their
    expected value unless the metric says otherwise. With --index, the engine is searched to check
    that it returns what was judged.

    Runs are measured as by `trec_eval -c`: judged documents that a run lacks are not retrieved,
    queries that it lacks count 0, and its documents that are not judged are irrelevant.

    Python: `model` and `baseline` are also models and runs, `data` what was read before; data of
    `open_dataset` are gone through part by part. `seed` is the permutation test's. Of the result,
    `result["map"].mean` is a metric's mean, `result["map"].interval` its 95 % interval.
    Raises UsageError for a metric that there is not, BadInput for data with other features.
    """
    from owpc_ltr.evaluation.evaluation_table import Evaluation
    from owpc_ltr.evaluation.measurement import ranker_of
    from owpc_ltr.evaluation.query_choice import model_data
    from owpc_ltr.evaluation.results import ComparisonPlan, Drawing
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metrics

    files = [Path(plugin) for plugin in plugins]
    registry = load(files)
    parsed = parse_metrics(metrics, registry)
    judged = _judged(data, documents, memory, max_features)
    doubts = engine_doubts(cluster, judged, index, query_template)
    if run is not None and _in_parts(judged):
        raise UsageError(
            f"{spelled('run')} lists documents of a dataset in memory: give a file, not a folder"
        )
    ranker = ranker_of(model, judged, files)
    with workers_at(dask, [data], files) as workers:
        chosen = model_data(ranker, by_workers(judged, workers), split, by_folds=True)
        part = _with_fields(chosen.data, ranker, documents, id_field)
        names = _names(model, baseline)
        rankers = {names[0]: ranker}
        if baseline is not None:
            rankers[names[1]] = ranker_of(baseline, part, files)
        how = ComparisonPlan(
            parsed,
            baseline=None if baseline is None else names[1],
            drawing=Drawing(seed),
            smallest_gain=smallest_gain,
        )
        found, scores = _compared(rankers, chosen, part, how, weighted=not unweighted)
    if run is not None:
        _write_run(scores, part, run)
    own = found.facts | {
        "data_name": str(data) if isinstance(data, Path | str) else "",
        "warnings": (*doubts, *found.warnings),
    }
    return Evaluation(**own, data=part, scores=scores)


def _write_run(scores: Any, data: Any, path: Path | str) -> None:
    """The ranking as a TREC run; a document that a run did not retrieve has no score."""
    import numpy as np

    from owpc_ltr.data.runs import write_scores

    lacking = np.isnan(scores)
    write_scores(scores, data, path, retrieved=~lacking if lacking.any() else None)


@public
def write_run(
    ranker: Model | ReorderingModel | TrecRun | Vector,
    data: Annotated[RankingDataset, Argument.DATA],
    path: str | Path,
    *,
    tag: str = RUN_TAG,
    depth: int | None = None,
) -> None:
    """Write a ranking of a dataset (a ranker's, or scores, one per document) as a TREC run.

    At most `depth` documents per query; of a run those that it retrieved. See
    `owpc_ltr.data.runs.write_scores`.
    """
    import numpy as np

    from owpc_ltr.data.runs import TrecRun, write_scores
    from owpc_ltr.models.reordering import dataset_scores

    scores = ranker if isinstance(ranker, np.ndarray) else dataset_scores(ranker, data)
    retrieved = ~np.isnan(scores) if isinstance(ranker, TrecRun) else None
    write_scores(scores, data, path=path, tag=tag, depth=depth, retrieved=retrieved)


def _compared(
    rankers: Mapping[str, Ranking],
    chosen: EvaluationQueries[Any],
    part: JudgedTable,
    how: ComparisonPlan,
    *,
    weighted: bool,
) -> tuple[RankerComparison, Vector | None]:
    """The rankers on these queries, and the first one's scores of data in memory."""
    from owpc_ltr.evaluation.comparison import compare_results
    from owpc_ltr.evaluation.data_comparison import by_folds, records_of
    from owpc_ltr.evaluation.measurement import measure_on_data
    from owpc_ltr.evaluation.query_choice import choose_queries, compared_queries, model_data

    for other in [*rankers.values()][1:]:
        model_data(other, part, "all")
    # The ranker's record chose the queries; what any ranker has seen of them is a doubt.
    unseen = chosen.side in {"test", "folds"}
    seen = choose_queries(records_of(rankers), part, "all", by_folds=unseen)
    side = "folds" if seen.folds else chosen.side
    of = compared_queries(part, seen._replace(side=side, warnings=chosen.warnings))
    measured = by_folds(rankers, seen)
    results = measure_on_data(measured, part, of, how, weighted=weighted, tell_unjudged=True)
    return compare_results(results, how), next(iter(results.rankers.values())).scores


def _judged(data: Any, documents: Any, memory: Any, max_features: int | None) -> JudgedTable:
    """The data, read; in memory where documents are joined to it."""
    from owpc_ltr.data.datasets import dataset_of
    from owpc_ltr.data.partitioned.dataset import in_memory

    data = dataset_of(data, memory=memory, max_features=max_features)
    if documents is not None and _in_parts(data):
        data = in_memory(data, spelled("documents"))
    return data  # type: ignore[no-any-return]


def _in_parts(data: JudgedTable) -> bool:
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset

    return isinstance(data, PartitionedDataset)


def _with_fields(data: Any, ranker: Ranking, documents: Any, id_field: str | None) -> JudgedTable:
    """The data with the document fields that a reranker needs; a model needs none."""
    from owpc_ltr.data.documents import with_document_fields
    from owpc_ltr.models.reordering import ReorderingModel

    if _in_parts(data):
        return data  # type: ignore[no-any-return]
    fields = ranker.field_names if isinstance(ranker, ReorderingModel) else ()
    return with_document_fields(
        data, fields, None if documents is None else Path(documents), id_field
    )


def _names(model: Any, baseline: Any) -> tuple[str, str]:
    one, other = _name(model), _name(baseline)
    return one, f"{other} 2" if other == one else other


def _name(given: Any) -> str:
    if isinstance(given, Path | str):
        return str(given)
    if isinstance(given, list | tuple) or hasattr(given, "dtype"):
        return "the scores"
    if hasattr(given, "kind"):
        return f"the {given.kind} model"
    return type(given).__name__ if hasattr(given, "predict") else "the run"
