"""`owpc-ltr verify`: the proof of an uploaded model, repeated any day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import ExtraFeatures, Json, MinProofCoverage, Report, Tolerance
from owpc_ltr.cli.output import print_json, print_table
from owpc_ltr.cli.proofs import print_drift, print_proof
from owpc_ltr.engine.options import MAX_DRIFT, MIN_PROOF_COVERAGE, PARITY_TOLERANCE
from owpc_ltr.host.report import write_report

if TYPE_CHECKING:
    from owpc_ltr.api.results import Verified


@grouped
def verify(
    name: Annotated[
        str | None, typer.Argument(help="The name that applications use, or NAME-HASH.")
    ] = None,
    *,
    index: Annotated[
        str | None, typer.Option(help="The index (or alias); default: where it was proved.")
    ] = None,
    tolerance: Tolerance = PARITY_TOLERANCE,
    max_drift: Annotated[
        float,
        typer.Option(help="How far a feature may move in the mean, in standard deviations."),
    ] = MAX_DRIFT,
    min_proof_coverage: MinProofCoverage = MIN_PROOF_COVERAGE,
    extra_features: ExtraFeatures = None,
    report: Report = None,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Prove an uploaded model again, and look for drift.

    The cluster itself remembers what is needed.

    Compared are the feature set, the engine's version, the index, its mapping, the features of the
    model's judged documents, and the scores. Where something drifted the exit code is 5.
    """
    from owpc_ltr.errors import Refused

    found = place.connect().verify(
        name,
        index=index,
        tolerance=tolerance,
        max_drift=max_drift,
        min_proof_coverage=min_proof_coverage,
        extra_features=extra_features,
    )
    write_report(found, report)
    if as_json:
        print_json(found.as_dict())
    else:
        _print_proof(found)
    if found.drift:
        raise Refused(
            f"'{found.model}' has drifted since it was uploaded: {'; '.join(found.drift)}"
        )
    if not as_json:
        for note in found.notes:
            typer.echo(note)
        typer.echo(f"'{found.model}' is what it was when it was uploaded")


def _print_proof(found: Verified) -> None:
    """How far scores differ and features moved; nothing where it did not come to that."""
    parity = found.parity
    if not parity:
        return
    print_table(
        ["FEATURE", "MOVED BY", "MEAN THEN", "MEAN NOW"],
        [(one.feature, one.by, one.mean_before, one.mean_now) for one in found.features],
    )
    print_proof(parity)
    print_drift(found.features, found.rankings, "upload")
