"""`compare_live`: rankers compared by their live results of the whole index."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Columns, Topics
from owpc_ltr.engine.deployment.options import EvidenceFile
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
    ProxyLabels,
    Resamples,
    Split,
)
from owpc_ltr.host.commands import Plugins, ReportPage, write_report
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Seed, job, option_name, silent

if TYPE_CHECKING:
    from contextlib import ExitStack

    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord
    from owpc_ltr.engine.live_results.rankers import LiveRankers
    from owpc_ltr.engine.search.live_evaluation import LiveComparison


_TO_JUDGE = 100
"""How many queries a command suggests to judge, a day's work: they detect a gain of .28 standard
deviations of the queries' differences with 80 % power."""


@job
def compare_live(
    cluster: Cluster,
    rankers: Annotated[
        Sequence[Any] | Mapping[str, Any],
        Reads(
            "Uploaded names, each with its own query template and window; files of models, queries "
            "(JSON) or TREC runs, feature:NAME; query: the query template alone; live:NAME@INDEX "
            "for a ranker of another index.",
            cli=list[str],
            absent=None,
        ),
        Argument.RANKER,
    ],
    *,
    judgments: JudgedQueries,
    proxy_labels: ProxyLabels = None,
    metrics: Metrics = METRICS,
    baseline: Baseline = None,
    split: Split = "auto",
    options: HowCompared = None,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    same_query: Annotated[
        bool,
        Help("Search for every model with --query-template and --window: compares models alone."),
    ] = False,
    columns: Columns = None,
    topics: Topics = None,
    search: Annotated[
        SearchOptions | None,
        Argument.OPTIONS,
        "How rankers search: parameters, how much they rescore, and their features.",
    ] = None,
    out: EvidenceFile = None,
    per_query: PerQueryTable = None,
    report: ReportPage = None,
    latex: LatexTable = None,
    resamples: Resamples = RESAMPLES,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> LiveComparison:
    """Compare rankers, or one with the query alone, by live results of the whole index.

    Every judged query is searched with every ranker, with the request that an application sends.
    Judged or not, the first documents of each list are measured. A query (JSON) ranks by itself;
    models rescore the best documents of a query, and are stored in the cluster only during the
    command: an uploaded one those of its own query template, which users have; any other those of
    --query-template, by default the uploaded one's. Figures, tests and verdicts are those of
    `compare`.

    --out writes the comparison of a new model with what an alias serves as evidence, which upload
    and models promote --require. Comparisons with an alias are counted in the cluster, and p is
    corrected for earlier ones on these queries. With --proxy-labels of all queries, those of
    --judgments are human labels of a random sample, and prediction-powered figures decide.

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
    from owpc_ltr.evaluation.judged_data import read_lists
    from owpc_ltr.evaluation.results import Resampling

    check_table(per_query)
    if out is not None and len(rankers) > 2:
        raise UsageError(
            f"{option_name('out')} is evidence for one new model over what users have: name these "
            f"two rankers, and not {len(rankers)}"
        )
    options, how = options or ComparisonOptions(), search or SearchOptions()
    if alone := _is_one_model(rankers):
        for name, is_given in {
            "baseline": baseline, "unjudged": options.unjudged != ComparisonOptions.unjudged,
            "worst": options.worst != ComparisonOptions.worst, "resamples": resamples != RESAMPLES,
            "proxy_labels": proxy_labels is not None,
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
    template, window = query_template, how.window
    used = _deployments(cluster, named.values())
    if index is None:
        index = _shared([deployment.index for deployment in used])
    if template is None and not same_query:
        shared_search = _shared([deployment.search for deployment in used])
        if shared_search is not None:
            template, window = shared_search["template"], window or shared_search["window"]
    judged, proxy = read_lists(columns, judgments, proxy_labels, topics=topics, asked=True)
    shared: dict[str, Any] = {
        "query_template": template, "window": window, "topics": topics, "split": split,
        "params": how.params, "in_flight": how.in_flight, "unweighted": options.unweighted,
        "judged_by": how.judged_by,
    }  # fmt: skip
    live = LiveQueries.of(cluster, judged, None, **shared)
    of_all = None if proxy is None else LiveQueries.of(cluster, proxy, None, **shared)
    serving = partial(
        LiveRankers, cluster=cluster, query_template=template, window=live.window,
        judged=(of_all or live).judged, index=index, featureset=how.featureset,
        tables=tables_of(how.extra_features), plugins=request.plugins, same_query=same_query,
    )  # fmt: skip

    def served(trials: ExitStack) -> LiveRankers:
        return serving(trials=trials)

    comparison: LiveComparison
    if alone:
        comparison = compare_with_query(request, live, served)
    else:
        comparison = compare_rankers(request, live, served, of_all)
    data_name = str(judgments) if isinstance(judgments, Path | str) else ""
    pool = _pool_command(
        cluster, list(named.values()), topics or judgments, judgments,
        columns=columns, template=query_template, window=how.window, index=index,
        featureset=how.featureset,
    )  # fmt: skip
    comparison = replace(
        comparison, data_name=data_name, n_worst=options.worst, same_query=same_query, pool=pool
    )
    if out is not None:
        comparison.evidence().write(out)
    write_comparison(comparison, per_query, latex)
    write_report(comparison, report, plugins)
    return comparison


def _pool_command(
    cluster: Cluster,
    rankers: Sequence[Any],
    queries: Any,
    judged: Any,
    *,
    columns: Mapping[str, str] | None,
    template: Any,
    **given: Any,
) -> str:
    """The command that writes a sheet of what is not judged; empty where it cannot be typed."""
    if not all(
        isinstance(part, Path | str) for part in (*rankers, queries, judged, template or "")
    ):
        return ""
    named = rankers if len(rankers) > 1 else [*rankers, "query"]
    options = {
        "queries": queries, "columns": ",".join(f"{k}={v}" for k, v in (columns or {}).items()),
        "sample": _TO_JUDGE, "rankers": ",".join(map(str, named)), "judged": judged,
        "query-template": template, **given, "out": "to-judge.csv",
    }  # fmt: skip
    words = [word for name, value in options.items() if value for word in (f"--{name}", str(value))]
    return shlex.join(["owpc-ltr", "judge", "pool", *words, *cluster.typed_options])


def _deployments(cluster: Cluster, rankers: Iterable[Any]) -> list[DeploymentRecord]:
    """The deployment records of the rankers that are uploaded models."""
    named = [ranker for ranker in rankers if isinstance(ranker, str) and not _is_elsewhere(ranker)]
    records = [cluster.models.deployment(name) for name in named]
    return [record for record in records if record is not None]


def _shared(values: Sequence[Any]) -> Any:
    """The only value of all; None where there are several or none."""
    return values[0] if values and all(value == values[0] for value in values) else None


def _is_elsewhere(ranker: str) -> bool:
    """Whether a text names a file, a query, a feature or another index, and no uploaded model."""
    from owpc_ltr.engine.live_results.rankers import QUERY
    from owpc_ltr.evaluation.data_comparison import LIVE
    from owpc_ltr.models.reordering import FEATURE

    named = ranker == QUERY or ranker.startswith((LIVE, FEATURE))
    return named or Path(ranker).is_file() or Path(ranker).suffix == ".json"


def _is_one_model(rankers: Sequence[Any] | Mapping[str, Any]) -> bool:
    """Whether there is one ranker, which is a model, and no other ranker to compare it with."""
    from owpc_ltr.data.runs import TrecRun, is_run

    if isinstance(rankers, Mapping) or len(rankers) != 1:
        return False
    (ranker,) = rankers
    if isinstance(ranker, Path | str):
        named = not Path(ranker).is_file() and Path(ranker).suffix != ".json"
        no_model = _is_elsewhere(str(ranker)) if named else is_run(Path(ranker))
        return not no_model
    return not isinstance(ranker, TrecRun | Mapping)
