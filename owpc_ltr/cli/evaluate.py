"""`owpc-ltr evaluate`: how good a model's rankings are, and whether that can be chance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.files import MAYBE_A_FILE, MODEL_OR_FEATURE, Reads, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.live import LiveOptions, warn_of_judgments
from owpc_ltr.cli.live_report import print_live
from owpc_ltr.cli.options import (
    Cluster,
    FieldSource,
    Index,
    Join,
    Json,
    MaxFeatures,
    Memory,
    Metrics,
    PluginFiles,
    Seed,
    Unweighted,
)
from owpc_ltr.cli.output import print_json, print_table, print_wrapped, progress, warn
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.evaluation import Evaluation
    from owpc_ltr.api.results import ComparedPair, Measured


@grouped
def evaluate(
    model: Annotated[
        str,
        MAYBE_A_FILE,
        typer.Argument(help="A file of a model, reranker or TREC run; with --live also a NAME."),
    ],
    data: Annotated[
        Path | None,
        Reads(),
        typer.Argument(help="Judged queries: Parquet, or LETOR text; not with --live."),
    ] = None,
    *,
    metric: Metrics = None,
    against: Annotated[
        str | None,
        MODEL_OR_FEATURE,
        typer.Option(help="Compare with another MODEL.json, or with one feature: feature:NAME."),
    ] = None,
    queries: Annotated[
        str, typer.Option(help="auto (held-out ones if the model knows them), all, train, …")
    ] = "auto",
    unweighted: Unweighted = False,
    fields: FieldSource,
    run: Annotated[
        Path | None,
        Writes(needs_folder=False),
        typer.Option(help="Also write the ranking as a TREC run, to this file."),
    ] = None,
    live: LiveOptions,
    index: Index = None,
    featureset: Annotated[
        str | None, typer.Option(help="With --live, a file's feature set; default: found by hash.")
    ] = None,
    join: Join = None,
    max_features: MaxFeatures = None,
    memory: Memory = None,
    cluster: Cluster = None,
    place: StoreOptions,
    seed: Seed = 0,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Measure a ranker on judged queries, the held-out ones.

    Those are the queries that were kept out when it was trained on DATA.

    Every figure comes with its convention, the number of queries, and what scoring every document
    alike would get. With --index the engine is asked whether it brings what was judged.

    With --live every query of --judgments ranks the whole index, without and with the model, by
    the request that an application sends: what unjudged documents are taken for is said of every
    figure. A model FILE is in the cluster only meanwhile.
    """
    if live.live:
        if cluster is not None:
            raise UsageError("--dask is for DATA, and --live asks an engine: leave it out")
        if data is not None or against is not None:
            unused = "DATA" if data is not None else "--against"
            raise UsageError(
                f"--live compares with the query alone, by --judgments: leave {unused} out"
            )
        with progress() as show:
            ranked = place.connect().evaluate_live(
                model, replace(live.proof(queries, show), unweighted=unweighted),
                metric or ("ndcg@10", "map", "mrr"), index=index, featureset=featureset,
                join=join, seed=seed,
            )  # fmt: skip
        print_live(model, ranked, as_json=as_json)
        return
    live.refuse_without_live()
    if join:
        raise UsageError("--join is for --live: DATA has its joined columns already; leave it out")
    if data is None:
        raise UsageError("say on which judged queries: give DATA, or --live with --judgments")
    if "." not in model and ":" not in model and not Path(model).exists():
        raise UsageError(
            f"there is no model file {model}: an uploaded model is measured with --live "
            "--judgments FILE --index INDEX"
        )
    from owpc_ltr_dask.use_workers import check_in_parts, on, workers_if_asked

    from owpc_ltr.api.evaluation import METRICS, ranker_of
    from owpc_ltr.api.evaluation import evaluate as measure
    from owpc_ltr.data.datasets import open_or_read
    from owpc_ltr.data.options import room_from
    from owpc_ltr.data.partitioned.dataset import head_of
    from owpc_ltr.evaluation.run_files import write_run

    if cluster is not None:
        check_in_parts(data)
    judged = open_or_read(data, memory=room_from(memory), max_features=max_features)
    if run is not None and head_of(judged) is not judged:
        raise UsageError("--run lists documents of a dataset in memory: give a file, not a folder")
    warn_of_judgments(place.cluster, judged, index, live.query)
    with workers_if_asked(cluster, plugin or ()) as workers:
        found = measure(
            Path(model),
            on(judged, workers),
            metric or METRICS,
            against=against,
            queries=queries,
            documents=fields.documents,
            id_field=fields.id_field,
            unweighted=unweighted,
            seed=seed,
            plugins=plugin or (),
        )
    if run is not None and found.scores is not None:
        # Only a run has no score of some documents: those that it did not retrieve.
        lacking = (found.scores != found.scores).any()
        ranking = ranker_of(Path(model), judged) if lacking else found.scores
        write_run(ranking, head_of(found.data), run)
    if as_json:
        print_json({"model": str(model), "data": str(data), **_figures(found)})
    else:
        _print_evaluation(found, model, data)


def _figures(found: Evaluation) -> dict[str, Any]:
    figures = {"queries": found.side, "n_queries": found.data.n_queries, "metrics": found.table}
    if found.weighted:
        figures["weighted"] = True
    verdict = {} if found.verdict is None else {"verdict": found.verdict.as_dict()}
    against_it = {"against": found.against, "comparisons": found.comparison, **verdict}
    return {**figures, **against_it, "warnings": list(found.warnings)}


def _print_evaluation(found: Evaluation, model: str, data: Path) -> None:
    """The verdict first, then each figure with its convention."""
    from owpc_ltr.api.comparison_files import opening_of
    from owpc_ltr.api.evaluation import WEIGHTED, side_in_words

    if found.verdict is not None:
        first = found.pairs[0]
        print_wrapped(opening_of(found.verdict, first.a, first.b, first.metric))
    typer.echo(f"{model} on {found.data.n_queries} queries of {data} ({side_in_words(found.side)})")
    if found.weighted:
        typer.echo(f"means are {WEIGHTED} (--unweighted: all count the same)")
    _print_measured(found.measured)
    if found.pairs:
        compared = found.pairs[0].comparison.n_queries
        typer.echo(f"\nagainst {found.against}, on the same {compared} queries:")
        _print_comparisons(found.pairs)
    for message in found.warnings:
        warn(message)


def _print_measured(measured: tuple[Measured, ...]) -> None:
    print_table(
        ["METRIC", "VALUE", "BASELINE"],
        [(str(one.metric), one.mean, one.zero_baseline) for one in measured],
    )
    notes = [
        "baseline: the zero-score baseline, what scoring every document 0 gets",
        *(one.metric.convention for one in measured),
    ]
    for note in notes:
        print_wrapped(note, "  ", "    ")


def _print_comparisons(pairs: tuple[ComparedPair, ...]) -> None:
    from owpc_ltr.api.comparison_files import at_the_border, verdicts

    print_table(
        ["METRIC", "THIS", "OTHER", "DIFFERENCE", "95 % INTERVAL", "P", "WINS", "LOSSES"],
        [
            (
                pair.metric,
                one.mean_a,
                one.mean_b,
                one.mean_difference,
                f"[{one.low:+.4f}, {one.high:+.4f}]",
                pair.p_holm,
                pair.gained,
                pair.lost,
            )
            for pair in pairs
            for one in [pair.comparison]
        ],
    )
    for line in (*verdicts(pairs), *at_the_border(pairs)):
        print_wrapped(line)
