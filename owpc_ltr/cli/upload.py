"""`owpc-ltr upload`: a model into the cluster, proven there before it gets its name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.files import A_MODEL, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.live import LiveOptions
from owpc_ltr.cli.options import (
    ExtraFeatures,
    Index,
    Json,
    MinProofCoverage,
    PluginFiles,
    Tolerance,
)
from owpc_ltr.cli.output import Progress, print_json, print_table, print_wrapped, progress
from owpc_ltr.cli.proofs import print_drift, print_proof
from owpc_ltr.engine.options import MAX_DRIFT, MIN_PROOF_COVERAGE, PARITY_TOLERANCE
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.results import GateResult, Uploaded


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What must be shown of a new model before its name points to it, and on which data."""

    require_gain: Annotated[
        str | None,
        typer.Option(
            help="Upload only if it is better in this metric (ndcg@10); needs --data or --live."
        ),
    ] = None
    baseline: Annotated[
        str,
        typer.Option(
            help="What it must be better than: champion, challenger, NAME-HASH, or with --live "
            "query: the query alone."
        ),
    ] = "champion"
    data: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Judged queries: held-out ones for the gain, and for the scores' check."),
    ] = None
    proxy_labels: Annotated[
        Path | None,
        Reads(),
        typer.Option(
            help="In place of --data: proxy labels (clicks, a language model) of all queries, "
            "beside --human-labels."
        ),
    ] = None
    human_labels: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Human labels of a random sample of them: a list or a dataset."),
    ] = None
    strata: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="The strata that judge sample wrote, if it drew the sample."),
    ] = None

    live: LiveOptions
    split: Annotated[
        str, typer.Option(help="With --live: auto (held-out ones if the model knows them), all, …")
    ] = "auto"
    accept_unproven: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Let it in although the judgments cannot tell whether users get better results; "
            "REASON is kept. Scores are proved all the same.",
        ),
    ] = None
    plugin: PluginFiles = None

    def asked(self, show: Progress) -> dict[str, Any]:
        """What must be shown, as an upload takes it."""
        self.live.refuse_without_live()
        given = self.data or self.proxy_labels or self.human_labels
        if self.require_gain and given is None and not self.live.live:
            raise UsageError("--require-gain needs judged queries to compare on: give --data FILE")
        proof = self.live.proof(self.split) if self.live.live else None
        judged = None if self.data is None else _read(self.data)
        seen = (
            {}
            if proof
            else {"query_template": self.live.query_template, "window": self.live.window}
        )
        return {
            **seen,
            "require_gain": self.require_gain,
            "baseline": self.baseline,
            "data": judged,
            "proxy_labels": self.proxy_labels,
            "human_labels": self.human_labels,
            "strata": self.strata,
            "live": proof,
            "accept_unproven": self.accept_unproven,
            "plugins": self.plugin or (),
            "progress": show,
        }

    @property
    def judged_queries(self) -> Path | None:
        """The file whose queries would be judged, to settle what the judgments cannot tell."""
        if self.live.live:
            return self.live.topics or self.live.judgments
        return self.data or self.proxy_labels


@dataclass(frozen=True)
class Keeping:
    """What the cluster keeps: earlier models to go back to, models beyond its cache, or scripts."""

    history: Annotated[
        int | None,
        typer.Option(
            min=0, help="Earlier versions kept for rollback; default: unchanged, 5 for a new name."
        ),
    ] = None
    allow_slow: Annotated[
        bool,
        typer.Option("--allow-slow", help="Upload it although every search must compile it anew."),
    ] = False
    budget: Annotated[
        str | None,
        typer.Option(
            help="Without the LTR plugin, trees of at most 64 tables and feature queries run "
            "inside the engine, larger ones on the client. With a time as 10ms: those that add no "
            "more than this to a search, measured now. 0 = always score on the client."
        ),
    ] = None
    client_scored: Annotated[
        bool,
        typer.Option(
            "--client-scored",
            help="The client scores it, whatever the engine can run; what is in no index it looks "
            "up in --extra-features.",
        ),
    ] = False

    @property
    def milliseconds(self) -> float | None:
        """The budget in milliseconds. Raises UsageError for what is no time."""
        if self.budget is None:
            return None
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)?", self.budget.strip())
        if match is None:
            raise UsageError(f"--budget is a time as 10ms or 0.5s, not '{self.budget[:40]}'")
        return float(match[1]) * (1000 if match[2] == "s" else 1)


@grouped
def upload(
    model: Annotated[Path, A_MODEL, typer.Argument(help="A model file.")],
    *,
    index: Index = None,
    featureset: Annotated[
        str | None, typer.Option(help="The feature set it was trained on; default: found by hash.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name that applications use; default: the file's.")
    ] = None,
    tolerance: Tolerance = PARITY_TOLERANCE,
    max_drift: Annotated[
        float,
        typer.Option(
            min=0,
            help="How far a feature may have moved since training, in standard deviations.",
        ),
    ] = MAX_DRIFT,
    min_proof_coverage: MinProofCoverage = MIN_PROOF_COVERAGE,
    role: Annotated[
        str,
        typer.Option(
            "--as", help="champion: the alias NAME is switched to it; challenger: tried beside it."
        ),
    ] = "champion",
    extra_features: ExtraFeatures = None,
    proof: Proof,
    keeping: Keeping,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Store a model, prove its scores there, then give it a name.

    The model is kept under an immutable name, NAME-HASH. If a score differs, or a feature is not
    what it was in training, the upload is rolled back: the model is deleted, the alias NAME is not
    switched, and the exit code is 5.

    Nothing is uploaded, with the same exit code, if --require-gain is not met: the gain on held-out
    queries must be significant, with a 95 % interval above 0. The first model of NAME is compared
    with the query alone. With --live the gain is of what users get from the whole index, with
    unjudged documents as irrelevant; with these left out it must not be below 0. With
    --proxy-labels and --human-labels it is the gain by human labels of a sample, made sharper by
    proxy labels of all queries (prediction-powered).

    Judgments that cannot tell what users get are refused, too; the error has the command that makes
    better ones. Whether --data can tell is seen by searches with --query-template. Also fails if
    the model does not fit the LTR plugin's cache.
    """
    from owpc_ltr.api.results import NotBetter

    budget = keeping.milliseconds
    try:
        with progress() as show:
            uploaded = place.connect().upload(
                model,
                name,
                index=index,
                featureset=featureset,
                role=role,
                tolerance=tolerance,
                history=keeping.history,
                allow_slow=keeping.allow_slow,
                max_drift=max_drift,
                min_proof_coverage=min_proof_coverage,
                budget=budget,
                client_scored=keeping.client_scored,
                extra_features=extra_features,
                **proof.asked(show),
            )
    except NotBetter as refusal:
        if as_json:
            print_json({"model": None, "gate": refusal.result.as_dict()})
        else:
            _print_found(refusal.result)
        settled = _settling(refusal.result, model, index, featureset, extra_features, proof, place)
        raise type(refusal)(refusal.result, settled) from None
    called = uploaded.alias.name
    if as_json:
        print_json({"name": called, **_summary(uploaded)})
        return
    _print(uploaded, called, role)
    if uploaded.gate is not None:
        print_wrapped(f"{uploaded.gate.verdict}")
        if uploaded.gate.accepted is not None:
            print_wrapped(f"accepted unproven: {uploaded.gate.accepted}")
        print_wrapped(uploaded.gate.gain)
        _print_found(uploaded.gate)


def _read(path: Path) -> Any:
    from owpc_ltr.data.datasets import read_dataset

    return read_dataset(path)


def _summary(uploaded: Uploaded) -> dict[str, Any]:
    from owpc_ltr.engine.deployment.feature_drift import drift_as_dict

    return {
        "model": uploaded.model,
        "previous": list(uploaded.alias.previous),
        "challenger": uploaded.alias.challenger,
        "store_kind": uploaded.store_kind,
        "type": uploaded.type,
        "form": uploaded.form.as_dict() if uploaded.form else None,
        "parity": uploaded.parity.as_dict(),
        "drift": drift_as_dict(uploaded.features, uploaded.rankings),
        "gate": uploaded.gate.as_dict() if uploaded.gate else None,
    }


def _print(uploaded: Uploaded, name: str, role: str) -> None:
    role_in_words = (
        f"alias '{name}' switched to it"
        if role == "champion"
        else f"challenger of the alias '{name}'"
    )
    typer.echo(f"stored {uploaded.model} ({uploaded.store_kind}); {role_in_words}")
    if uploaded.form is not None and uploaded.form.words:
        typer.echo(uploaded.form.words)
    print_proof(uploaded.parity)
    print_drift(uploaded.features, uploaded.rankings, "training")


def _print_found(result: GateResult) -> None:
    """What is known of a gate's comparison besides the gain."""
    if result.evidence:
        print_wrapped(result.evidence)
    for caution in result.cautions:
        print_wrapped(caution)
    _print_losers(result.losers)


def _settling(
    result: GateResult,
    model: Path,
    index: str | None,
    featureset: str | None,
    extra_features: Sequence[Path] | None,
    proof: Proof,
    place: StoreOptions,
) -> str:
    """The command that makes judgments which can tell, as it is typed; empty where none would."""
    if not result.verdict.doubts or proof.judged_queries is None or result.to_judge is None:
        return ""
    other = "query" if result.of_the_query else result.over
    given = {
        "--queries": proof.judged_queries, "--sample": result.to_judge[0],
        "--rankers": f"{other},{model}", "--depth": result.depth, "--out": "to-judge.csv",
        "--query-template": proof.live.query_template, "--window": proof.live.window,
        "--index": index,
        "--featureset": featureset, "--store-kind": place.store_kind, "--store": place.store,
        "--url": place.cluster.url, "--ca": place.cluster.ca,
    }  # fmt: skip
    words = [word for name, value in given.items() if value is not None for word in (name, value)]
    words += [word for one in proof.live.param or () for word in ("--param", one)]
    words += [word for one in extra_features or () for word in ("--extra-features", one)]
    words += ["--insecure"] if place.cluster.insecure else []
    return "owpc-ltr judge pool " + " ".join(shlex.quote(str(word)) for word in words)


def _print_losers(losers: Sequence[dict[str, Any]]) -> None:
    if losers:
        print_table(
            ["LOSES MOST", "KEYWORDS", "OLD", "NEW"],
            [(one["query_id"], one["keywords"], one["old"], one["new"]) for one in losers],
        )
