"""`owpc-ltr train --reranker`: learn to reorder the lists of a base ranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from owpc_ltr.cli.output import print_json, print_table, warn
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.cli.feature_cost import FeatureCosts
    from owpc_ltr.cli.learning import Learning


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


def print_reranked(record: Mapping[str, Any], base: str, out: Path, *, as_json: bool) -> None:
    """The candidates, the chosen one, and where it was written."""
    settings = record["chosen"]
    if as_json:
        shown = {key: value for key, value in record.items() if key != "probes"}
        print_json({"model": str(out), "base": base, **shown})
        return
    if record["validation"] is not None:
        _print_candidates(record["table"], record["select"])
    if settings is None:
        warn("nothing was better than the base on the validation queries: the file ranks as it")
    else:
        told = ", ".join(f"{name}={value}" for name, value in settings.items())
        typer.echo(f"chosen: {told or 'the defaults'}")
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
