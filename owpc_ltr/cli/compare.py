"""`owpc-ltr compare`: any rankers side by side, and whether their differences can be chance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.comparison_report import print_comparison
from owpc_ltr.cli.files import Reads, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.live import LiveQuery, LiveWindow
from owpc_ltr.cli.options import (
    FieldSource,
    Index,
    Join,
    Json,
    Latex,
    MaxFeatures,
    Memory,
    Params,
    PluginFiles,
    Report,
    Seed,
    Unweighted,
)
from owpc_ltr.cli.output import progress
from owpc_ltr.errors import UsageError
from owpc_ltr.host.report import write_report

if TYPE_CHECKING:
    from owpc_ltr.api.comparing_live import LiveSearch


@dataclass(frozen=True, kw_only=True)
class LiveRankers:
    """Where live rankers are asked, and by which query."""

    live: Annotated[
        bool, typer.Option("--live", help="Let every ranker rank the whole index, as users get it.")
    ] = False
    index: Index = None
    query: LiveQuery = None
    window: LiveWindow = 100
    topics: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="The texts of the queries, where qrels do not have them."),
    ] = None
    in_flight: Annotated[int, typer.Option(help="Searches under way at the same time.")] = 4
    param: Params = None
    featureset: Annotated[
        str | None, typer.Option(help="The feature set of model files; default: found by hash.")
    ] = None
    join: Join = None
    place: StoreOptions

    def refuse_without_live(self) -> None:
        """Refuse what only a live ranker would use."""
        given = {
            "--index": self.index,
            "--query": self.query,
            "--param": self.param,
            "--featureset": self.featureset,
            "--join": self.join,
        }
        for option, value in given.items():
            if value:
                raise UsageError(
                    f"{option} is for live rankers: name one (live:NAME@INDEX), add --live, or "
                    "leave it out"
                )

    def search(self) -> LiveSearch:
        """How live rankers are asked; nothing is asked yet."""
        from owpc_ltr.api.comparing_live import LiveSearch
        from owpc_ltr.features.parameters import named_params

        return LiveSearch(
            self.place.connect(), self.index, self.query, self.window, self.in_flight,
            named_params(self.param or ()), self.featureset, self.join,
        )  # fmt: skip


@grouped
def compare(
    rankers: Annotated[
        list[str],
        Reads(None),
        typer.Argument(
            help="Files of models, rerankers or TREC runs, feature:NAME, live:NAME@INDEX or "
            "live:QUERY.json."
        ),
    ],
    *,
    data: Annotated[
        Path,
        Reads(),
        typer.Option(help="Judged queries: a dataset; for runs and live rankers also TSV, qrels …"),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", "--metric", help="As ndcg@10,map, between commas; may be repeated."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Compare each ranker with this one alone; default: all pairs."),
    ] = None,
    queries: Annotated[
        str,
        typer.Option(help="auto (those that no ranker was trained on), all, test, train, …"),
    ] = "auto",
    unjudged: Annotated[
        str,
        typer.Option(
            help="Unjudged documents of lists: zero (irrelevant), skip (their queries left out), "
            "condensed (taken out)."
        ),
    ] = "zero",
    unweighted: Unweighted = False,
    worst: Annotated[
        int, typer.Option(min=0, help="How many of the queries that lose most are shown.")
    ] = 5,
    per_query: Annotated[
        Path | None,
        Writes(standard_output="the values of queries go to a file: name one, not -"),
        typer.Option(help="Also write each query's values: FILE.csv or FILE.parquet."),
    ] = None,
    report: Report = None,
    latex: Latex = None,
    cheap: Annotated[
        Path | None,
        Reads(),
        typer.Option(
            help="Cheap judgments (clicks, a language model) of all queries, of which --data has "
            "people's of a random sample."
        ),
    ] = None,
    strata: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="With --cheap: the strata that judge next wrote, if it drew the sample."),
    ] = None,
    fields: FieldSource,
    live: LiveRankers,
    max_features: MaxFeatures = None,
    memory: Memory = None,
    resamples: Annotated[
        int, typer.Option(min=100, help="Sign flips and bootstrap samples.")
    ] = 10_000,
    seed: Seed = 0,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Put rankers side by side on judged queries.

    Each mean has its 95 % interval. Each pair has its difference with an interval, p of a
    permutation test and of a t-test, p corrected over all pairs and metrics (Holm), and how many
    queries are won, drawn and lost. Queries that a ranker was trained on are left out.

    A ranker live:NAME@INDEX is an uploaded model in --query, live:QUERY.json a query of your
    application: one of them, or --live, makes all rankers rank the whole index.

    With --cheap, each pair has a prediction-powered interval besides: people's judgments, which the
    cheap ones of all queries make sharper.
    """
    from owpc_ltr.api.compared_data import read_data
    from owpc_ltr.api.compared_rankers import is_live, named_rankers, split_metrics
    from owpc_ltr.api.comparing import compare as compare_rankers
    from owpc_ltr.api.comparison_files import check_per_query, write_per_query
    from owpc_ltr.api.evaluation import METRICS
    from owpc_ltr.data.options import room_from

    named_rankers(rankers)
    if per_query is not None:
        check_per_query(per_query)
    room = room_from(memory)
    asks = live.live or any(map(is_live, rankers))
    if not asks:
        live.refuse_without_live()
    judged = read_data(data, topics=live.topics, asked=asks, memory=room, max_features=max_features)
    with progress() as show:
        found = compare_rankers(
            rankers,
            judged,
            split_metrics(metrics) or METRICS,
            baseline=baseline,
            queries=queries,
            unjudged=unjudged,
            unweighted=unweighted,
            live=live.search() if asks else False,
            cheap=cheap,
            strata=strata,
            documents=fields.documents,
            id_field=fields.id_field,
            resamples=resamples,
            seed=seed,
            progress=show,
            plugins=plugin or (),
        )
    if per_query is not None:
        write_per_query(found, per_query)
    write_report(found, report)
    if latex is not None:
        from owpc_ltr.api.comparison_files import write_latex

        write_latex(found, latex)
    print_comparison(found, str(data), worst, as_json=as_json)
