"""`owpc-ltr train`: learn a ranker from a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.feature_cost import FeatureCosts, print_path
from owpc_ltr.cli.files import Reads, check_writable
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.learning import Learning
from owpc_ltr.cli.options import FieldSource, Json, ModelFile, PluginFiles, Seed, Threads
from owpc_ltr.cli.output import print_json, print_table, progress, warn
from owpc_ltr.cli.rerank import learn_reranker, print_reranked, reranker_base
from owpc_ltr.cli.sides import DatasetSplits, SplitOptions
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.feature_selection import Costs, Selected
    from owpc_ltr.training.train import Plan, Trained


@grouped
def train(
    data: Annotated[
        Path, Reads(), typer.Argument(help="A dataset: Parquet, or LETOR text (.gz, .xz).")
    ],
    *,
    out: ModelFile,
    learning: Learning,
    cut: SplitOptions,
    normalise: Annotated[
        str | None,
        typer.Option(
            help="scale (default): features by their spread within queries; none: as they are."
        ),
    ] = None,
    costs: FeatureCosts,
    fields: FieldSource,
    seed: Seed = 0,
    threads: Threads = 1,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Learn a ranker, its settings chosen on validation queries, and write it as one JSON file.

    Without --validation the queries of DATA are cut in three by the hash of their ids: training,
    validation and test. `owpc-ltr evaluate MODEL DATA` then measures on the test queries.
    With --reranker it learns to reorder the lists of --base, which stays a candidate itself.
    """
    from owpc_ltr.models.linear import save_model
    from owpc_ltr.protocols import Run

    check_writable(out)
    if learning.reranker is not None:
        base = reranker_base(learning, costs, normalise)
        reranking = learning.reranking_plan(plugin or ())
        with progress() as show:
            run = Run(seed=seed, threads=threads, progress=show)
            reranked = learn_reranker(reranking, base, cut.read(data), fields, run)
        save_model(reranked.model, out)
        print_reranked(reranked, base, out, as_json=as_json)
        return
    _refuse_reranker_options(learning, fields)
    plan = learning.model_plan(normalise, plugin or ())
    prices = costs.read()
    sides = cut.read(data)
    with progress() as show:
        run = Run(seed=seed, threads=threads, progress=show)
        trained, selected = _learn_model(plan, sides, run, prices)
    save_model(trained.model, out)
    if selected is not None and not as_json:
        print_path(selected)
    _print(trained, out, as_json=as_json)


def _refuse_reranker_options(learning: Learning, fields: FieldSource) -> None:
    if learning.base is not None or fields.documents is not None:
        option = "--base" if learning.base is not None else "--documents"
        raise UsageError(f"{option} is for rerankers: add --reranker, or leave it out")


def _learn_model(
    plan: Plan, sides: DatasetSplits, run: Run, costs: Costs | None
) -> tuple[Trained, Selected | None]:
    """The model, and how its features were chosen where they have costs."""
    from owpc_ltr.training.feature_selection import train_at_cost
    from owpc_ltr.training.train import train as train_model

    if costs is None:
        return train_model(sides.training, plan, run, sides.validation, sides.source), None
    selected = train_at_cost(sides.training, plan, run, sides.validation, costs, sides.source)
    return selected.trained, selected


def _print(trained: Trained, out: Path, *, as_json: bool) -> None:
    record = trained.model.record
    if as_json:
        print_json({"model": str(out), **{k: v for k, v in record.items() if k != "probes"}})
        return
    _print_candidates(trained)
    settings = ", ".join(f"{name}={value}" for name, value in trained.settings.items())
    certificate = trained.fit.certificate
    typer.echo(f"chosen: {settings or 'the defaults'}")
    typer.echo(
        f"trained on {record['queries']} queries, {record['documents']} documents; "
        f"{certificate.stop_reason} ({certificate.passes} passes, "
        f"{certificate.nonzero_duals} non-zero duals)"
    )
    for message in trained.warnings:
        warn(message)
    typer.echo(f"wrote {out}")


def _print_candidates(trained: Trained) -> None:
    """What was tried, with the settings in which they differ; nothing where they do not."""
    varied = [
        name for name in trained.settings if len({str(row[name]) for row in trained.table}) > 1
    ]
    if varied:
        select = trained.model.record["select"]
        print_table(
            [*varied, f"validation {select}", "risk ratio", "gap", "passes"],
            [_row(row, varied) for row in trained.table],
        )


def _row(row: dict[str, Any], varied: Sequence[str]) -> list[object]:
    return [
        *(str(row[name]) for name in varied),
        row.get("validation", float("nan")),
        _number(row["risk_ratio"]),
        _number(row["relative_gap"]),
        row["passes"],
    ]


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
