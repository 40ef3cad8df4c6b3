"""Options of `upload` that belong together: the required gain, how it is served, its proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Columns, Topics
from owpc_ltr.engine.deployment.parity import MAX_DRIFT, MIN_PROOF_COVERAGE, PARITY_TOLERANCE
from owpc_ltr.engine.live_queries import InFlight
from owpc_ltr.engine.options import (
    IN_FLIGHT,
    MaxDrift,
    MinProofCoverage,
    Params,
    QueryTemplate,
    Tolerance,
    Window,
)
from owpc_ltr.evaluation.options import SmallestGain
from owpc_ltr.signatures import Help, Reads
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.engine.live_queries import Judged


@dataclass(frozen=True, kw_only=True, repr=False)
class Evidence(ShortRepr):
    """The gain that a model must have before it is uploaded, and what it is measured on."""

    require_gain: Annotated[
        Any,
        Help(
            "Upload only if it is better in this metric (ndcg@10); needs --data or --judgments.",
            cli=str,
            metavar="METRIC",
            python="Upload only if it is better in this metric (ndcg@10); needs `data` or "
            "`judgments`.",
        ),
    ] = None
    smallest_gain: SmallestGain = 0.0
    baseline: Annotated[
        str,
        Help(
            "What it must be better than: champion, challenger, NAME-HASH, or with --judgments "
            "`query`, the query alone.",
            metavar="RANKER",
        ),
    ] = "champion"
    judgments: Annotated[
        Judged | None,
        Reads(
            "Judged queries to search live, in the whole index: TSV, CSV, qrels …, or a dataset.",
            cli=Path,
        ),
    ] = None
    columns: Columns = None
    topics: Topics = None
    split: Annotated[
        str,
        Help(
            "Which queries of --judgments: auto (those that no ranker was trained on), all, "
            "test, validation or train.",
            panel="Data",
            metavar="SPLIT",
        ),
    ] = "auto"
    proxy_labels: Annotated[
        Any,
        Reads(
            "In place of --data: proxy labels (clicks, a language model) of all queries, beside "
            "--human-labels.",
            cli=Path,
            panel="Data",
            python="In place of `data`: proxy labels (clicks, a language model) of all queries, "
            "beside `human_labels`.",
        ),
    ] = None
    human_labels: Annotated[
        Any,
        Reads(
            "Human labels of a random sample of these queries: a list or a dataset.",
            cli=Path,
            panel="Data",
        ),
    ] = None
    accept_unproven: Annotated[
        str | None,
        Help(
            "Upload even if the judgments cannot show whether users get better results; "
            "REASON is recorded. Scores are still checked.",
            metavar="REASON",
            panel="Advanced",
        ),
    ] = None
    params: Params = None
    in_flight: InFlight = IN_FLIGHT


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """The search that applications send, and where the model may run in it."""

    query_template: QueryTemplate = None
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
            "Always score on the client; features from outside the index are looked up in "
            "--extra-features.",
            panel="Model",
            python="Always score on the client; features from outside the index are looked up in "
            "`extra_features`.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ProofLimits:
    """How far scores and features may be from those of the training, and on how many documents."""

    tolerance: Tolerance = PARITY_TOLERANCE
    max_drift: MaxDrift = MAX_DRIFT
    min_proof_coverage: MinProofCoverage = MIN_PROOF_COVERAGE
