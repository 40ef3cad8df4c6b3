"""`owpc-ltr doctor`: what an upgrade of the engine would do to rankings, before it is done."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.cluster import ClusterOptions
from owpc_ltr.cli.files import A_FEATURE_SET, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import print_json


class Distribution(StrEnum):
    """The engines that the LTR plugin runs in."""

    opensearch = "opensearch"
    elasticsearch = "elasticsearch"


@grouped
def doctor(
    *,
    model: Annotated[
        Path, Reads(), typer.Option(help="A model file, or a stored model (GET _ltr/_model/NAME).")
    ],
    data: Annotated[
        Path | None,
        Reads(),
        typer.Option(
            help="Judged queries, logged on the old version: Parquet, or LETOR; default: the few "
            "that a model file remembers."
        ),
    ] = None,
    after: Annotated[str, typer.Option("--to", help="The new version, as 3.8.")],
    before: Annotated[
        str | None, typer.Option("--from", help="The old version; default: the cluster's own.")
    ] = None,
    distribution: Annotated[
        Distribution | None, typer.Option(help="Default: the cluster's, or opensearch.")
    ] = None,
    featureset: Annotated[
        Path | None,
        A_FEATURE_SET,
        typer.Option(help="Its feature set (JSON), which tells the features that are text scores."),
    ] = None,
    cluster: ClusterOptions,
    as_json: Json = False,
) -> None:
    """Tell what an upgrade of the engine would do to rankings.

    Judged documents are scored as both versions would, and the rankings compared.

    Exit code 5 if the order of a query changes, or the new version does not take the model.
    """
    from owpc_ltr.api.datasets import read_dataset
    from owpc_ltr.api.models import upgrade_report
    from owpc_ltr.errors import Refused

    kind = distribution.value if distribution is not None else None
    if before is None:
        kind, before = _running(cluster, kind)
    report = upgrade_report(
        model,
        distribution=kind or "opensearch",
        before=before,
        after=after,
        data=None if data is None else read_dataset(data),
        featureset=featureset,
    )
    where = f"{model} itself" if data is None else str(data)
    old, new = report.before, report.after
    if as_json:
        print_json({"model": str(model), "data": where, **report.as_dict()})
    else:
        typer.echo(f"{model} on {report.effect.queries} queries of {where}, from {old} to {new}:")
        for sentence in report.sentences():
            typer.echo(f"- {sentence}")
    if report.changes_rankings:
        raise Refused(
            f"the upgrade from {old} to {new} changes rankings: train and upload for {new}, and "
            "measure it, before you upgrade"
        )


def _running(cluster: ClusterOptions, kind: str | None) -> tuple[str, str]:
    """What the cluster runs. Raises UsageError where it is another engine than said."""
    from owpc_ltr.errors import UsageError

    engine = cluster.connect().engine
    identity = engine.identity()
    if kind not in {None, identity.distribution}:
        raise UsageError(
            f"{engine.settings.url} runs {identity.distribution}, not {kind}: leave --distribution "
            "out, or say --from"
        )
    return identity.distribution, identity.version
