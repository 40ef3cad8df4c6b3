"""Options of uploads and switches: evidence, how a model is served, and its proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from owpc_ltr.engine.deployment.parity import MAX_DRIFT, MIN_PROOF_COVERAGE, PARITY_TOLERANCE
from owpc_ltr.engine.options import (
    MaxDrift,
    MinProofCoverage,
    Params,
    QueryTemplate,
    Tolerance,
    Window,
)
from owpc_ltr.signatures import Help, Reads, Writes

EvidenceFile = Annotated[
    Path | str | None,
    Writes("Also write the comparison as evidence (JSON) that upload and promote --require read."),
]
Require = Annotated[
    Any,
    Reads(
        "Evidence that the model is better than what the alias serves now: the file that "
        "compare-live or experiment status wrote with --out.",
        cli=Path,
    ),
]
Unproven = Annotated[
    str | None,
    Help("Replace the champion without evidence, for this reason, which is recorded."),
]


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """The search that applications send, and where the model may run in it."""

    query_template: QueryTemplate = None
    params: Params = None
    window: Window = None
    allow_slow: Annotated[
        bool,
        Help(
            "Upload a model that exceeds the LTR plugin's cache, so that each search compiles it.",
            panel="Model",
        ),
    ] = False
    client_scored: Annotated[
        bool,
        Help(
            "Always score on the client; external features are looked up by serve.", panel="Model"
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ProofLimits:
    """How far scores and features may be from those of the training, and on how many documents."""

    tolerance: Tolerance = PARITY_TOLERANCE
    max_drift: MaxDrift = MAX_DRIFT
    min_proof_coverage: MinProofCoverage = MIN_PROOF_COVERAGE
