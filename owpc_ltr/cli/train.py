"""`owpc-ltr train`: learn a ranker from a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.feature_cost import FeatureCost, FeaturePrice, print_path, read_costs
from owpc_ltr.cli.options import Documents, IdField, Json, PluginFiles, Seed, Threads
from owpc_ltr.cli.output import print_json, print_table, progress, warn
from owpc_ltr.cli.rerank import FieldSource, check_options, print_reranked, reranking_plan
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.data import RankingDataset
    from owpc_ltr.interfaces import Run
    from owpc_ltr.rerank_training import Reranked, RerankingPlan
    from owpc_ltr.training import Plan, Trained


def train(
    data: Annotated[Path, typer.Argument(help="A dataset: Parquet, or LETOR text (.gz, .xz).")],
    out: Annotated[Path, typer.Option(help="Where the model goes (JSON).")],
    loss: Annotated[
        str | None,
        typer.Option(help="Which loss; default: owpc, for a reranker bregman. See: plugins."),
    ] = None,
    optimizer: Annotated[str | None, typer.Option(help="Which optimizer; default: larank.")] = None,
    reranker: Annotated[
        str | None,
        typer.Option(help="Learn to reorder whole lists instead, on top of --base."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="What a reranker starts from: MODEL.json, or feature:NAME."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, as loss.generator=top or optimizer.C=10."),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(help="Values to choose among: C=1e-3..1e3, loss.generator=constant,inverse."),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            help="The metric by which validation queries choose; default: map, for a reranker "
            "ndcg@10."
        ),
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Validation queries; else a share of DATA, by hash.")
    ] = None,
    validation_share: Annotated[
        float, typer.Option(help="Share of DATA's queries that choose the settings.")
    ] = 0.2,
    test_share: Annotated[
        float, typer.Option(help="Share of DATA's queries kept out for `evaluate`.")
    ] = 0.2,
    normalise: Annotated[
        str | None,
        typer.Option(
            help="scale (default): features by their spread within queries; none: as they are."
        ),
    ] = None,
    feature_cost: FeatureCost = None,
    feature_price: FeaturePrice = 0.001,
    documents: Documents = None,
    id_field: IdField = None,
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
    from owpc_ltr.dataset_file import read_dataset
    from owpc_ltr.feature_selection import train_at_cost
    from owpc_ltr.interfaces import Run
    from owpc_ltr.models import save_model
    from owpc_ltr.training import train as train_model

    check_writable(out)
    shares = validation, validation_share, test_share
    if reranker is not None:
        if feature_cost is not None:
            raise UsageError("--feature-cost is for models, not for rerankers: leave it out")
        base = check_options(base, optimizer, normalise)
        reranking = reranking_plan(reranker, loss, setting or (), grid or (), select, plugin or ())
        fields = FieldSource(documents, id_field)
        with progress() as show:
            run = Run(seed=seed, threads=threads, progress=show)
            reranked = _train_reranker(reranking, base, data, shares, fields, run)
        save_model(reranked.model, out)
        print_reranked(reranked, base, out, as_json=as_json)
        return
    if base is not None or documents is not None:
        option = "--base" if base is not None else "--documents"
        raise UsageError(f"{option} is for rerankers: add --reranker, or leave it out")
    plan = _plan(loss, optimizer, setting or [], grid or [], select, normalise, plugin)
    costs = None if feature_cost is None else read_costs(feature_cost, feature_price)
    training, chosen_on, source = _sides(read_dataset(data), data, *shares)
    with progress() as show:
        run = Run(seed=seed, threads=threads, progress=show)
        if costs is None:
            trained = train_model(training, plan, run, chosen_on, source)
        else:
            selected = train_at_cost(training, plan, run, chosen_on, costs, source)
            trained = selected.trained
    save_model(trained.model, out)
    if costs is not None and not as_json:
        print_path(selected)
    _print(trained, out, as_json=as_json)


def _train_reranker(
    plan: RerankingPlan,
    base: str,
    data: Path,
    shares: tuple[Path | None, float, float],
    fields: FieldSource,
    run: Run,
) -> Reranked:
    from owpc_ltr.dataset_file import read_dataset
    from owpc_ltr.rerank_training import fit_reranker
    from owpc_ltr.reranking import read_base

    everything = read_dataset(data)
    training, chosen_on, source = _sides(everything, data, *shares)
    return fit_reranker(
        fields.added(training, plan),
        read_base(base, everything),
        plan,
        run,
        None if chosen_on is None else fields.added(chosen_on, plan),
        {**source, "base": Path(base).name},
    )


def check_writable(path: Path) -> None:
    """Refuse an output that could not be written, before the work rather than after it."""
    import os

    if path.is_dir():
        raise UsageError(f"cannot write to {path}: it is a folder; name a file")
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {folder} is not writable")


def _plan(
    loss: str | None,
    optimizer: str | None,
    settings: list[str],
    grids: list[str],
    select: str | None,
    normalise: str | None,
    files: list[Path] | None,
) -> Plan:
    from owpc_ltr import registry as registries
    from owpc_ltr.grids import parse_grid
    from owpc_ltr.settings import parse_settings
    from owpc_ltr.training import Plan

    registry = registries.load(files or [])
    loss_class = registry.find("loss", loss or "owpc")
    optimizer_class = registry.find("optimizer", optimizer or "larank")
    fixed = {
        f"{kind}.{name}": value
        for kind, values in parse_settings(settings).items()
        for name, value in values.items()
    }
    grid = dict(parse_grid(text, loss_class, optimizer_class) for text in grids)
    plan = Plan(loss_class, optimizer_class, fixed, grid, select or "map", normalise or "scale")
    for candidate in plan.candidates():
        plan.make(candidate)
    return plan


def _sides(
    everything: RankingDataset,
    path: Path,
    validation: Path | None,
    validation_share: float,
    test_share: float,
) -> tuple[RankingDataset, RankingDataset | None, dict[str, Any]]:
    """Training and validation queries, and what the record says of where they are from."""
    from owpc_ltr.dataset_file import read_dataset
    from owpc_ltr.splits import HashSplit

    source: dict[str, Any] = {"data": path.name, "fingerprint": everything.fingerprint}
    if validation is not None:
        return everything, read_dataset(validation), {**source, "validation": validation.name}
    if validation_share == test_share == 0:
        return everything, None, source
    split = HashSplit(validation_share, test_share)
    chosen_on = split.part(everything, "validation") if validation_share else None
    return split.part(everything, "train"), chosen_on, {**source, "split": split.as_dict()}


def _print(trained: Trained, out: Path, *, as_json: bool) -> None:
    record = trained.model.record
    if as_json:
        print_json({"model": str(out), **{k: v for k, v in record.items() if k != "probes"}})
        return
    varied = [
        name for name in trained.settings if len({str(row[name]) for row in trained.table}) > 1
    ]
    if varied:
        headers = [*varied, f"validation {record['select']}", "risk ratio", "gap", "passes"]
        print_table(
            headers,
            [
                [
                    *(str(row[name]) for name in varied),
                    row.get("validation", float("nan")),
                    _number(row["risk_ratio"]),
                    _number(row["relative_gap"]),
                    row["passes"],
                ]
                for row in trained.table
            ],
        )
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


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
