"""`owpc-ltr train`: learn a ranker from a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from owpc_ltr.cli.feature_cost import FeatureCosts, print_path
from owpc_ltr.cli.files import Reads, check_writable
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.learning import Learning
from owpc_ltr.cli.options import FieldSource, Json, ModelFile, PluginFiles, Seed, Threads
from owpc_ltr.cli.output import print_json, print_table, progress
from owpc_ltr.cli.rerank import print_reranked, reranker_base
from owpc_ltr.cli.sides import SplitOptions
from owpc_ltr.errors import UsageError


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
    costs: FeatureCosts,
    fields: FieldSource,
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
    """
    from owpc_ltr.api.models import save_model
    from owpc_ltr.api.training import check_plan, train_reranker
    from owpc_ltr.api.training import train as train_model

    check_writable(out)
    common: dict[str, Any] = {"seed": seed, "threads": threads, "plugins": plugin or ()}
    if learning.reranker is not None:
        base, how = reranker_base(learning, costs, normalise), learning.of_a_reordering()
        check_plan(plugins=plugin or (), **how)
        with progress() as show:
            splits = split.read(data)
            source = {**splits.source, "base": Path(base).name}
            files: dict[str, Any] = {"documents": fields.documents, "id_field": fields.id_field}
            reordering = train_reranker(
                splits.training, base, validation=splits.optional_validation, source=source,
                progress=show, **files, **how, **common,
            )  # fmt: skip
        save_model(reordering, out)
        print_reranked(reordering.record, base, out, as_json=as_json)
        return
    _refuse_reranker_options(learning, fields)
    how = learning.of_a_model() | ({} if normalise is None else {"normalise": normalise})
    check_plan(plugins=plugin or (), **how)
    prices = costs.read()
    splits = split.read(data)
    with progress() as show:
        model = train_model(
            splits.training, validation=splits.optional_validation, costs=prices,
            source=splits.source, progress=show, **how, **common,
        )  # fmt: skip
    save_model(model, out)
    if "feature_cost" in model.record and not as_json:
        print_path(model.record["feature_cost"])
    _print(model.record, out, as_json=as_json)


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
    certificate = record["certificate"]
    typer.echo(f"chosen: {told or 'the defaults'}")
    typer.echo(
        f"trained on {record['queries']} queries, {record['documents']} documents; "
        f"{certificate['stop_reason']} ({certificate['passes']} passes, "
        f"{certificate['nonzero_duals']} non-zero duals)"
    )
    typer.echo(f"wrote {out}")


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
