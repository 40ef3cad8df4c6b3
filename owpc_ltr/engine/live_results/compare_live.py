"""`compare_live`: rankers compared by their live results of the whole index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Columns, Topics
from owpc_ltr.engine.live_queries import JudgedQueries, LiveQueries, SearchOptions
from owpc_ltr.engine.options import QueryTemplate, SearchIndex
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import (
    METRICS,
    RESAMPLES,
    Baseline,
    ComparisonOptions,
    HowCompared,
    LatexTable,
    Metrics,
    PerQueryTable,
    Resamples,
    Split,
)
from owpc_ltr.host.commands import Plugins, ReportPage, write_report
from owpc_ltr.signatures import Argument, Progress, Reads, Seed, job, option_name, silent

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.evaluation.comparison_table import RankerComparison


@job
def compare_live(
    cluster: Cluster,
    rankers: Annotated[
        Sequence[Any] | Mapping[str, Any],
        Reads(
            "Uploaded names, files of models, queries (JSON) or TREC runs, feature:NAME; query: "
            "the query template alone; live:NAME@INDEX for a ranker of another index.",
            cli=list[str],
            absent=None,
        ),
        Argument.RANKER,
    ],
    *,
    judgments: JudgedQueries,
    metrics: Metrics = METRICS,
    baseline: Baseline = None,
    split: Split = "auto",
    options: HowCompared = None,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    columns: Columns = None,
    topics: Topics = None,
    search: Annotated[
        SearchOptions | None,
        Argument.OPTIONS,
        "How rankers search: parameters, how much they rescore, and their features.",
    ] = None,
    per_query: PerQueryTable = None,
    report: ReportPage = None,
    latex: LatexTable = None,
    resamples: Resamples = RESAMPLES,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> RankerComparison:
    """Compare rankers, or one with the query alone, by live results of the whole index.

    Every judged query is searched with every ranker, with the request that an application sends.
    Judged or not, the first documents of each list are measured. A query (JSON) ranks by itself;
    models rescore the best documents of the query template, and are stored in the cluster only
    during the command. Figures, tests and verdicts are those of `compare`.

    One model is compared with the query alone. Then figures take unjudged documents as irrelevant,
    or leave them out; bounds are the lowest and highest possible values.

    Python: `rankers` are also models, runs (`read_run`), or a mapping of names to rankers;
    `judgments` may be what was read before.
    Raises UsageError for a metric that cannot be measured live or a ranker that there is not,
    Refused where too few queries are left.
    """
    from dataclasses import replace
    from functools import partial

    from owpc_ltr.data.external_features.columns import tables_of
    from owpc_ltr.engine.live_results.rankers import (
        LiveRankers,
        compare_rankers,
        compare_with_query,
    )
    from owpc_ltr.engine.search.live_evaluation import THE_MODEL
    from owpc_ltr.evaluation.compare import (
        check_table,
        comparison_request,
        named_rankers,
        write_comparison,
    )
    from owpc_ltr.evaluation.results import Resampling

    check_table(per_query)
    options, how = options or ComparisonOptions(), search or SearchOptions()
    if alone := _is_one_model(rankers):
        for name, is_given in {
            "baseline": baseline, "unjudged": options.unjudged != ComparisonOptions.unjudged,
            "worst": options.worst != ComparisonOptions.worst, "resamples": resamples != RESAMPLES,
        }.items():  # fmt: skip
            if is_given:
                raise UsageError(
                    f"{option_name(name)} is for two rankers or more: name another one, or "
                    "'query' for the query alone"
                )
        (model,) = rankers
        named = {str(model) if isinstance(model, Path | str) else THE_MODEL: model}
    else:
        named = named_rankers(rankers)
    request = comparison_request(
        named, metrics, plugins, options, baseline=baseline, split=split,
        drawing=Resampling(seed, resamples, progress),
    )  # fmt: skip
    live = LiveQueries.of(
        cluster, judgments, columns, topics=topics, split=split,
        query_template=query_template, window=how.window, params=how.params,
        in_flight=how.in_flight, unweighted=options.unweighted,
    )  # fmt: skip
    serving = partial(
        LiveRankers, cluster=cluster, query_template=live.query_template, judged=live.judged,
        index=index, featureset=how.featureset, tables=tables_of(how.extra_features),
        plugins=request.plugins,
    )  # fmt: skip
    comparison = (compare_with_query if alone else compare_rankers)(
        request, live, lambda trials: serving(trials=trials)
    )
    data_name = str(judgments) if isinstance(judgments, Path | str) else ""
    comparison = replace(comparison, data_name=data_name, n_worst=options.worst)
    write_comparison(comparison, per_query, latex)
    write_report(comparison, report, plugins)
    return comparison


def _is_one_model(rankers: Sequence[Any] | Mapping[str, Any]) -> bool:
    """Whether there is one ranker, which is a model, and no other ranker to compare it with."""
    from owpc_ltr.data.runs import TrecRun, is_run
    from owpc_ltr.engine.live_results.rankers import QUERY
    from owpc_ltr.evaluation.data_comparison import LIVE
    from owpc_ltr.models.reordering import FEATURE

    if isinstance(rankers, Mapping) or len(rankers) != 1:
        return False
    (ranker,) = rankers
    if isinstance(ranker, Path | str):
        no_model = str(ranker) == QUERY or str(ranker).startswith((LIVE, FEATURE))
        return not no_model and not is_run(Path(ranker))
    return not isinstance(ranker, TrecRun | Mapping)
