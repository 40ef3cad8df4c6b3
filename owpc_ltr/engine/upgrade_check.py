"""`upgrade_check`: what an upgrade of the engine would do to rankings, before it is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from owpc_ltr.engine.options import Authority, Insecure, Url
from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import NO_FEATURE_SET, Argument, Help, Reads, job, option_name

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.formats.upgrade_report import UpgradeReport

Distribution = Literal["opensearch", "elasticsearch"]


@job
def upgrade_check(
    *,
    model: Annotated[
        Path | str,
        Reads("A model file, or a stored model (GET _ltr/_model/NAME)."),
        Argument.RANKER,
    ],
    data: Annotated[
        RankingDataset | Path | str | None,
        Reads(
            "Judged queries, logged on the old version: Parquet, or LETOR; default: the few that "
            "a model file remembers."
        ),
        Argument.DATA,
    ] = None,
    after: Annotated[str, Help("The new version, as 3.8.", flag="--to", metavar="VERSION")],
    before: Annotated[
        str | None,
        Help("The old version; default: the cluster's own.", flag="--from", metavar="VERSION"),
    ] = None,
    distribution: Annotated[
        Distribution | None, Help("Default: the cluster's, or opensearch.")
    ] = None,
    featureset: Annotated[
        FeatureSet | Path | str | None,
        Reads(
            "Its feature set (JSON), which tells the features that are text scores.",
            absent=NO_FEATURE_SET,
        ),
        Argument.NAME,
    ] = None,
    url: Url = None,
    ca: Authority = None,
    insecure: Insecure = False,
) -> UpgradeReport:
    """Predict how an upgrade of the engine changes rankings.

    Judged documents are scored as both versions would score them, and the rankings are compared.

    Exit code 5 if the order of a query changes, or the new version does not take the model.

    Python: the report says `changes_rankings`.
    Raises UsageError where there are no judged documents, or the cluster runs another engine.
    """
    from dataclasses import replace

    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.features.feature_set import load_featureset
    from owpc_ltr.formats.engine_versions import serving_profile
    from owpc_ltr.formats.upgrade_report import report_upgrade

    runs: str | None = distribution
    if before is None:
        runs, before = _running(url, ca, insecure, distribution)
    old, new = (serving_profile(runs or "opensearch", version) for version in (before, after))
    data_name = f"{model} itself"
    if isinstance(data, Path | str):
        data, data_name = read_dataset(Path(data)), str(data)
    elif data is not None:
        data_name = "the data"
    if isinstance(featureset, Path | str):
        featureset = load_featureset(Path(featureset))
    report = report_upgrade(Path(model), old, new, data, featureset)
    return replace(report, model=str(model), data=data_name)


def _running(
    url: Url, ca: Path | str | None, insecure: bool, kind: Distribution | None
) -> tuple[str, str]:
    """What the cluster runs. Raises UsageError where it is another engine than said."""
    from owpc_ltr.engine.connect import connect

    engine = connect(url, ca=ca, insecure=insecure).engine
    identity = engine.identity()
    if kind not in {None, identity.distribution}:
        raise UsageError(
            f"{engine.settings.url} runs {identity.distribution}, not {kind}: leave out "
            f"{option_name('distribution')}, or give {option_name('before')}"
        )
    return identity.distribution, identity.version
