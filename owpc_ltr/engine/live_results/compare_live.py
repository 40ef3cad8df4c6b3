"""`compare_live`: rankers compared by their live results of the whole index."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Columns, Topics
from owpc_ltr.engine.live_queries import (
    InFlight,
    JudgedBy,
    JudgedQueries,
    ModelFeatureSet,
    judged_queries,
    with_judge,
    with_params,
)
from owpc_ltr.engine.options import (
    IN_FLIGHT,
    EvidenceFile,
    Params,
    QueryTemplate,
    SearchIndex,
    Window,
)
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import (
    METRICS,
    RESAMPLES,
    WORST_QUERIES,
    AcceptLoss,
    Baseline,
    LatexTable,
    Metrics,
    PerQueryTable,
    ProxyLabels,
    Resamples,
    Segments,
    SmallestGain,
    Split,
    Unjudged,
    Unweighted,
    Worst,
)
from owpc_ltr.host.commands import Plugins, ReportPage, write_report
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Seed, job, silent

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import JudgedQuery
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.live_queries import Judged
    from owpc_ltr.engine.live_results.comparison import LiveComparison

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
            project="model",
        ),
        Argument.RANKER,
    ],
    *,
    judgments: JudgedQueries,
    proxy_labels: ProxyLabels = None,
    metrics: Metrics = METRICS,
    baseline: Baseline = None,
    split: Split = "auto",
    unjudged: Unjudged = "zero",
    unweighted: Unweighted = False,
    smallest_gain: SmallestGain = 0.0,
    segments: Segments = None,
    accept_loss: AcceptLoss = (),
    worst: Worst = WORST_QUERIES,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    same_query: Annotated[
        bool,
        Help("Search for every model with `query_template` and `window`: compares models alone."),
    ] = False,
    columns: Columns = None,
    topics: Topics = None,
    params: Params = None,
    window: Window = None,
    featureset: ModelFeatureSet = None,
    in_flight: InFlight = IN_FLIGHT,
    judged_by: JudgedBy = None,
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
    `query_template`, by default the uploaded one's. Figures, tests and verdicts are those of
    `compare()`.

    `out` writes the comparison of a new model with what an alias serves as evidence, for
    `cluster.upload(require=…)` and `cluster.models.promote(require=…)`. Comparisons with an alias
    are counted in the cluster, and p is corrected for earlier ones on these queries. With
    `proxy_labels` of all queries, those of `judgments` are human labels of a random sample, and
    prediction-powered figures decide.

    One ranker is compared with the query template alone.

    Python: `rankers` are also models, runs (`read_run`), or a mapping of names to rankers;
    `judgments` may be what was read before.
    Raises UsageError for a metric that cannot be measured live or a ranker that there is not,
    Refused where too few queries are left.
    """
    from contextlib import ExitStack
    from dataclasses import replace

    from owpc_ltr.engine.live_results.comparison import compare_rankers
    from owpc_ltr.engine.live_results.rankers import QUERY, LiveRankers, deployments_of
    from owpc_ltr.evaluation.compare import (
        check_table,
        comparison_request,
        named_rankers,
        write_comparison,
    )
    from owpc_ltr.evaluation.judged_data import read_lists
    from owpc_ltr.evaluation.measurement import Resampling

    check_table(per_query)
    if not isinstance(rankers, Mapping | str | Path) and len(rankers) == 1 and rankers[0] != QUERY:
        rankers, baseline = [*rankers, QUERY], baseline or QUERY
    named = named_rankers(rankers)
    if out is not None and len(named) > 2:
        raise UsageError(
            f"`out` is evidence for one new model over what users have: name these "
            f"two rankers, and not {len(named)}"
        )
    request = comparison_request(
        named,
        metrics,
        plugins,
        unjudged=unjudged,
        unweighted=unweighted,
        smallest_gain=smallest_gain,
        segments=segments,
        accept_loss=accept_loss,
        baseline=baseline,
        split=split,
        drawing=Resampling(seed, resamples, progress),
    )
    used = deployments_of(cluster, named.values())
    template, where, rescored = query_template, index, window
    if where is None:
        where = _shared([deployment.index for deployment in used.values()])
    if template is None and not same_query:
        shared_search = _shared([deployment.search for deployment in used.values()])
        if shared_search is not None:
            template, rescored = shared_search["template"], window or shared_search["window"]
    judged, proxy = read_lists(columns, judgments, proxy_labels, topics=topics, asked=True)

    def queries(source: Judged) -> list[JudgedQuery]:
        return with_params(with_judge(judged_queries(source, topics), judged_by), params)

    human = queries(judged)
    asked, people = (human, None) if proxy is None else (queries(proxy), human)
    with ExitStack() as trials:
        live = LiveRankers(
            cluster=cluster,
            query_template=template,
            window=rescored,
            judged=asked,
            trials=trials,
            same_query=same_query,
            index=where,
            featureset=featureset,
            plugins=request.plugins,
            deployments=used,
        )
        comparison = compare_rankers(request, live, in_flight, people, for_evidence=out is not None)
    pool = _pool_command(
        cluster,
        list(named.values()),
        topics or judgments,
        judgments,
        columns=columns,
        template=query_template,
        window=window,
        index=where,
        featureset=featureset,
    )
    data_name = str(judgments) if isinstance(judgments, Path | str) else ""
    comparison = replace(comparison, data_name=data_name, n_worst=worst, pool=pool)
    if out is not None:
        comparison.evidence().write(out)
    write_comparison(comparison, per_query, latex)
    write_report(comparison, report, plugins)
    return comparison


def _pool_command(
    cluster: Cluster,
    rankers: Sequence[Any],
    queries: object,
    judged: object,
    *,
    columns: Mapping[str, str] | None,
    template: object,
    **given: object,
) -> str:
    """The command that writes a sheet of what is not judged; empty where it cannot be typed."""
    if not all(
        isinstance(part, Path | str) for part in (*rankers, queries, judged, template or "")
    ):
        return ""
    options = {
        "queries": queries,
        "columns": ",".join(f"{k}={v}" for k, v in (columns or {}).items()),
        "sample": _TO_JUDGE,
        "rankers": ",".join(map(str, rankers)),
        "judged": judged,
        "query-template": template,
        **given,
        "out": "to-judge.csv",
    }
    words = [word for name, value in options.items() if value for word in (f"--{name}", str(value))]
    return shlex.join(["owpc-ltr", "judge", "pool", *words]) + cluster.typed_options


def _shared(values: Sequence[Any]) -> Any:
    """The only value of all; None where there are several or none."""
    return values[0] if values and all(value == values[0] for value in values) else None
