"""`owpc-ltr train --reranker`: learn to reorder the lists of a base ranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from owpc_ltr.cli.output import print_json, print_table, warn
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.data import RankingDataset
    from owpc_ltr.rerank_training import Reranked, RerankingPlan


@dataclass(frozen=True)
class FieldSource:
    """The file of documents that kernels of document fields read, and where their ids stand."""

    documents: Path | None
    id_field: str | None

    def added(self, data: RankingDataset, plan: RerankingPlan) -> RankingDataset:
        """The data with the fields that a plan needs."""
        from owpc_ltr.document_fields import with_document_fields

        return with_document_fields(data, plan.field_names, self.documents, self.id_field)


def reranking_plan(
    reranker: str,
    loss: str | None,
    settings: Sequence[str],
    grids: Sequence[str],
    select: str | None,
    files: Sequence[Path],
) -> RerankingPlan:
    """What the options ask for; everything that can be refused is refused here."""
    from owpc_ltr import registry as registries
    from owpc_ltr.grids import parse_grid
    from owpc_ltr.rerank_training import RerankingPlan
    from owpc_ltr.settings import parse_settings

    registry = registries.load(files)
    reranker_class = registry.find("reranker", reranker)
    loss_class = registry.find("loss", loss or "bregman")
    fixed = {
        f"{kind}.{name}": value
        for kind, values in parse_settings(list(settings)).items()
        for name, value in values.items()
    }
    grid = dict(parse_grid(text, loss_class, reranker_class, "reranker") for text in grids)
    plan = RerankingPlan(loss_class, reranker_class, fixed, grid, select or "ndcg@10")
    for candidate in plan.candidates():
        plan.make(candidate)
    return plan


def check_options(base: str | None, optimizer: str | None, normalise: str | None) -> str:
    """The base that a reranker needs. Raises UsageError for what it has no use for."""
    if base is None:
        raise UsageError(
            "a reranker reorders the lists of a base ranker: give --base MODEL.json, or "
            "--base feature:NAME for the engine's own score"
        )
    if optimizer is not None or normalise is not None:
        option = "--optimizer" if optimizer is not None else "--normalise"
        raise UsageError(
            f"{option} is for models, and a reranker brings its own: give its settings with "
            "--set reranker.FIELD=VALUE"
        )
    return base


def print_reranked(reranked: Reranked, base: str, out: Path, *, as_json: bool) -> None:
    """The candidates, the chosen one, and where it was written."""
    record = reranked.model.record
    if as_json:
        shown = {key: value for key, value in record.items() if key != "probes"}
        print_json({"model": str(out), "base": base, "chosen": reranked.settings, **shown})
        return
    rows = reranked.table
    varied = [
        name for name in rows[-1]
        if name not in {"reordering", "validation"}
        and len({str(row.get(name)) for row in rows[1:]}) > 1
    ]  # fmt: skip
    if record["validation"] is not None:
        print_table(
            ["CANDIDATE", *varied, f"validation {record['select']}"],
            [_row(row, varied) for row in rows],
        )
    if reranked.settings is None:
        warn("nothing was better than the base on the validation queries: the file ranks as it")
    else:
        settings = ", ".join(f"{name}={value}" for name, value in reranked.settings.items())
        typer.echo(f"chosen: {settings or 'the defaults'}")
    typer.echo(f"learned on {record['queries']} queries, {record['documents']} documents")
    typer.echo(f"wrote {out}")


def _row(row: dict[str, Any], varied: Sequence[str]) -> list[object]:
    name = "reranked" if row["reordering"] else "the base"
    return [name, *(str(row.get(setting, "")) for setting in varied), row["validation"]]
