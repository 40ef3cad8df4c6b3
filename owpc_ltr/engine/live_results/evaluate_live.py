"""`evaluate_live`: live results of the whole index with a model, against the query alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from owpc_ltr.data.options import Columns, Topics
from owpc_ltr.engine.live_queries import (
    InFlight,
    JudgedQueries,
    LiveQueries,
    ModelFeatureSet,
)
from owpc_ltr.engine.options import (
    IN_FLIGHT,
    ExtraFeatures,
    Params,
    QueryTemplate,
    SearchIndex,
    Window,
)
from owpc_ltr.evaluation.options import (
    METRICS,
    Metrics,
    SmallestGain,
    Split,
    Unweighted,
)
from owpc_ltr.signatures import Argument, Plugins, Progress, Reads, Seed, job, silent

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.search.live_evaluation import LiveEvaluation
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model


@job
def evaluate_live(
    cluster: Cluster,
    model: Annotated[
        Model | ReorderingModel | Path | str,
        Reads(
            "An uploaded name, or a file of a model or reranker.",
            names="model",
            cli=str,
            absent=None,
        ),
        Argument.RANKER,
    ],
    *,
    judgments: JudgedQueries,
    metrics: Metrics = METRICS,
    split: Split = "auto",
    unweighted: Unweighted = False,
    smallest_gain: SmallestGain = 0.0,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    window: Window = None,
    columns: Columns = None,
    topics: Topics = None,
    featureset: ModelFeatureSet = None,
    extra_features: ExtraFeatures = (),
    in_flight: InFlight = IN_FLIGHT,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> LiveEvaluation:
    """Measure live results of the whole index with a model, against the query alone.

    Every judged query that the model was not trained on is searched twice, with the request that an
    application sends. Figures take unjudged documents as irrelevant, or leave them out; bounds are
    the lowest and highest possible values. A model that is not uploaded is stored in the cluster
    only during the command.

    Python: `model` is also a model, `judgments` what was read before.
    Raises UsageError for a metric that cannot be measured live, Refused for fewer than two queries.
    """
    from dataclasses import replace

    from owpc_ltr.data.external_features.columns import tables_of
    from owpc_ltr.engine.live_results.rankers import serving_model
    from owpc_ltr.engine.search.live_evaluation import measure_live
    from owpc_ltr.engine.search.serving import query_alone
    from owpc_ltr.evaluation.query_choice import choose_queries
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metrics

    live = LiveQueries.of(
        cluster, judgments, columns, query_template=query_template, window=window, topics=topics,
        split=split, params=params, in_flight=in_flight, unweighted=unweighted,
    )  # fmt: skip
    registry = load([Path(plugin) for plugin in plugins])
    parsed = parse_metrics(metrics, registry)
    with serving_model(
        cluster, model, index=index, featureset=featureset, tables=tables_of(extra_features),
        plugins=plugins,
    ) as served:  # fmt: skip
        query = cluster.template(served.index, query_template)[0]
        question = live.question(served.index, query, parsed, served.featureset, seed)
        chosen = choose_queries({"the model": served.record}, question.queries, split)
        kept = replace(
            question,
            queries=[question.queries[n] for n in chosen.queries.tolist()],
            smallest_gain=smallest_gain,
        )
        before = query_alone(cluster.engine, cluster.store)
        with served.by_folds(chosen.folds.get("the model", {})) as after:
            found = measure_live(kept, before, after, progress, chosen=chosen)
    name = str(model) if isinstance(model, Path | str) else found.model
    return replace(found, model=name)
