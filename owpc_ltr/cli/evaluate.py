"""`owpc-ltr evaluate`: how good a model's rankings are, and whether that can be chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import A_MODEL, MODEL_OR_FEATURE, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import FieldSource, Json, Metrics, PluginFiles, Seed
from owpc_ltr.cli.output import print_json, print_table, warn

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.evaluation.evaluate import Measured
    from owpc_ltr.protocols import Ranker


@grouped
def evaluate(
    model: Annotated[Path, A_MODEL, typer.Argument(help="A model file, or that of a reranker.")],
    data: Annotated[Path, Reads(), typer.Argument(help="Judged queries: Parquet, or LETOR text.")],
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
    fields: FieldSource,
    seed: Seed = 0,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Measure a model, on the queries that were kept out when it was trained on DATA.

    Every figure comes with its convention, the number of queries, and what scoring every document
    alike would get.
    """
    from owpc_ltr.data.parquet import read_dataset
    from owpc_ltr.evaluation.evaluate import measure, model_data, score_warnings
    from owpc_ltr.metrics import parse_metric
    from owpc_ltr.models.reordering import dataset_scores, load_ranker

    metrics = [parse_metric(text) for text in metric or ["ndcg@10", "map", "mrr"]]
    ranker = load_ranker(model, plugin or ())
    chosen, side = model_data(ranker, read_dataset(data), queries)
    chosen = fields.added(chosen, _field_names(ranker))
    scores = dataset_scores(ranker, chosen)
    measured = measure(scores, chosen, metrics)
    comparisons = []
    if against is not None:
        others = measure(_other_scores(against, chosen, plugin or ()), chosen, metrics)
        comparisons = _compared(measured, others, seed)
    warnings = score_warnings(scores, chosen)
    if as_json:
        of = {"model": str(model), "data": str(data), "queries": side}
        figures = {"n_queries": chosen.n_queries, "metrics": [one.as_dict() for one in measured]}
        against_it = {"against": against, "comparisons": comparisons}
        print_json({**of, **figures, **against_it, "warnings": warnings})
        return
    typer.echo(f"{model} on {chosen.n_queries} queries of {data} ({_side_in_words(side)})")
    _print_measured(measured)
    if comparisons:
        typer.echo(f"\nagainst {against}, on the same queries:")
        _print_comparisons(comparisons)
    for message in warnings:
        warn(message)


def _side_in_words(side: str) -> str:
    return {"test": "held out when it was trained", "all": "all of them"}.get(side, f"{side} side")


def _field_names(ranker: Ranker) -> tuple[str, ...]:
    """The document fields that a reranker needs; a model needs none."""
    from owpc_ltr.models.reordering import ReorderingModel

    return ranker.field_names if isinstance(ranker, ReorderingModel) else ()


def _compared(
    ours: Sequence[Measured], others: Sequence[Measured], seed: int
) -> list[dict[str, Any]]:
    from owpc_ltr.evaluation.evaluate import compare

    return [
        {"metric": str(a.metric), **compare(a, b, seed).as_dict()}
        for a, b in zip(ours, others, strict=True)
    ]


def _other_scores(against: str, data: RankingDataset, plugins: Iterable[Path]) -> Vector:
    from owpc_ltr.evaluation.evaluate import model_data
    from owpc_ltr.models.reordering import FEATURE, dataset_scores, feature_ranker, load_ranker

    if against.startswith(FEATURE):
        return feature_ranker(against, data).score(data.features)
    other = load_ranker(Path(against), plugins)
    model_data(other, data, "all")
    return dataset_scores(other, data)


def _print_measured(measured: tuple[Measured, ...]) -> None:
    print_table(
        ["METRIC", "VALUE", "ALL ALIKE", "CONVENTION"],
        [(str(m.metric), m.mean, m.zero_baseline, m.metric.convention) for m in measured],
    )


def _print_comparisons(comparisons: list[dict[str, Any]]) -> None:
    print_table(
        [
            "METRIC",
            "THIS",
            "OTHER",
            "DIFFERENCE",
            "95 % INTERVAL",
            "P",
            "WINS",
            "LOSSES",
            "QUERIES",
        ],
        [
            (
                row["metric"],
                row["mean_a"],
                row["mean_b"],
                row["mean_difference"],
                f"[{row['low']:+.4f}, {row['high']:+.4f}]",
                row["p_permutation"],
                row["wins"],
                row["losses"],
                row["n_queries"],
            )
            for row in comparisons
        ],
    )
