"""`owpc-ltr metrics`: what each metric means; and why other libraries print another figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import MODEL_OR_FEATURE, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, MaxFeatures, PluginFiles
from owpc_ltr.cli.output import print_json, print_table, print_wrapped
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.results import Reconciled

_NOTHING = 5e-7


@grouped
def metrics(
    data: Annotated[
        Path | None, Reads(), typer.Argument(help="Judged queries: Parquet, or LETOR text.")
    ] = None,
    model: Annotated[
        str | None,
        MODEL_OR_FEATURE,
        typer.Argument(help="What ranked them: MODEL.json, feature:NAME, or a TREC run."),
    ] = None,
    *,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="What XGBoost, trec_eval and others would print for this ranking."
        ),
    ] = False,
    metric: Annotated[str, typer.Option(help="ndcg, ndcg@10, map or map@10.")] = "ndcg@10",
    queries: Annotated[
        str, typer.Option(help="auto (held-out ones if the model knows them), all, train, …")
    ] = "auto",
    max_features: MaxFeatures = None,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Say what metrics mean; --explain: why others' differ.

    The same ranking has another NDCG or MAP in XGBoost, LightGBM, trec_eval, scikit-learn, ranx,
    RankLib and LETOR's scripts. Each convention is applied to it, and every difference told.
    """
    if not explain:
        if data is not None:
            raise UsageError("DATA and MODEL are for --explain: add it, or use owpc-ltr evaluate")
        _list(plugin or [], as_json)
        return
    if data is None or model is None:
        raise UsageError("--explain is of one ranking: owpc-ltr metrics --explain DATA MODEL")
    from owpc_ltr.api.conventions import explain_metric
    from owpc_ltr.data.datasets import read_dataset

    judged = read_dataset(data, max_features=max_features)
    found = explain_metric(model, judged, metric, queries=queries, plugins=plugin or ())
    if as_json:
        print_json(found.as_dict())
        return
    _print(found)


def _list(plugins: list[Path], as_json: bool) -> None:
    from owpc_ltr.api.conventions import offered_metrics

    found = offered_metrics(plugins)
    if as_json:
        print_json({"metrics": [{"name": one.name, "convention": one.convention} for one in found]})
        return
    rows = [(one.name, one.convention.partition(": ")[2]) for one in found]
    print_table(["METRIC", "MEANS"], rows)


def _print(found: Reconciled) -> None:
    print_wrapped(
        f"{found.n_queries} queries: {found.empty} without relevant documents, {found.tied} with "
        f"tied scores, {found.lone} of one document"
    )
    if found.absent or found.missing or found.unjudged:
        print_wrapped(
            f"the run lacks {found.absent} queries and {found.missing} judged documents, which are "
            f"not retrieved; {found.unjudged} of its documents are not judged: irrelevant"
        )
    if found.missing:
        print_wrapped("only libraries that take such runs are told of")
    print_wrapped(f"ours: {found.convention}")
    typer.echo()
    others = [
        (other.library, other.call, other.value, f"{other.value - found.value:+.4f}")
        for other in found.elsewhere
    ]
    ours = ("owpc-ltr", found.metric, found.value, "")
    print_table(["LIBRARY", "CALLED AS", "PRINTS", "FROM OURS"], [ours, *others])
    typer.echo("\nfrom ours, one step on top of the other:")
    for other in found.elsewhere:
        typer.echo(f"{other.library}, {other.call}{'' if other.steps else ': as ours'}")
        for step in other.steps:
            change = f"{step.change:+.4f}" if abs(step.change) > _NOTHING else "same"
            typer.echo(f"  {change:>7}  {step.what}")
