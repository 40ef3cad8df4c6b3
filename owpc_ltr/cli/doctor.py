"""`owpc-ltr doctor`: what an upgrade of the engine would do to rankings, before it is done."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import Cluster
from owpc_ltr.cli.files import A_FEATURE_SET, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import print_json

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.interop.engine_versions import ServingProfile
    from owpc_ltr.interop.upgrade_report import Deployed


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
    cluster: Cluster,
    as_json: Json = False,
) -> None:
    """Score judged documents as both versions of the engine would, and compare the rankings.

    Exit code 5 if the order of a query changes, or the new version does not take the model.
    """
    from owpc_ltr.errors import Refused
    from owpc_ltr.features.loading import load_featureset
    from owpc_ltr.interop.upgrade_report import diagnose, read_deployed

    old, new = _versions(distribution, before, after, cluster)
    named = None if featureset is None else load_featureset(featureset)
    deployed = read_deployed(model, old, named)
    judged, where = _judged(deployed, model, data)
    diagnosis = diagnose(deployed, judged, old, new)
    if as_json:
        print_json({"model": str(model), "data": where, **diagnosis.as_dict()})
    else:
        typer.echo(f"{model} on {judged.n_queries} queries of {where}, from {old} to {new}:")
        for sentence in diagnosis.sentences():
            typer.echo(f"- {sentence}")
    if diagnosis.changes_rankings:
        raise Refused(
            f"the upgrade from {old} to {new} changes rankings: train and upload for {new}, and "
            "measure it, before you upgrade"
        )


def _judged(deployed: Deployed, path: Path, data: Path | None) -> tuple[RankingDataset, str]:
    """The queries to score, and where they are from. Raises UsageError where there are none."""
    from owpc_ltr.data.parquet import read_dataset
    from owpc_ltr.errors import UsageError
    from owpc_ltr.models.parity_samples import dataset_of

    if data is not None:
        return read_dataset(data), str(data)
    model = deployed.model
    probes = model.record.get("probes") if model is not None else None
    if model is None or not probes:
        raise UsageError(f"{path} remembers no judged documents: give --data FILE")
    return dataset_of(probes, model.feature_names), f"{path} itself"


def _versions(
    distribution: Distribution | None, before: str | None, after: str, cluster: Cluster
) -> tuple[ServingProfile, ServingProfile]:
    """The old and the new version; what is not said of the old one, the cluster tells."""
    from owpc_ltr.interop.engine_versions import serving_profile

    kind = distribution.value if distribution is not None else None
    if before is None:
        kind, before = _running(cluster, kind)
    kind = kind or "opensearch"
    return serving_profile(kind, before), serving_profile(kind, after)


def _running(cluster: Cluster, kind: str | None) -> tuple[str, str]:
    """What the cluster runs. Raises UsageError where it is another engine than said."""
    from owpc_ltr.errors import UsageError

    engine = cluster.connect()
    identity = engine.identity()
    if kind not in {None, identity.distribution}:
        raise UsageError(
            f"{engine.settings.url} runs {identity.distribution}, not {kind}: leave --distribution "
            "out, or say --from"
        )
    return identity.distribution, identity.version
