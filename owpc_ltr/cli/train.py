"""`owpc-ltr train`: learn a ranker from a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from owpc_ltr.cli.feature_cost import FeatureCosts, print_path
from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.learning import CurveOptions, Learning
from owpc_ltr.cli.live import JudgmentCheck
from owpc_ltr.cli.options import (
    Cluster,
    FieldSource,
    Json,
    ModelFile,
    PluginFiles,
    Report,
    Seed,
    Threads,
)
from owpc_ltr.cli.output import print_json, print_table, progress
from owpc_ltr.cli.rerank import print_reranked, reranker_base
from owpc_ltr.cli.sides import SplitOptions
from owpc_ltr.errors import UsageError


class MissingValues(StrEnum):
    """What is made of missing values in training."""

    zero = "zero"


@grouped
def train(
    data: Annotated[
        Path, Reads(), typer.Argument(help="A dataset: Parquet, or LETOR text (.gz, .xz).")
    ],
    *,
    out: ModelFile,
    learning: Learning,
    split: SplitOptions,
    normalise: Annotated[
        str | None,
        typer.Option(
            help="scale (default): features by their spread within queries; none: as they are."
        ),
    ] = None,
    missing: Annotated[
        MissingValues | None,
        typer.Option(help="zero: missing values are 0, as engines before 3.8 score trees."),
    ] = None,
    curves: CurveOptions,
    costs: FeatureCosts,
    fields: FieldSource,
    check: JudgmentCheck,
    cluster: Cluster = None,
    report: Report = None,
    seed: Seed = 0,
    threads: Threads = 1,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Train a ranker, its settings chosen on validation queries.

    It is written as one JSON file.

    Without --validation the queries of DATA are cut in three by the hash of their ids: training,
    validation and test. `owpc-ltr evaluate MODEL DATA` then measures on the test queries.
    With --reranker it learns to reorder the lists of --base, which stays a candidate itself.
    Judgments that would teach harm are warned of; with --index the engine is asked as well.
    """
    from owpc_ltr_dask.use_workers import on, workers_if_asked

    from owpc_ltr.api.models import save_model
    from owpc_ltr.api.training import check_plan, keep_warnings, train_reranker
    from owpc_ltr.api.training import train as train_model

    common: dict[str, Any] = {"seed": seed, "threads": threads, "plugins": plugin or ()}
    if learning.reranker is not None:
        if cluster is not None:
            raise UsageError("--cluster is for models, not for rerankers: leave it out")
        if missing is not None:
            raise UsageError("--missing is for models, not for rerankers: leave it out")
        if curves.piecewise_linear:
            raise UsageError("--piecewise-linear is for models, not for rerankers: leave it out")
        base, how = reranker_base(learning, costs, normalise), learning.of_a_reordering()
        check_plan(plugins=plugin or (), **how)
        with progress() as show:
            splits = split.read(data)
            doubts = check.warn_of(splits.everything)
            source = {**splits.source, "base": Path(base).name}
            files: dict[str, Any] = {"documents": fields.documents, "id_field": fields.id_field}
            reordering = train_reranker(
                splits.training, base, validation=splits.optional_validation, source=source,
                progress=show, **files, **how, **common,
            )  # fmt: skip
        reordering = keep_warnings(reordering, doubts)
        save_model(reordering, out)
        _write_page(report, out, reordering, splits.training, plugin)
        print_reranked(reordering.record, base, out, as_json=as_json)
        return
    _refuse_reranker_options(learning, fields)
    how = learning.of_a_model() | ({} if normalise is None else {"normalise": normalise})
    how |= curves.asked()
    if missing is not None:
        how["missing"] = missing.value
    check_plan(plugins=plugin or (), **how)
    prices = costs.read()
    if cluster is not None:
        split.check_in_parts(data)
    splits = split.read(data)
    doubts = check.warn_of(splits.everything)
    with progress() as show, workers_if_asked(cluster, plugin or ()) as workers:
        model = train_model(
            on(splits.training, workers), validation=on(splits.optional_validation, workers),
            costs=prices, source=splits.source, progress=show, **how, **common,
        )  # fmt: skip
    model = keep_warnings(model, doubts)
    save_model(model, out)
    _write_page(report, out, model, splits.training, plugin)
    if "feature_cost" in model.record and not as_json:
        print_path(model.record["feature_cost"])
    _print(model.record, out, as_json=as_json)
    if missing is not None and not as_json:
        typer.echo(_cost_of_filling(model.kind, data, out))


def _write_page(
    page: Path | None, out: Path, model: Any, training: Any, plugins: list[Path] | None
) -> None:
    """The page of a trained ranker, where one is asked for."""
    if page is None:
        return
    from owpc_ltr_report.report import Named, report

    report(Named(out.name, model), training, out=page, plugins=plugins or ())


def _cost_of_filling(kind: str, data: Path, out: Path) -> str:
    if kind == "linear":
        return "missing values are 0 to every linear model: --missing zero changes nothing here"
    return (
        "missing values are 0: to see what that costs, train OTHER.json without --missing zero, "
        f"and compare with owpc-ltr evaluate {out} {data} --against OTHER.json"
    )


def _refuse_reranker_options(learning: Learning, fields: FieldSource) -> None:
    if learning.base is not None or fields.documents is not None:
        option = "--base" if learning.base is not None else "--documents"
        raise UsageError(f"{option} is for rerankers: add --reranker, or leave it out")


def _print(record: Mapping[str, Any], out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({"model": str(out), **{k: v for k, v in record.items() if k != "probes"}})
        return
    settings = _chosen(record)
    _print_candidates(record, settings)
    told = ", ".join(f"{name}={value}" for name, value in settings.items())
    typer.echo(f"chosen: {told or 'the defaults'}")
    typer.echo(
        f"trained on {record['queries']} queries, {record['documents']} documents"
        f"{_ended(record['certificate'])}"
    )
    typer.echo(f"wrote {out}")


def _ended(certificate: Mapping[str, Any]) -> str:
    """Why and after what the fit ended, as far as its optimizer tells."""
    counts = {"passes": certificate["passes"], "non-zero duals": certificate["nonzero_duals"]}
    told = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    reason = certificate["stop_reason"]
    if not reason:
        return f"; {told}" if told else ""
    return f"; {reason} ({told})" if told else f"; {reason}"


def _chosen(record: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the first candidate that was as good as the chosen one, which is itself."""
    value = record["validation"]
    row = next(row for row in record["table"] if row.get("validation") == value)
    return {name: row[name] for name in row if "." in name}


def _print_candidates(record: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """What was tried, with the settings in which they differ; nothing where they do not."""
    table = record["table"]
    varied = [name for name in settings if len({str(row[name]) for row in table}) > 1]
    if varied:
        print_table(
            [*varied, f"validation {record['select']}", "risk ratio", "gap", "passes"],
            [_row(row, varied) for row in table],
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
