"""`owpc-ltr train --reranker`: learn to reorder the lists of a base ranker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from owpc_ltr.cli.output import print_json, print_table, warn
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.cli.feature_cost import FeatureCosts
    from owpc_ltr.cli.learning import Learning
    from owpc_ltr.cli.options import FieldSource
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.rerankers import Reranked, RerankingPlan


def reranker_base(learning: Learning, costs: FeatureCosts, normalise: str | None) -> str:
    """The base that a reranker needs. Raises UsageError for what it has no use for."""
    if costs.feature_cost is not None:
        raise UsageError("--feature-cost is for models, not for rerankers: leave it out")
    if learning.base is None:
        raise UsageError(
            "a reranker reorders the lists of a base ranker: give --base MODEL.json, or "
            "--base feature:NAME for the engine's own score"
        )
    if learning.optimizer is not None or normalise is not None:
        option = "--optimizer" if learning.optimizer is not None else "--normalise"
        raise UsageError(
            f"{option} is for models, and a reranker brings its own: give its settings with "
            "--set reranker.FIELD=VALUE"
        )
    return learning.base


def learn_reranker(
    plan: RerankingPlan,
    base: str,
    sides: DatasetSplits[RankingDataset],
    fields: FieldSource,
    run: Run,
) -> Reranked:
    """A reordering of the base's lists, learned on one side and chosen on the other."""
    from owpc_ltr.models.reordering import read_base
    from owpc_ltr.training.rerankers import fit_reranker

    names, validation = plan.field_names, sides.optional_validation
    return fit_reranker(
        fields.added(sides.training, names),
        read_base(base, sides.everything),
        plan,
        run,
        None if validation is None else fields.added(validation, names),
        {**sides.source, "base": Path(base).name},
    )


def print_reranked(reranked: Reranked, base: str, out: Path, *, as_json: bool) -> None:
    """The candidates, the chosen one, and where it was written."""
    record = reranked.model.record
    if as_json:
        shown = {key: value for key, value in record.items() if key != "probes"}
        print_json({"model": str(out), "base": base, "chosen": reranked.settings, **shown})
        return
    if record["validation"] is not None:
        _print_candidates(reranked.table, record["select"])
    if reranked.settings is None:
        warn("nothing was better than the base on the validation queries: the file ranks as it")
    else:
        settings = ", ".join(f"{name}={value}" for name, value in reranked.settings.items())
        typer.echo(f"chosen: {settings or 'the defaults'}")
    typer.echo(f"learned on {record['queries']} queries, {record['documents']} documents")
    typer.echo(f"wrote {out}")


def _print_candidates(rows: Sequence[dict[str, Any]], select: str) -> None:
    """The base and each candidate, with the settings in which they differ."""
    varied = [
        name for name in rows[-1]
        if name not in {"reordering", "validation"}
        and len({str(row.get(name)) for row in rows[1:]}) > 1
    ]  # fmt: skip
    print_table(["CANDIDATE", *varied, f"validation {select}"], [_row(row, varied) for row in rows])


def _row(row: dict[str, Any], varied: Sequence[str]) -> list[object]:
    name = "reranked" if row["reordering"] else "the base"
    return [name, *(str(row.get(setting, "")) for setting in varied), row["validation"]]
