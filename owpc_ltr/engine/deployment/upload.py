"""`upload`: a model is stored in a cluster and proved there before an alias is switched to it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.engine.deployment.options import Evidence, ProofLimits, ServingOptions
from owpc_ltr.engine.live_queries import LiveQueries, live_metric
from owpc_ltr.engine.options import ExtraFeatures, SearchIndex
from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Progress, Reads, job, option_name, silent

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments.grouping import Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.deployment.gate import Gate, LiveGate
    from owpc_ltr.engine.deployment.upload_result import GateResult, Uploaded
    from owpc_ltr.engine.search.live_evaluation import LiveSearches
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.metrics import Metric
    from owpc_ltr.protocols import Model

_LONGEST_VALUE = 60
"""Characters of a parameter in a printed command; a longer value is left to a file."""


@job(changes_cluster=True)
def upload(
    cluster: Cluster,
    model: Annotated[
        Model | Path | str, Reads("A model file.", cli=Path, absent=NO_MODEL), Argument.RANKER
    ],
    *,
    name: Annotated[
        str | None, Help("The name that applications use; default: the file's."), Argument.NAME
    ] = None,
    index: SearchIndex = None,
    featureset: Annotated[
        str | None,
        Help("The feature set it was trained on; default: found by its hash."),
        Argument.NAME,
    ] = None,
    role: Annotated[
        str,
        Help(
            "champion: the alias NAME is switched to it; challenger: tried beside it.",
            flag="--as",
            metavar="champion|challenger",
        ),
    ] = "champion",
    data: Annotated[
        RankingDataset | Path | str | None,
        Reads(
            "Judged queries: held-out ones for the gain; scores are compared on them, too.",
            cli=Path,
        ),
        Argument.DATA,
    ] = None,
    evidence: Annotated[
        Evidence | None,
        Argument.OPTIONS,
        "The gain that it must have, and what this is measured on; default: none is required.",
    ] = None,
    serving: Annotated[
        ServingOptions | None,
        Argument.OPTIONS,
        "The search that applications send, and where the model may run in it.",
    ] = None,
    limits: Annotated[
        ProofLimits | None,
        Argument.OPTIONS,
        "How far scores and features may be from those of the training.",
    ] = None,
    history: Annotated[
        int | None,
        Help(
            "Earlier versions kept for rollback; default: unchanged, 5 for a new name.",
            min=0,
            panel="Advanced",
        ),
    ] = None,
    extra_features: ExtraFeatures = (),
    plugins: Plugins = (),
    progress: Progress = silent,
) -> Uploaded:
    """Store a model, check its scores in the engine, switch its alias.

    The model is stored under an immutable name, NAME-HASH. If a score differs, or a feature has
    drifted since training, the upload is rolled back: the model is deleted, the alias NAME is not
    switched, and the exit code is 5.

    --require-gain uploads only a model whose gain on held-out queries is significant, with a 95 %
    interval above 0; otherwise nothing is uploaded, and the exit code is 5. The first model of NAME
    is compared with the query alone. With --judgments the gain is measured on live results of the
    whole index: unjudged documents count as irrelevant, and with these left out the gain must not
    be below 0. With --proxy-labels and --human-labels it is the prediction-powered gain: by human
    labels of a sample, with proxy labels of all queries.

    --query-template is also stored as a search template NAME, if the cluster takes one:
    applications then send only NAME and parameters, also after every later switch. Its placeholders
    are {{keywords}}, a list {{#toJson}}filters{{/toJson}}, parameters of the feature set, and those
    that --param has an example of.

    Judgments that cannot show what users get are refused, too; the error has the command that makes
    better ones. For --data this is checked by searches with --query-template. Also fails if the
    model does not fit the LTR plugin's cache.

    Python: `model`, the judgments and the labels may also be objects that were read before, as in
    `evidence=owpc_ltr.types.Evidence(require_gain="ndcg@10", judgments=judgments)`. Warnings of
    the training are repeated, as OwpcLtrWarning.

    Raises Refused if the upload was rolled back; NotBetter, with the comparison, if the gain is not
    met; UsageError for arguments that do not go together.
    """
    from owpc_ltr.data.external_features.columns import tables_of
    from owpc_ltr.engine.deployment.alias import the_name
    from owpc_ltr.engine.deployment.model_upload import upload_model
    from owpc_ltr.engine.deployment.upload_result import NotBetter, RefusedUpload
    from owpc_ltr.engine.search.request import KEYWORDS, search_request
    from owpc_ltr.models.model_file import load_scoring_model, parity_samples_of, warnings_of

    evidence, serving = evidence or Evidence(), serving or ServingOptions()
    template = serving.query_template
    window = cluster.window(template, serving.window)
    judged = _read(evidence, data, template, window, plugins)
    path = Path(model) if isinstance(model, Path | str) else None
    ranker = load_scoring_model(path) if path is not None else model
    assert not isinstance(ranker, Path | str)  # noqa: S101 - told to the type checker
    called = the_name(cluster.engine, cluster.stores, name, path)
    holding = cluster.holding(called)
    trained_on = holding.the_featureset(featureset, ranker.record.get("featureset_hash"))
    where = cluster.the_index(index)
    search = None
    if template is not None:
        search = search_request(
            cluster, KEYWORDS, index=where, query_template=template, params=evidence.params,
            window=window,
        )  # fmt: skip
    if judged.data is not None:
        _check_data(
            cluster, judged.data, ranker, trained_on,
            warn=judged.metric is None or judged.live is not None,
            index=index if judged.live is None else None, query_template=template, window=window,
        )  # fmt: skip
    tables = tables_of(extra_features)

    def searches(of: LiveQueries, metric: Metric) -> LiveSearches:
        query = cluster.template(where, of.query_template)[0]
        return of.question(where, query, [metric], trained_on)

    gate = _gate(judged, evidence, template, window, searches, progress=progress, tables=tables)
    give_warnings(f"in training: {warning}" for warning in warnings_of(ranker.record))
    try:
        return upload_model(
            cluster.engine, holding.store, ranker, trained_on,
            index=where, name=called, role=role, gate=gate,
            samples=None if judged.data is None else parity_samples_of(judged.data),
            history=history, allow_slow=serving.allow_slow,
            window=window, client_scored=serving.client_scored,
            tables=tables, limits=limits or ProofLimits(), search=search,
        )  # fmt: skip
    except NotBetter as refusal:
        options = {
            "--query-template": template, "--window": window, "--index": index,
            "--featureset": featureset,
        }  # fmt: skip
        command = _settling(
            refusal.result, evidence, data, path, extra_features=extra_features, given=options,
            connection=cluster.typed_options,
        )  # fmt: skip
        refused = RefusedUpload(refusal.result)
        raise type(refusal)(refusal.result, command).with_result(refused) from None


@dataclass(frozen=True)
class _Judged:
    """What was read of the evidence: the metric, if a gain is required, and what it is of."""

    metric: Metric | None
    data: RankingDataset | None
    human: Judgments | RankingDataset | None
    live: LiveQueries | None


def _read(
    evidence: Evidence,
    data: RankingDataset | Path | str | None,
    template: Mapping[str, Any] | Path | str | None,
    window: int,
    plugins: Sequence[Path | str],
) -> _Judged:
    """The judged queries and labels. Raises UsageError for options that do not go together."""
    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.evaluation.judged_data import read_lists
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metric

    searched = evidence.judgments is not None
    if not searched and template is None and evidence.params:
        raise UsageError(
            f"{option_name('params')} is for searches of {option_name('judgments')} or with "
            f"{option_name('query_template')}: give one of these, too, or leave it out"
        )
    judgments, proxy_labels, human_labels = read_lists(
        evidence.columns, evidence.judgments, evidence.proxy_labels, evidence.human_labels,
        topics=evidence.topics, asked=searched,
    )  # fmt: skip
    live = None
    if judgments is not None:
        live = LiveQueries(
            judgments, template, window, evidence.split,
            topics=evidence.topics, params=evidence.params, in_flight=evidence.in_flight,
        )  # fmt: skip
    gain = evidence.require_gain
    sources = (data, proxy_labels, human_labels, live)
    if gain is not None and all(source is None for source in sources):
        raise UsageError(
            f"{option_name('require_gain')} needs judged queries to compare on: give "
            f"{option_name('data')} FILE"
        )
    registry = load([Path(plugin) for plugin in plugins]) if plugins else None
    metric = None if gain is None else parse_metric(gain, registry)
    judged, human = gate_judgments(
        metric, read_dataset(Path(data)) if isinstance(data, Path | str) else data,
        proxy=proxy_labels, human=human_labels, live=live,
    )  # fmt: skip
    _check_gain(metric, live, evidence.accept_unproven)
    return _Judged(metric, judged, human, live)


def gate_judgments(
    metric: Any,
    data: RankingDataset | None,
    *,
    proxy: Any,
    human: Any,
    live: LiveQueries | None,
) -> tuple[RankingDataset | None, Judgments | RankingDataset | None]:
    """The judged queries; where these are proxy labels, human labels of a sample.

    Raises UsageError for arguments that do not go together.
    """
    proxy_option, human_option = option_name("proxy_labels"), option_name("human_labels")
    if proxy is None and human is None:
        return data, None
    if proxy is None or human is None:
        missing = proxy_option if proxy is None else human_option
        raise UsageError(
            "proxy labels of all queries and human labels of a sample go together: also give "
            f"{missing}"
        )
    if metric is None:
        raise UsageError(
            f"{proxy_option} and {human_option} measure a gain: name its metric with "
            f"{option_name('require_gain')}"
        )
    if data is not None or live is not None:
        other = option_name("data" if data is not None else "judgments")
        raise UsageError(
            f"{proxy_option} and {other} are two ways to measure a gain: leave out one"
        )
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
    from owpc_ltr.evaluation.judged_data import read_data
    from owpc_ltr.evaluation.proxy_labels import judged_data

    people = read_data(human) if isinstance(human, Path | str) else human
    if isinstance(people, PartitionedDataset):
        people = in_memory(people, human_option)
    return judged_data(proxy), people


def _check_gain(metric: Any, live: Any, accepted: str | None) -> None:
    """Refuse options of a gain where none is required."""
    if metric is None and live is not None:
        raise UsageError(
            f"{option_name('judgments')} measures a gain: name its metric with "
            f"{option_name('require_gain')}"
        )
    if accepted is not None and metric is None:
        raise UsageError(
            f"{option_name('accept_unproven')} needs {option_name('require_gain')}: leave it out"
        )
    if accepted is not None and not accepted.strip():
        raise UsageError(
            f"{option_name('accept_unproven')} is empty: give the reason, which is recorded"
        )


def _gate(
    judged: _Judged,
    evidence: Evidence,
    template: Mapping[str, Any] | Path | str | None,
    window: int,
    searches: Callable[[LiveQueries, Metric], LiveSearches],
    **shared: Any,
) -> Gate | LiveGate | None:
    """The gate that compares live results, or on judged documents; None without a metric."""
    from owpc_ltr.engine.deployment.gate import Gate, LiveGate

    live, data, metric, gain = judged.live, judged.data, judged.metric, evidence.smallest_gain
    shared |= {"over": evidence.baseline, "accepted": evidence.accept_unproven}
    if metric is None:
        return None
    if live is not None:
        question = replace(searches(live, metric), smallest_gain=gain)
        return LiveGate(question, side=live.split, **shared)
    assert data is not None  # noqa: S101 - told to the type checker
    measured = live_metric(metric, window)

    def ask(part: RankingDataset) -> LiveSearches:
        return searches(LiveQueries(part, template, window=window), measured)

    return Gate(metric, data, ask, human=judged.human, smallest_gain=gain, **shared)


def _check_data(
    cluster: Cluster,
    data: RankingDataset,
    ranker: Model,
    featureset: FeatureSet,
    *,
    warn: bool,
    index: str | None,
    **how: Any,
) -> None:
    """Refuse data of other features; `warn` of judgments that look harmful, as gates do themselves.

    Where an index is named, searches check them. `how` is the application's query, and the window.
    """
    from owpc_ltr.evaluation.judged_data import judgment_warnings
    from owpc_ltr.evaluation.query_choice import check_features
    from owpc_ltr.features.query_analysis import text_scores

    check_features(ranker, data, featureset.name)
    if not warn:
        return
    warnings = [warning.line for warning in judgment_warnings(data, text_scores(featureset))]
    if index is not None and data.doc_ids is not None and data.query_params is not None:
        warnings += cluster.check_judgments(data, index=index, **how)
    give_warnings(warnings)


def _settling(
    result: GateResult,
    evidence: Evidence,
    data: Any,
    model: Path | None,
    *,
    extra_features: Any,
    given: Mapping[str, Any],
    connection: Sequence[str],
) -> str:
    """The command that makes conclusive judgments, with these options too.

    Empty where there is none, or where an argument is not a file that a command could name.
    """
    from owpc_ltr.engine.search.live_evaluation import QUERY_ALONE
    from owpc_ltr.evaluation.ranked_lists import TOP

    if evidence.judgments is not None:
        queries, judged = evidence.topics or evidence.judgments, evidence.judgments
    else:
        queries = data or evidence.proxy_labels
        judged = evidence.human_labels if data is None else data
    tables = list(extra_features) if isinstance(extra_features, list | tuple) else [extra_features]
    typed = all(isinstance(file, Path | str) for file in (queries, model, judged, *tables))
    if not typed or isinstance(given["--query-template"], Mapping):
        return ""
    if not result.comparison.verdict().warnings or result.to_judge is None:
        return ""
    other = "query" if result.over == QUERY_ALONE else result.over
    columns = ",".join(f"{role}={name}" for role, name in (evidence.columns or {}).items())
    options = {
        "--queries": queries, "--columns": columns or None, "--sample": result.to_judge[0],
        "--rankers": f"{other},{model}", "--depth": TOP, "--judged": judged,
        "--out": "to-judge.csv", **given,
    }  # fmt: skip
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    words += connection
    for name, value in (evidence.params or {}).items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--param", f"{name}={text}" if len(text) <= _LONGEST_VALUE else f"{name}=@FILE"]
    words += [word for table in tables for word in ("--extra-features", table)]
    return "owpc-ltr judge pool " + " ".join(shlex.quote(str(word)) for word in words)
