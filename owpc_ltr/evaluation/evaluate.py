"""`evaluate`: how good a ranker is on judged queries, and whether a difference can be chance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from owpc_ltr.data.options import RUN_TAG, Columns, MaxFeatureNumber, Memory
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.compare import comparison_request, ranker_name
from owpc_ltr.evaluation.options import (
    METRICS,
    AcceptLoss,
    Documents,
    EngineOfJudgments,
    IdField,
    IndexToCheck,
    Metrics,
    QueryTemplate,
    Segments,
    SmallestGain,
    Split,
    Unweighted,
    engine_warnings,
)
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import NO_MODEL, Argument, Reads, Seed, Writes, job, public

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.partitioned import JudgedTable
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.evaluation.comparison_result import Evaluation
    from owpc_ltr.models.combined import ReorderingModel
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
            project="model",
        ),
        Argument.RANKER,
    ],
    data: Annotated[
        JudgedTable | Judgments | Path | str,
        Reads(
            "Judged queries: a dataset; for runs also judgments (TSV, qrels …).",
            cli=Path,
            flag="--data",
            project="data",
        ),
        Argument.DATA,
    ],
    *,
    metrics: Metrics = METRICS,
    baseline: Annotated[
        Model | ReorderingModel | TrecRun | Path | str | None,
        Reads(
            "Compare with this model, TREC run, or feature (feature:NAME).",
            cli=str,
            unless="feature:",
            absent=NO_MODEL,
            metavar="RANKER",
        ),
        Argument.RANKER,
    ] = None,
    split: Split = "auto",
    unweighted: Unweighted = False,
    smallest_gain: SmallestGain = 0.0,
    segments: Segments = None,
    accept_loss: AcceptLoss = (),
    columns: Columns = None,
    documents: Documents = None,
    id_field: IdField = None,
    run: Annotated[
        Path | str | None,
        Writes("Also write the ranking as a TREC run, to this file.", needs_folder=False),
    ] = None,
    max_feature_number: MaxFeatureNumber = None,
    memory: Memory = None,
    index: IndexToCheck = None,
    query_template: QueryTemplate = None,
    cluster: EngineOfJudgments = None,
    seed: Seed = 0,
    plugins: Plugins = (),
) -> Evaluation:
    """Measure a ranker on held-out judged queries.

    Held out are the queries that it was not trained on, by their ids and texts. If its record does
    not tell, all queries are measured, with a warning. Every figure comes with its convention, the
    number of queries, and the value of scoring all documents the same. Tied documents count their
    expected value unless the metric says otherwise. With `index`, the engine is searched to check
    that it returns what was judged.

    Runs are measured as by `trec_eval -c`: judged documents that a run lacks are not retrieved,
    queries that it lacks count 0, and its documents that are not judged are irrelevant. They need
    no features: judgments are data enough.

    Python: `model` and `baseline` are also models and runs, `data` what was read before, as by
    `read_judgments`; data of `open_dataset` are gone through part by part. `seed` is the
    permutation test's. Of the result, `result["map"].mean` is a metric's mean,
    `result["map"].interval` its 95 % interval.
    Raises UsageError for a metric that there is not, BadInput for data with other features.
    """
    import numpy as np

    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import PartitionedDataset, in_memory
    from owpc_ltr.data.runs import write_scores
    from owpc_ltr.evaluation.comparison import compare_results
    from owpc_ltr.evaluation.comparison_result import Evaluation
    from owpc_ltr.evaluation.data_comparison import (
        by_folds,
        ranker_of,
        records_of,
        with_fields,
    )
    from owpc_ltr.evaluation.judged_data import (
        choose_queries,
        compared_queries,
        judged_dataset,
        model_data,
    )
    from owpc_ltr.evaluation.measurement import Resampling, measure_on_data

    if baseline is None and (segments is not None or accept_loss):
        raise UsageError("a ranker is compared with another one in segments: give `baseline`")
    name, other = ranker_name(model), ranker_name(baseline)
    if name == other:
        other = f"{name} 2"
    named = {name: model} if baseline is None else {name: model, other: baseline}
    request = comparison_request(
        named,
        metrics,
        plugins,
        unweighted=unweighted,
        smallest_gain=smallest_gain,
        segments=segments,
        accept_loss=accept_loss,
        baseline=None if baseline is None else other,
        split=split,
        drawing=Resampling(seed),
    )
    judged = judged_dataset(
        named.values(), data, columns, memory=memory, max_feature_number=max_feature_number
    )
    if documents is not None and isinstance(judged, PartitionedDataset):
        judged = in_memory(judged, "`documents`")
    warnings = engine_warnings(cluster, judged, index, query_template)
    if run is not None and isinstance(judged, PartitionedDataset):
        raise UsageError("`run` lists documents of a dataset in memory: give a file, not a folder")
    rankers = {name: ranker_of(model, judged, request.plugins)}
    chosen = model_data(rankers[name], judged, split, by_folds=True)
    if baseline is not None:
        rankers[other] = ranker_of(baseline, chosen.data, request.plugins)
        model_data(rankers[other], chosen.data, "all")
    part = with_fields(chosen.data, rankers, documents, id_field)
    # The ranker's record chose the queries; that a ranker has seen some of them is a warning.
    held_out = chosen.side in {"test", "folds"}
    seen = choose_queries(records_of(rankers), part, "all", by_folds=held_out)
    side = "folds" if seen.folds else chosen.side
    queries = compared_queries(part, seen._replace(side=side, warnings=chosen.warnings))
    results = measure_on_data(
        by_folds(rankers, seen),
        part,
        queries,
        request.plan,
        weighted=request.weighted,
        tell_unjudged=True,
    )
    comparison = compare_results(results)
    scores = results.rankers[name].scores
    if run is not None and scores is not None and isinstance(part, RankingDataset):
        # A document that a run did not retrieve has no score.
        write_scores(scores, part, run, retrieved=~np.isnan(scores))
    facts = comparison.facts | {
        "data_name": str(data) if isinstance(data, Path | str) else "",
        "warnings": (*warnings, *comparison.warnings),
    }
    return Evaluation(**facts, data=part, scores=scores)


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
    from owpc_ltr.models.combined import dataset_scores

    scores = ranker if isinstance(ranker, np.ndarray) else dataset_scores(ranker, data)
    retrieved = ~np.isnan(scores) if isinstance(ranker, TrecRun) else None
    write_scores(scores, data, path=path, tag=tag, depth=depth, retrieved=retrieved)
